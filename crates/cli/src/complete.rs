//! Completions that ask: models, tasks, inputs, options and folders of the service, and profiles.
//!
//! The shell calls the command with the words so far. A service that is unknown or not prompt completes nothing.

use std::ffi::OsStr;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Args, FromArgMatches as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use inferstore::types::{ModelVersioning, TaskRecord};
use inferstore::{Client, by_position};

use crate::candidates::{Word, candidates};
use crate::environment::Environment;
use crate::lists;
use crate::output::{Output, OutputOptions};
use crate::settings::{Global, Session};

const TIMEOUT: Duration = Duration::from_millis(800);

const MAX_TASKS: u64 = 30;

pub(crate) fn models() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| asked(current, async |client, _| models_of(&client).await))
}

/// Identifiers of the newest tasks, and `@last`.
pub(crate) fn tasks() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| asked(current, async |client, _| tasks_of(&client).await))
}

pub(crate) fn models_and_tasks() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        asked(current, async |client, _| Some([models_of(&client).await?, tasks_of(&client).await?].concat()))
    })
}

/// Names and values of the inputs of the model on the command line, and files. `Arguments` are those of `run`.
pub(crate) fn inputs<Arguments: Args>() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let text = current.to_str().unwrap_or_default().to_owned();
        let mut candidates = asked(current, async move |client, words| {
            let words = words.into_iter().skip_while(|word| word != "run");
            let run = Arguments::augment_args(Global::augment_args(clap::Command::new("run")));
            // The word to complete may be an incomplete option, and required arguments may be missing.
            let given = run.ignore_errors(true).try_get_matches_from(words).ok()?;
            let model = given.get_one::<String>("model")?;
            Some(inputs_of(&client.model(model).versioning().await.ok()?, &text))
        });
        candidates.extend(files(current));
        candidates
    })
}

async fn models_of(client: &Client) -> Option<Vec<Word>> {
    let models = lists::first_models(client).await.ok()?;
    Some(models.into_iter().map(|model| (model.id.to_string(), model.description)).collect())
}

async fn tasks_of(client: &Client) -> Option<Vec<Word>> {
    let newest = lists::newest_tasks(client, MAX_TASKS).await.ok()?;
    let describe = |task: &TaskRecord| {
        let status = task.status.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{} {status}", task.model_id.clone().unwrap_or_default())
    };
    let tasks = newest.iter().map(|task| (task.task_id.to_string(), Some(describe(task))));
    Some(tasks.chain([("@last".to_owned(), Some("the newest task".to_owned()))]).collect())
}

fn inputs_of(version: &ModelVersioning, current: &str) -> Vec<Word> {
    let mut words = Vec::new();
    for (name, input) in by_position(version.input_format.as_ref()) {
        if current.starts_with(&format!("{name}=")) {
            let samples = input.samples.iter().flatten();
            words.extend(samples.map(|sample| (format!("{name}={}", sample.as_str()), None)));
        } else {
            words.push((format!("{name}="), input.type_.as_ref().map(ToString::to_string)));
        }
    }
    words
}

/// Files of the folder that is typed, also behind `name=@`.
fn files(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let at = current.find("=@").map_or(0, |at| at + 2);
    let (prefix, typed) = current.split_at(at);
    let found = PathCompleter::any().filter(|path| !path.is_dir()).complete(OsStr::new(typed)).into_iter();
    found.map(|file| file.add_prefix(prefix)).collect()
}

/// The words that the service has for this position. Settings come from the words so far.
fn asked(
    current: &OsStr,
    ask: impl AsyncFnOnce(Client, Vec<String>) -> Option<Vec<Word>>,
) -> Vec<CompletionCandidate> {
    let words: Vec<String> = std::env::args().skip_while(|word| word != "--").skip(1).collect();
    let found = client_of(&words).and_then(|client| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        runtime.block_on(async { tokio::time::timeout(TIMEOUT, ask(client, words)).await.ok().flatten() })
    });
    candidates(found.unwrap_or_default(), current)
}

fn client_of(words: &[String]) -> Option<Client> {
    let mut environment = Environment::of_this_process();
    // Warnings would garble the line that is being typed.
    environment.stderr = Box::new(std::io::sink());
    let output = Output::new(&mut environment, OutputOptions::default());
    // Options that choose the service, wherever they stand among words that are not complete.
    let mut settings = vec!["inferstore".to_owned()];
    for (place, word) in words.iter().enumerate() {
        if ["--base-url", "--api-key", "--profile"].iter().any(|name| word.starts_with(name)) {
            settings.push(word.clone());
            settings.extend(words.get(place + 1).filter(|_| !word.contains('=')).cloned());
        }
    }
    let options = Global::augment_args(clap::Command::new("inferstore"));
    let global = Global::from_arg_matches(&options.try_get_matches_from(settings).ok()?).ok()?;
    let session = Session { global, environment, output };
    // A keyring that is locked waits for a person.
    let (sender, client) = mpsc::channel();
    std::thread::spawn(move || sender.send(session.client().ok()));
    client.recv_timeout(TIMEOUT).ok().flatten()
}
