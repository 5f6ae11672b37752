//! The command against a service that misbehaves: what it prints, how it ends, and that it neither
//! loses a task nor tells a secret. How it fares with one that behaves is tested beside it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use inferstore_cli::{Environment, exit};
use serde_json::json;

use crate::support::scripted::{Fault, Route, ScriptedService, Stay, TaskPlan};

/// A run that the scripted service has a model for.
const RUN: &str =
    "run color-harmonization -i input_image=https://files.example/street.png -i template=v_shape -i angle=30";

/// How a command ended.
#[derive(Debug)]
struct Ended {
    code: u8,
    stdout: String,
    stderr: String,
}

#[derive(Clone, Default)]
struct Stream(Arc<Mutex<Vec<u8>>>);

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Calls the command, on a thread of its own because it waits.
async fn call(service: &ScriptedService, words: &str) -> Ended {
    let (stdout, stderr) = (Stream::default(), Stream::default());
    let variables = [
        ("INFERSTORE_BASE_URL", service.base_url()),
        ("INFERSTORE_API_KEY", service.key().to_owned()),
        ("INFERSTORE_CONFIG", "no-such-folder/profiles.json".to_owned()),
    ];
    let environment = Environment {
        variables: BTreeMap::from(variables.map(|(name, value)| (name.to_owned(), value))),
        folder: std::env::temp_dir(),
        stdin: Box::new(io::empty()),
        stdout: Box::new(stdout.clone()),
        stderr: Box::new(stderr.clone()),
        stdin_is_terminal: false,
        stdout_is_terminal: false,
        stderr_is_terminal: false,
        width: 100,
    };
    let arguments: Vec<_> = ["inferstore"].into_iter().chain(words.split(' ')).map(Into::into).collect();
    let ended = tokio::task::spawn_blocking(move || inferstore_cli::run(arguments, environment)).await;
    let ended =
        Ended { code: ended.expect("the command ends"), stdout: stdout.text(), stderr: stderr.text() };
    assert!(!format!("{ended:?}").contains(service.key()), "the key was printed: {ended:?}");
    ended
}

#[tokio::test]
async fn an_unknown_outcome_prints_the_candidates() {
    let service = ScriptedService::start().await;
    let inputs =
        json!({"input_image": "https://files.example/street.png", "template": "v_shape", "angle": "30"});
    // Two that look alike: neither is known to be ours.
    service.fault(Route::CreateTask, Fault::CloseAfterCommit).await;
    let other = service.add_task("color-harmonization", inputs);
    let ended = call(&service, RUN).await;
    let ours = service.created().last().expect("it was committed").id.clone();
    assert_eq!(ended.code, exit::OUTCOME_UNKNOWN, "{ended:?}");
    assert_eq!(ended.stdout, format!("{other}\n{ours}\n"));
    assert!(ended.stderr.contains("hint: look at each candidate"), "{ended:?}");
    assert_eq!(service.count(Route::CreateTask), 1, "it is not sent again");
}

#[tokio::test]
async fn a_lost_answer_to_a_create_is_found_again_and_the_run_goes_on() {
    let service = ScriptedService::start().await;
    service.fault(Route::CreateTask, Fault::CloseAfterCommit).await;
    let ended = call(&service, &format!("{RUN} --format quiet")).await;
    assert_eq!(ended.code, exit::DONE, "{ended:?}");
    service.fault(Route::CreateTask, Fault::CloseAfterCommit).await;
    // With other inputs, because the first task would be a candidate too.
    let detached =
        call(&service, &format!("{} --detach --format json", RUN.replace("angle=30", "angle=45"))).await;
    let created: Vec<String> = service.created().into_iter().map(|task| task.id).collect();
    assert_eq!(created.len(), 2, "each was created once");
    assert_eq!(detached.stdout, format!("{}\n", json!({"data": created[1]})));
}

#[tokio::test]
async fn the_last_status_of_a_task_is_the_exit_code() {
    let service = ScriptedService::start().await;
    let model = "color-harmonization";
    for (plan, code) in [
        (TaskPlan::new().fails_with("out of memory", json!({"kind": "memory"})), exit::TASK_FAILED),
        (TaskPlan::new().ends_canceled(), exit::TASK_CANCELED),
        (TaskPlan::new(), exit::DONE),
    ] {
        service.set_plan(model, plan);
        let ended = call(&service, RUN).await;
        assert_eq!(ended.code, code, "{ended:?}");
    }
    service.set_plan(model, TaskPlan::new().computing(Stay::Reads(1_000)));
    let ended = call(&service, &format!("{RUN} --deadline 1s")).await;
    assert_eq!(ended.code, exit::DEADLINE, "{ended:?}");
    let task = service.created().last().expect("it was created").id.clone();
    assert_eq!(ended.stdout, format!("{task}\n"));
    assert!(ended.stderr.contains(&format!("inferstore task wait {task}")), "{ended:?}");
}

#[tokio::test]
async fn failures_of_the_service_keep_their_class() {
    let service = ScriptedService::start().await;
    for (fault, code, words) in [
        (Fault::failure(403, "not yours"), exit::REFUSED, "not yours"),
        (Fault::failure(401, "who are you"), exit::KEY, "who are you"),
        (Fault::FailEnvelope("no".to_owned()), exit::REFUSED, "no"),
    ] {
        service.fault(Route::GetBalance, fault).await;
        let ended = call(&service, "balance --verbose").await;
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(ended.stderr.contains(words) && ended.stderr.contains("\nhint: "), "{ended:?}");
        assert!(ended.stdout.is_empty(), "{ended:?}");
    }
    assert_eq!(service.faults_left(), 0);
}

#[tokio::test]
async fn an_upload_tells_no_signature() {
    let service = ScriptedService::start().await;
    service.fault(Route::StorageUpload, Fault::failure(400, "malformed")).await;
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("a.png");
    std::fs::write(&path, b"\x89PNG\r\n\x1a\nand so on").expect("it can be written");
    let refused = call(&service, &format!("files upload samples {} --verbose", path.display())).await;
    let stored = call(&service, &format!("files upload samples {} --format json", path.display())).await;
    for ended in [&refused, &stored] {
        let text = format!("{ended:?}").to_lowercase();
        assert!(!text.contains("signature") && !text.contains("policy"), "{ended:?}");
    }
    assert_eq!((refused.code, stored.code), (exit::FAILED, exit::DONE), "{refused:?} {stored:?}");
}

#[tokio::test]
async fn text_of_the_service_cannot_steer_the_terminal() {
    let service = ScriptedService::start().await;
    service.add_model(json!({"id": "trap", "description": "\u{1b}[2J\u{1b}]0;owned\u{7}\nharmless"}));
    service.fault(Route::GetModel, Fault::failure(404, "\u{1b}[31mred")).await;
    let ended = call(&service, "models show trap").await;
    let listed = call(&service, "models list --all").await;
    assert!(!format!("{}{}", ended.stderr, listed.stdout).contains('\u{1b}'), "{ended:?} {listed:?}");
}
