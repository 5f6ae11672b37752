//! A task is created at most once, whatever the task history shows. `stress::creates` tests all failures of a
//! create.

use std::time::Duration;

use inferstore::{Client, Error, Run};
use inferstore_api::operations;
use inferstore_service::{Fault, Script};
use inferstore_wire::until;
use serde_json::json;

use super::on_the_service::{self, tasks};
use super::{Quickly, built, inputs, quick, quick_retry};
use crate::support::scripted::{MODEL, Reply, Scripted};

fn run(client: &Client, seed: u32) -> Run {
    let image = format!("https://files.example/{seed}.png");
    let inputs = inputs().set("angle", seed % 90 + 1).set("input_image", image);
    client.model(MODEL).run(inputs).quickly()
}

async fn start(run: Run) -> Result<String, Error> {
    Ok(run.start().await?.id().to_string())
}

fn client(scripted: &Scripted) -> Client {
    built(
        scripted
            .builder()
            .settings(|settings| settings.retry = quick_retry())
            .settings(|settings| settings.create_settle_time = Duration::from_millis(100)),
    )
}

fn lose_next_create(scripted: &Scripted, performed_after: Duration) {
    let next = scripted.count("createTask") + 1;
    scripted.reply(move |operation, number| {
        (operation == "createTask" && number == next).then_some(Reply::LostUntil(performed_after))
    });
}

async fn until_created(scripted: &Scripted, tasks: usize) {
    until("the tasks are created", || async { scripted.service.created().len() >= tasks }).await;
}

#[tokio::test(start_paused = true)]
async fn a_create_that_lands_after_the_last_search_is_reported_not_resent() {
    let scripted = Scripted::new();
    let client = client(&scripted);
    lose_next_create(&scripted, Duration::from_millis(400));
    let error = start(run(&client, 2)).await.expect_err("the outcome is unknown");
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    until_created(&scripted, 1).await;
    assert_eq!(scripted.count("createTask"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_task_of_a_create_in_doubt_is_not_adopted_by_a_later_create() {
    let scripted = Scripted::new();
    let client = client(&scripted);
    // The first create is performed after its client has given up.
    lose_next_create(&scripted, Duration::from_millis(200));
    let error = start(run(&client, 1)).await.expect_err("nothing shows it yet");
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    assert_eq!(scripted.service.created().len(), 0);
    until_created(&scripted, 1).await;
    scripted.reply_to("createTask", Reply::Lost);
    let error = start(run(&client, 1)).await.expect_err("the task in the history may be the first one's");
    let Error::OutcomeUnknown(unknown) = &error else { panic!("{error:?}") };
    assert_eq!(unknown.candidates, [scripted.service.created()[0].task.clone()]);
}

#[tokio::test(start_paused = true)]
async fn clocks_that_differ_do_not_hide_a_lost_task() {
    for (date, created_at) in [
        ("Thu, 02 Apr 2020 09:30:00 GMT", "2020-04-02T09:29:58Z"),
        ("Sun, 02 Apr 2090 09:30:00 GMT", "2090-04-02T09:29:58Z"),
    ] {
        let scripted = Scripted::new();
        scripted.service.loses_response("createTask");
        let record = json!({ "task_id": "task-1", "model_id": MODEL, "created_at": created_at });
        let body = json!({ "status": "success", "data": { "records": [record], "total": 1 } }).to_string();
        let headers = vec![("date", date.to_owned())];
        scripted.reply_to("listTasks", Reply::Status { status: 200, headers, body });
        let task = start(run(&client(&scripted), 1)).await;
        assert_eq!(task.expect("it is found"), "task-1");
    }
}

#[tokio::test]
async fn a_create_that_nothing_reached_is_retried() {
    let closed = built(quick("http://127.0.0.1:9/api/v1", "key"));
    let unchecked =
        closed.model("m").run(inputs()).quickly().options(|options| options.skip_validation = true);
    let error = unchecked.start().await.expect_err("nothing listens there");
    let Error::Transport(context) = &error else { panic!("{error:?}") };
    assert!(context.attempts > 1 && context.is_retry_safe, "{context:?}");
}

#[tokio::test]
async fn a_task_of_this_client_is_not_taken_for_the_lost_one() {
    let (service, controls, _) = on_the_service::start().await;
    let client = on_the_service::without_keys(&service);
    controls.let_model(MODEL, Script::stay_queued()).await.expect("it stays queued");
    let first = start(run(&client, 1)).await.expect("it is created");
    controls.add_fault(Fault::lose_response().on(operations::CREATE_TASK).once()).expect("it is a fault");
    let second = start(run(&client, 1)).await.expect("it is found");
    assert_ne!(first, second);
    controls.add_fault(Fault::hang_up().on(operations::CREATE_TASK).once()).expect("it is a fault");
    let error = start(run(&client, 1)).await.expect_err("it never arrived");
    let Error::OutcomeUnknown(unknown) = &error else { panic!("{error:?}") };
    assert!(
        unknown.candidates.is_empty() && unknown.history == inferstore::HistoryRead::Complete,
        "{unknown:?}"
    );
}

#[tokio::test]
async fn the_task_of_a_create_in_progress_is_not_taken_for_a_lost_one() {
    let (service, controls, _) = on_the_service::start().await;
    let client = on_the_service::without_keys(&service);
    controls.let_model(MODEL, Script::stay_queued()).await.expect("it stays queued");
    let late = Fault::delay(Duration::from_millis(500)).after_commit().on(operations::CREATE_TASK).once();
    controls.add_fault(late).expect("it is a fault");
    controls.add_fault(Fault::hang_up().on(operations::CREATE_TASK).once()).expect("it is a fault");
    let (first, second) = tokio::join!(start(run(&client, 1)), async {
        until("the task is created", || async { tasks(&controls).await > 0 }).await;
        start(run(&client, 1)).await
    });
    let error = second.expect_err("it never arrived, and the task in the history is the other one");
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    let task = client.tasks().page(10, 0).await.expect("the history is read").records.remove(0);
    assert_eq!(first.ok(), Some(task.task_id.to_string()));
    assert_eq!(tasks(&controls).await, 1);
}
