//! `inferstore run`.

mod batch;
mod contents;
mod entries;
mod inputs;
mod interrupt;
mod journal;
mod rows;
mod summary;
mod sweeps;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clap::{Args, FromArgMatches as _, ValueHint};
use inferstore::types::{TaskDetail, TaskId, UploadFolder};
use inferstore::{Abandon, Client, Decimal, Error, Inputs, Outcome, ViolationKind, is_http};
use inferstore_batch::limit_pause;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, timeout};

use super::models;
use super::outcome::{WaitOptions, ended_task, outcome_report, stem_of_inputs, with_paths};
use super::outputs::{Delivery, OutputArguments, TemplateVariables, check_folder, make_folder};
use crate::complete;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::fields;
use crate::output::Report;
use crate::progress::Progress;
use crate::recorded::with_json;
use crate::schema;
use crate::settings::Session;
use crate::table::Table;
use crate::values::{self, Input, upload_folder};
pub(super) use batch::{Plan, run_one};
pub(super) use contents::Contents;
pub(super) use entries::{Entry, entry as entry_of};
use inputs::{Collected, attach, collect};
use interrupt::Interrupts;
pub(super) use journal::{Items, NAME as JOURNAL};
pub(super) use summary::{FileOutcome, Status};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The identifier of the model
    #[arg(add = complete::models())]
    model: String,
    #[command(flatten)]
    options: RunOptions,
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// Inputs: name=value, name=@FILE, or a file or URL for the one file that the model takes; - and @- are
    /// standard input. A number may be several: angle=10..90:10 is a run for 10, 20 and so on up to 90
    #[arg(value_name = "INPUT", add = complete::inputs::<Arguments>())]
    words: Vec<String>,
    /// An input: name=value, or name=@path for a file to upload; a value that begins with @ is written
    /// @@…
    #[arg(short, long = "input", value_name = "NAME=VALUE", add = complete::inputs::<Arguments>())]
    input: Vec<Input>,
    /// Inputs as a JSON object, from a file or from standard input for -; other inputs come before it
    #[arg(long, value_name = "FILE|-", hide_short_help = true)]
    input_json: Option<String>,
    /// Run the model for each row of a CSV or JSON Lines file: a column is an input, a file is a path from the current
    /// folder or a URL, and a number may be several, such as 10..90:10
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    rows: Option<String>,
    /// Run the model for each file in a folder, and for each that comes, until Ctrl-C; each once, across restarts
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "out", conflicts_with_all = ["rows", "dry_run"])]
    watch: Option<String>,
    #[command(flatten)]
    outputs: OutputArguments,
    #[command(flatten)]
    wait: WaitOptions,
    /// Send the inputs as they are, without checking them against what the model declares
    #[arg(long, hide_short_help = true)]
    no_check: bool,
    /// Refuse to run when it costs more; each file of a batch may cost so much
    #[arg(long, value_name = "AMOUNT", value_parser = values::amount)]
    max_cost: Option<Decimal>,
    /// Refuse to start a batch that costs more, with all that its folder has cost before
    #[arg(long, value_name = "AMOUNT", value_parser = values::amount)]
    budget: Option<Decimal>,
    /// Refuse to run when no node serves the model now
    #[arg(long, hide_short_help = true)]
    require_serving: bool,
    /// Create the task, print its identifier, and do not wait
    #[arg(long, conflicts_with_all = ["out", "show"])]
    detach: bool,
    /// Check everything, print what would be sent, and create nothing
    #[arg(long, conflicts_with = "detach")]
    dry_run: bool,
    /// Cancel the task at the first Ctrl-C if it is still in the queue
    #[arg(long, hide_short_help = true)]
    cancel_on_interrupt: bool,
    /// Delete the uploaded inputs when the task has ended; else they stay stored, which is billed, and later runs with the
    /// same content use them. `inferstore profile set` makes it the default
    #[arg(long, conflicts_with = "detach")]
    delete_inputs: bool,
    /// Upload files among the inputs into this folder
    #[arg(long, value_name = "FOLDER", default_value = "samples", value_parser = upload_folder(), hide_short_help = true)]
    folder: UploadFolder,
    /// Upload files for this organization, with a key of personal scope
    #[arg(long, value_name = "USERNAME", hide_short_help = true)]
    org: Option<String>,
    /// Number of files of a batch that run at once
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Time within which the task of an interrupted create appears in the history
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::duration, hide_short_help = true)]
    settle: Duration,
}

impl RunOptions {
    /// The defaults, with outputs in this folder.
    pub(super) fn into_folder(folder: &Path) -> Self {
        let defaults = Self::augment_args(clap::Command::new("run")).get_matches_from(["run"]);
        let mut options = Self::from_arg_matches(&defaults).unwrap_or_else(|error| error.exit());
        options.outputs.out = Some(format!("{}/", folder.display()));
        options
    }
}

const EXAMPLES: &str = "\
Examples:
  inferstore run haze-removal street.jpg -o clear.jpg
  inferstore run color-harmonization a.png template=v_shape angle=30 --dry-run
  inferstore run haze-removal *.jpg -o outputs/ -j 8
  inferstore run color-harmonization a.png template=v_shape angle=10..90:10 -o outputs/
  inferstore run haze-removal --watch incoming/ -o outputs/
  inferstore run haze-removal street.jpg -o - | convert - street.webp
  inferstore run haze-removal -i input_image=URL --deadline 5m --max-cost 0.10
  inferstore run haze-removal --input-json inputs.json --detach -q";

/// Timeout of a run that waits for a limit of the account, such as that of unfinished tasks.
const LIMIT_TIMEOUT: Duration = Duration::from_mins(10);

/// The wait of one run for limits of its account.
struct Limit {
    begun: Instant,
    deadline: Option<Duration>,
}

impl Limit {
    fn new(deadline: Option<Duration>) -> Self {
        Self { begun: Instant::now(), deadline }
    }

    /// Reads what a run needs before its task is created, until the deadline.
    async fn within<T>(&self, read: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(left) = self.deadline() else { return read.await };
        timeout(left, read).await.unwrap_or_else(|_| {
            Err(Failure::new(exit::DEADLINE, "the deadline has passed; no task was created")
                .with_hint("the same command starts it again; `inferstore doctor` looks for the cause"))
        })
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.deadline?.saturating_sub(self.begun.elapsed()))
    }

    /// Returns the delay before the run begins again, if a limit refused it and there is time.
    fn delay(&self, error: &Error, session: &Session) -> Option<Duration> {
        let timeout = self.deadline.map_or(LIMIT_TIMEOUT, |deadline| deadline.min(LIMIT_TIMEOUT));
        let delay = limit_pause(error).filter(|_| error.task_id().is_none())?;
        if self.begun.elapsed().saturating_add(delay) >= timeout {
            return None;
        }
        session.note("waiting: the service limits the account");
        Some(delay)
    }
}

struct Run<'a> {
    session: &'a Session,
    client: Client,
    model: String,
    options: RunOptions,
    inputs: Inputs,
    files: BTreeMap<String, String>,
    delivery: Delivery,
    names: TemplateVariables,
}

pub(crate) async fn execute(arguments: Arguments, session: Session) -> Result {
    again(arguments.model, Map::new(), arguments.options, session).await
}

/// Runs a model with the inputs of an earlier run, if there was one, and those of the command line before them.
pub(crate) async fn again(
    model: String,
    earlier: Map<String, Value>,
    mut options: RunOptions,
    mut session: Session,
) -> Result {
    let of_earlier = stem_of_inputs(earlier.values());
    let limit = Limit::new(options.wait.deadline);
    let mut collected = collect(earlier, &options, &mut session)?;
    let client = session.client_with_settle(options.settle)?;
    let profile = session.profile_of(client.base_url());
    let deletes_inputs = profile.is_some_and(|profile| profile.delete_inputs);
    if deletes_inputs && options.detach {
        session.note("the uploaded inputs stay stored: --detach does not wait for the end");
    }
    options.delete_inputs |= deletes_inputs && !options.detach;
    if options.outputs.out.as_deref() == Some("-") && session.output.options.jq.is_some() {
        return Err(Failure::usage("--jq has nothing to filter: standard output is the output of the model")
            .with_hint("save the output with -o FILE; nothing was sent"));
    }
    let is_many = options.rows.is_some() || options.watch.is_some();
    let has_inputs = is_many || !collected.given.is_empty() || !collected.loose.is_empty();
    let is_asking = !has_inputs && session.environment.stdin_is_terminal;
    let has_open_inputs =
        is_many || !collected.loose.is_empty() || collected.texts.values().any(|text| sweeps::is_sweep(text));
    let version = match is_asking || has_open_inputs || options.outputs.out.is_some() {
        true => Some(limit.within(models::versioning(&model, &client)).await?),
        false => None,
    };
    let sweeps = version.as_ref().map(|version| sweeps::sweeps(&collected.texts, version)).transpose()?;
    let sweeps = sweeps.unwrap_or_default();
    // Each entry of a batch gets one value of a sweep.
    collected.identity.retain(|name, _| sweeps.iter().all(|(sweep, _)| sweep != name));
    let checks_all = options.rows.is_some() || !sweeps.is_empty();
    // The journal of a folder knows what was paid and spent, also where a pattern matches one file.
    let is_for_journal = match &collected.loose[..] {
        _ if !options.outputs.is_folder(&session) => false,
        _ if options.budget.is_some() => !is_asking,
        [file] => file != "-" && !options.detach && !options.outputs.show,
        _ => false,
    };
    let is_batch = is_many || checks_all || is_for_journal || collected.loose.len() > 1;
    if !options.dry_run {
        session.output.check_fields(match is_batch {
            _ if options.detach => &["task_id"],
            false => fields::of::<TaskDetail>(),
            true => &summary::FIELDS,
        })?;
    }
    let outputs = version.as_ref().map(|version| models::files(version.output_format.as_ref()));
    let check = if options.dry_run { check_folder } else { make_folder };
    let delivery = options.outputs.check(check, outputs.as_deref(), &session)?;
    if let Some(version) = version.as_ref().filter(|_| is_batch) {
        let mut plan = Plan::new(client, model, options, delivery);
        plan.checks_all = checks_all;
        if let Some(folder) = plan.options.watch.clone() {
            let template = entries::Template::new(collected, sweeps, version, &folder)?;
            return batch::watch::execute(plan, &folder, &template, &session).await;
        }
        let rows = plan.options.rows.as_deref();
        plan.entries = entries::entries(collected, &sweeps, rows, version, &mut session)?;
        return batch::execute(plan, &session).await;
    }
    let Collected { mut inputs, mut files, loose, given, .. } = collected;
    let input = inputs::name_of(&loose, &files).or(of_earlier);
    if let Some(word) = loose.first() {
        let field = inputs::file_input(version.as_ref(), &given, &loose)?;
        files.insert(field.clone(), word.clone());
        inputs = attach(inputs, field, word, &mut session)?.0;
    }
    let names = TemplateVariables { input, model: Some(model.clone()) };
    let run = Run { client, model, options, inputs, files, delivery, names, session: &session };
    if is_asking && run.wants().await? {
        return Err(Failure::new(exit::INPUT, "the model wants inputs; no task was created")
            .with_hint("give them as name=value, or name=@path for a file"));
    }
    run.delivery.check_free(&run.names, &[], &session)?;
    if run.options.dry_run {
        return run.dry().await;
    }
    warn_if_offline(&run.model, &run.client, &run.options, &session).await;
    if run.options.detach { run.detached(&limit).await } else { run.followed(&limit).await }
}

fn configured(client: &Client, model: &str, inputs: Inputs, options: &RunOptions) -> inferstore::Run {
    let run = client
        .model(model)
        .run(inputs)
        .deadline(options.wait.deadline)
        .on_abandon(if options.wait.cancel_at_deadline { Abandon::Cancel } else { Abandon::Leave })
        .poll(options.wait.poll.clone())
        .options(|run| {
            run.skip_validation = options.no_check;
            run.require_serving = options.require_serving;
            run.delete_inputs_after = options.delete_inputs;
            run.reuse_uploads = true;
            run.upload_folder = Some(options.folder);
            run.org_username = options.org.clone();
        });
    limited(run, options.max_cost.iter().chain(&options.budget).min())
}

fn limited(run: inferstore::Run, max_cost: Option<&Decimal>) -> inferstore::Run {
    match max_cost {
        Some(max_cost) => run.max_cost(max_cost.clone()),
        None => run,
    }
}

impl Run<'_> {
    fn run(&self) -> inferstore::Run {
        configured(&self.client, &self.model, self.inputs.clone(), &self.options)
    }

    /// Shows what the model wants, if it cannot be run without inputs.
    async fn wants(&self) -> Result<bool> {
        match self.run().check().await {
            Ok(_) => Ok(false),
            Err(Error::Inputs(_)) => self.show_wants().await.map(|()| true),
            Err(error) => Err(error.into()),
        }
    }

    async fn show_wants(&self) -> Result {
        let version = self.client.model(&self.model).versioning().await?;
        self.session.output.note_table(&schema::table(&version));
        for line in ["", &schema::example(&self.model, &version), ""] {
            self.session.note(line);
        }
        Ok(())
    }

    /// The failure, after what the model wants if something was missing, with the nearest model if there is none.
    async fn explained(&self, error: Error) -> Failure {
        let is_missing = matches!(&error, Error::Inputs(invalid) if invalid.has(ViolationKind::Missing));
        if is_missing && self.session.output.is_live {
            // The failure is reported either way.
            let _ = self.show_wants().await;
        }
        if matches!(error, Error::Api(_)) && error.is_not_found() && error.task_id().is_none() {
            return models::explained(error, &self.model, &self.client).await;
        }
        if let Error::Api(_) | Error::Decode(_) = &error
            && let Some(task) = error.task_id().map(ToString::to_string)
        {
            let hint =
                format!("the task was created; wait for it with: inferstore task wait {task} -o outputs/");
            return Failure { data: vec![task], ..Failure::from(error).with_hint(hint) };
        }
        let hint = inputs::forgotten_mark(&error, &self.inputs, self.session);
        Failure::from(error).or_hint(hint)
    }

    async fn dry(&self) -> Result {
        let model = self.client.model(&self.model);
        let values = match self.run().check().await {
            Ok(values) => values,
            Err(error) => return Err(self.explained(error).await),
        };
        let (cost, quote) = with_json(model.cost()).await?;
        let mut table = Table::of_fields([
            ("model", Some(model.id().to_owned())),
            ("cost", cost.cost.as_ref().map(ToString::to_string)),
        ]);
        let mut fields: BTreeMap<_, _> =
            values.iter().map(|(name, value)| (name, value.to_string())).collect();
        let files = self.files.iter();
        fields.extend(files.map(|(name, path)| (name, Value::from(format!("@{path}")).to_string())));
        let members: Vec<String> =
            fields.iter().map(|(name, value)| format!("{}:{value}", Value::from(name.as_str()))).collect();
        for (name, value) in fields {
            table.add([format!("in {name}"), value]);
        }
        let quote = if quote.is_empty() { "null" } else { &quote };
        let id = Value::from(model.id());
        let json = format!(r#"{{"model":{id},"input":{{{}}},"cost":{quote}}}"#, members.join(","));
        self.session.note("nothing was uploaded, and no task was created");
        self.session.output.report(&Report { table, json, ..Report::default() })
    }

    async fn detached(self, limit: &Limit) -> Result {
        let task = loop {
            let error = match self.run().deadline(limit.deadline()).start().await {
                Ok(task) => break task,
                Err(error) => error,
            };
            let Some(delay) = limit.delay(&error, self.session) else {
                return Err(self.explained(error).await);
            };
            sleep(delay).await;
        };
        let id = task.id().as_str();
        let json = serde_json::json!({"task_id": id});
        let pick_up = format!("pick it up with: inferstore task wait {id} -o outputs/");
        self.session.note(&pick_up);
        let table = Table::of_fields([("task", Some(id.to_owned()))]);
        let reported = self.session.output.report_done(&Report::of_one(table, json, id));
        reported.map_err(|failure| failure.with_hint(format!("the task is created; {pick_up}")))
    }

    async fn followed(self, limit: &Limit) -> Result {
        let mut interrupts = Interrupts::new(self.options.cancel_on_interrupt)?;
        let outcome = loop {
            let error = match self.finished(limit, &mut interrupts).await? {
                Ok(outcome) => break outcome,
                Err(error) => error,
            };
            let Some(delay) = limit.delay(&error, self.session).filter(|_| interrupts.refused()) else {
                let task = ended_task(&error, &self.client, self.session).await;
                let failure = self.explained(error).await;
                return Err(failure.with_json(task));
            };
            tokio::select! {
                biased;
                () = interrupts.next() => interrupts.handle(&self.client, self.session).await?,
                () = sleep(delay) => {}
            }
        };
        let mut report = outcome_report(&outcome, &self.client, self.session).await;
        // The run succeeded and is paid, so it is reported whatever becomes of the downloads.
        let is_stdout = self.delivery.is_stdout();
        let saved = tokio::select! {
            biased;
            () = interrupts.next() => {
                let headline = "interrupted; the task succeeded, and its outputs are not whole";
                Err(Failure::new(exit::DETACHED, headline))
            }
            saved = self.delivery.deliver(&outcome, &self.names, self.session) => saved,
        };
        let mut reported = Ok(());
        if !is_stdout {
            with_paths(&mut report, saved.as_deref().unwrap_or_default(), self.session.output.options.format);
            reported = self.session.output.report_done(&report);
        }
        for url in outcome.stored_inputs.iter().filter(|_| self.options.delete_inputs) {
            self.session.note(format!("an input is still stored: inferstore files delete {url}"));
        }
        saved.and(reported).map_err(|failure| {
            let task = &outcome.task;
            // No code of something that may be done again.
            let code = if failure.code == exit::DETACHED { exit::DETACHED } else { exit::FAILED };
            failure
                .with_code(code)
                .with_hint(format!("the run is paid; its outputs: inferstore task show {task} -o PATH"))
        })
    }

    async fn finished(&self, limit: &Limit, interrupts: &mut Interrupts) -> Result<Result<Outcome, Error>> {
        let mut events = self.run().deadline(limit.deadline()).events();
        let mut progress = Progress::new(&self.session.output);
        loop {
            let event = tokio::select! {
                biased;
                () = interrupts.next() => {
                    progress.end();
                    let handled = interrupts.handle(&self.client, self.session).await;
                    self.cleaned_up(handled, interrupts).await?;
                    continue;
                }
                event = events.next() => event,
            };
            let Some(event) = event else { break };
            interrupts.see(&event);
            progress.run(&event);
            if interrupts.is_detaching() {
                progress.end();
                let detached = interrupts.detach(&self.client, self.session).await;
                self.cleaned_up(detached, interrupts).await?;
            }
        }
        progress.end();
        Ok(events.finish().await)
    }

    /// Returns the result of an interrupt. If it ended the run, the uploaded inputs of a task that it canceled are
    /// deleted, and a note says when they stay stored.
    async fn cleaned_up(&self, ended: Result, interrupts: &mut Interrupts) -> Result {
        let Err(failure) = &ended else { return ended };
        let has_uploads = self.files.values().any(|file| !is_http(file));
        let Some(task) = interrupts.task().filter(|_| self.options.delete_inputs && has_uploads) else {
            return ended;
        };
        let is_canceled = failure.code == exit::TASK_CANCELED;
        let is_deleted = is_canceled
            && tokio::select! {
                biased;
                () = interrupts.next() => false,
                is_deleted = self.delete_inputs(&task) => is_deleted,
            };
        if !is_deleted {
            self.session.note(format!(
                "the uploaded inputs stay stored: inferstore task show {task} names them, inferstore files delete URL deletes one"
            ));
        }
        ended
    }

    async fn delete_inputs(&self, task: &TaskId) -> bool {
        let Ok(task) = self.client.task(task).get().await else { return false };
        let inputs = task.input_data.unwrap_or_default();
        let uploaded = self.files.iter().filter(|(_, file)| !is_http(file));
        for url in uploaded.filter_map(|(name, _)| inputs.get(name)?.as_str()) {
            if self.client.delete_file(url).await.is_err() {
                return false;
            }
        }
        true
    }
}

/// Warns when no node serves the model: the task would stay in the queue, unless the check before the create refuses it.
async fn warn_if_offline(model: &str, client: &Client, options: &RunOptions, session: &Session) {
    if options.require_serving {
        return;
    }
    let limit = options.wait.deadline.unwrap_or(Duration::MAX);
    let serving = timeout(limit, client.model(model).serving()).await;
    if matches!(serving, Ok(Ok(serving)) if serving.serving == Some(false)) {
        session
            .note(format!("warning: no node serves {model} now; the task stays in the queue until one does"));
    }
}
