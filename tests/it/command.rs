//! The command during failures of the service: output, exit code, no lost task, no printed secret. The
//! command without failures is tested in its crate.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use inferstore_api::operations;
use inferstore_cli::{Environment, exit};
use inferstore_service::{Fault, Operation, Script, Service};
use inferstore_wire::until;
use serde_json::json;

use crate::client::on_the_service::{MODEL, client_of, start, success};

const RUN: &str = "run color-harmonization --poll 0.05 --settle 2s -i input_image=https://files.example/street.png -i template=v_shape -i angle=30";

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

/// Returns the environment of a command that uses a service, in a folder. Its output is lost.
pub(crate) fn environment(base_url: &str, key: &str, folder: PathBuf) -> Environment {
    let variables = [
        ("INFERSTORE_BASE_URL", base_url),
        ("INFERSTORE_API_KEY", key),
        ("INFERSTORE_CONFIG", "no-such-folder/profiles.json"),
    ];
    Environment {
        variables: BTreeMap::from(variables.map(|(name, value)| (name.to_owned(), value.to_owned()))),
        folder,
        stdin: Box::new(io::empty()),
        stdout: Box::new(io::sink()),
        stderr: Box::new(io::sink()),
        stdin_is_terminal: false,
        stdout_is_terminal: false,
        stderr_is_terminal: false,
        width: 100,
    }
}

async fn call(service: &Service, words: &str) -> Ended {
    let (stdout, stderr) = (Stream::default(), Stream::default());
    let key = service.api_key().expect("a fresh service has a key");
    let environment = Environment {
        stdout: Box::new(stdout.clone()),
        stderr: Box::new(stderr.clone()),
        ..environment(service.base_url(), key, std::env::temp_dir())
    };
    let arguments: Vec<_> = ["inferstore"].into_iter().chain(words.split(' ')).map(Into::into).collect();
    let ended = tokio::task::spawn_blocking(move || inferstore_cli::run(arguments, environment)).await;
    let ended =
        Ended { code: ended.expect("the command ends"), stdout: stdout.text(), stderr: stderr.text() };
    assert!(!format!("{ended:?}").contains(key), "the key was printed: {ended:?}");
    ended
}

async fn tasks(service: &Service) -> Vec<String> {
    let history = client_of(service).tasks().list().try_collect().await.expect("they are listed");
    history.into_iter().map(|record| record.task_id.to_string()).collect()
}

#[tokio::test]
async fn an_unknown_outcome_says_what_to_look_at() {
    let (service, controls, _) = start().await;
    controls.let_model(MODEL, Script::stay_queued()).await.expect("it stays queued");
    controls.add_fault(Fault::lose_response().on(operations::CREATE_TASK)).expect("it is a fault");
    let ended = call(&service, RUN).await;
    assert_eq!(ended.code, exit::OUTCOME_UNKNOWN, "{ended:?}");
    let tasks = tasks(&service).await;
    assert_eq!(ended.stdout.lines().collect::<Vec<_>>(), tasks, "the one candidate");
    assert!(ended.stderr.contains("inferstore task show"), "{ended:?}");
    assert_eq!(tasks.len(), 1, "it was sent again with its key");
}

#[tokio::test]
async fn a_lost_response_to_a_create_is_found_again_and_the_run_goes_on() {
    let (service, controls, _) = start().await;
    controls.let_model(MODEL, success()).await.expect("it succeeds");
    controls.add_fault(Fault::lose_response().on(operations::CREATE_TASK).times(2)).expect("it is a fault");
    let ended = call(&service, &format!("{RUN} --format quiet")).await;
    assert_eq!(ended.code, exit::DONE, "{ended:?}");
    // With other inputs, because the first task would be a candidate too.
    let detached =
        call(&service, &format!("{} --detach --format json", RUN.replace("angle=30", "angle=45"))).await;
    let created = tasks(&service).await;
    assert_eq!(created.len(), 2, "each was created once");
    assert_eq!(detached.stdout, format!("{}\n", json!({"task_id": created[1]})));
}

#[tokio::test]
async fn the_last_status_of_a_task_is_the_exit_code() {
    let (service, controls, client) = start().await;
    for (script, code) in [(Script::fail("out of memory"), exit::TASK_FAILED), (success(), exit::DONE)] {
        controls.let_model(MODEL, script).await.expect("it is scripted");
        let ended = call(&service, RUN).await;
        assert_eq!(ended.code, code, "{ended:?}");
    }
    controls.let_model(MODEL, Script::stay_queued()).await.expect("it stays queued");
    let (ended, ()) = tokio::join!(call(&service, RUN), async {
        until("a task is queued", || async {
            controls.tasks().await.expect("they can be counted")["in_queue"] > 0
        })
        .await;
        let newest = tasks(&service).await.pop().expect("it was created");
        client.task(newest).cancel().await.expect("it is canceled");
    });
    assert_eq!(ended.code, exit::TASK_CANCELED, "{ended:?}");
    let ended = call(&service, &format!("{RUN} --deadline 1s")).await;
    assert_eq!(ended.code, exit::DEADLINE, "{ended:?}");
    let task = tasks(&service).await.pop().expect("it was created");
    assert_eq!(ended.stdout, format!("{task}\n"));
    assert!(ended.stderr.contains(&format!("inferstore task wait {task}")), "{ended:?}");
}

#[tokio::test]
async fn failures_of_the_service_keep_their_class() {
    let (service, controls, _) = start().await;
    let says_fail = r#"{"status":"fail","message":"no"}"#;
    for (fault, code, words) in [
        (Fault::status(403).message("not yours"), exit::REFUSED, "not yours"),
        (Fault::status(401).message("who are you"), exit::KEY, "who are you"),
        (Fault::status(200).body("application/json", says_fail), exit::REFUSED, "no"),
    ] {
        controls.add_fault(fault.on(operations::GET_BALANCE).once()).expect("it is a fault");
        let ended = call(&service, "balance --verbose").await;
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(ended.stderr.contains(words) && ended.stderr.contains("\nhint: "), "{ended:?}");
        assert!(ended.stdout.is_empty(), "{ended:?}");
    }
}

#[tokio::test]
async fn an_upload_prints_no_signature() {
    let (service, controls, _) = start().await;
    let malformed = Fault::status(400).message("malformed").on(Operation::POST_OBJECT);
    controls.add_fault(malformed.once()).expect("it is a fault");
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
    let (service, controls, _) = start().await;
    let trap = "\u{1b}[2J\u{1b}]0;owned\u{7}\nharmless";
    let described = Fault::set_field("/data/records/0/description", trap).on(operations::LIST_MODELS);
    controls.add_fault(described).expect("it is a fault");
    let missing = Fault::status(404).message("\u{1b}[31mred").on(operations::GET_MODEL);
    controls.add_fault(missing).expect("it is a fault");
    let shown = call(&service, "models show haze-removal").await;
    let listed = call(&service, "models list --all").await;
    assert!(shown.stderr.contains("red") && listed.stdout.contains("harmless"), "{shown:?} {listed:?}");
    assert!(!format!("{}{}", shown.stderr, listed.stdout).contains('\u{1b}'), "{shown:?} {listed:?}");
}
