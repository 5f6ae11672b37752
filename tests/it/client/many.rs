//! A wait for many tasks does not depend on the task history, and can be fed while it is read.

use std::collections::BTreeSet;
use std::time::Duration;

use inferstore::{Client, WaitAll};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::built;
use crate::support::scripted::{DEFAULT_MODEL, Fault, Route, ScriptedService, Stay, TaskPlan};

fn client(service: &ScriptedService) -> Client {
    built(Client::builder(service.base_url(), service.key()))
}

/// Adds tasks that take this long.
fn add_tasks(service: &ScriptedService, count: usize, seconds: u64) -> BTreeSet<String> {
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().computing(Stay::For(Duration::from_secs(seconds))));
    (0..count).map(|number| service.add_task(DEFAULT_MODEL, json!({"number": number}))).collect()
}

/// The tasks of a wait that succeeded, which it must all do within ten minutes.
async fn succeeded(mut all: WaitAll) -> BTreeSet<String> {
    let mut ended = BTreeSet::new();
    let wait = async {
        while let Some((task, result)) = all.next().await {
            result.unwrap_or_else(|error| panic!("{task}: {error:?}"));
            assert!(ended.insert(task.to_string()), "{task} came twice");
        }
    };
    timeout(Duration::from_secs(600), wait).await.expect("the wait ends");
    ended
}

#[tokio::test(start_paused = true)]
async fn all_tasks_end_although_the_history_fails_from_the_beginning() {
    for fault in [
        Fault::failure(403, "not yours"),
        Fault::failure(500, "a bug"),
        Fault::status(200, &[], "application/json", r#"{"status":"success","data":[1,2]}"#.to_owned()),
        Fault::CloseAfterRequest,
    ] {
        let service = ScriptedService::start().await;
        let ids = add_tasks(&service, 20, 30);
        service.fault(Route::ListTasks, fault.clone().always()).await;
        let all = client(&service).tasks().wait_all(ids.iter().map(String::as_str));
        assert_eq!(succeeded(all).await, ids, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_tasks_end_although_the_history_fails_after_it_has_shown_them() {
    for fault in [
        Fault::failure(403, "not yours"),
        Fault::failure(500, "a bug"),
        Fault::status(200, &[], "application/json", r#"{"status":"success","data":[1,2]}"#.to_owned()),
    ] {
        let service = ScriptedService::start().await;
        let ids = add_tasks(&service, 20, 30);
        let all = client(&service).tasks().wait_all(ids.iter().map(String::as_str));
        let failing = async {
            sleep(Duration::from_secs(10)).await;
            assert!(service.count(Route::ListTasks) > 0, "the history has shown them");
            service.fault(Route::ListTasks, fault.clone().always()).await;
        };
        let (ended, ()) = tokio::join!(succeeded(all), failing);
        assert_eq!(ended, ids, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_tasks_end_although_they_move_to_other_places_of_the_history() {
    let service = ScriptedService::start().await;
    for number in 0..130 {
        service.add_task("another-model", json!({"number": number}));
    }
    let ids = add_tasks(&service, 40, 60);
    let all = client(&service).tasks().wait_all(ids.iter().map(String::as_str));
    let trimming = async {
        for _ in 0..4 {
            sleep(Duration::from_secs(10)).await;
            service.trim_history(35);
        }
    };
    let (ended, ()) = tokio::join!(succeeded(all), trimming);
    assert_eq!(ended, ids);
}

#[tokio::test(start_paused = true)]
async fn tasks_that_the_history_no_longer_shows_end_too() {
    let service = ScriptedService::start().await;
    let ids = add_tasks(&service, 40, 60);
    let all = client(&service).tasks().wait_all(ids.iter().map(String::as_str));
    let trimming = async {
        sleep(Duration::from_secs(10)).await;
        service.trim_history(40);
    };
    let (ended, ()) = tokio::join!(succeeded(all), trimming);
    assert_eq!(ended, ids);
}

#[tokio::test(start_paused = true)]
async fn tasks_can_be_added_while_the_wait_is_read() {
    let service = ScriptedService::start().await;
    let first = add_tasks(&service, 1, 60);
    let mut all = client(&service).tasks().wait_all(first.iter().map(String::as_str));
    // The read is under way.
    assert!(timeout(Duration::from_secs(10), all.next()).await.is_err());
    let mut second = add_tasks(&service, 3, 5);
    for id in second.iter().chain(&first) {
        all.add(id.as_str());
    }
    let started = Instant::now();
    for _ in 0..3 {
        let (task, result) = all.next().await.expect("one more has ended");
        result.expect("it ends well");
        assert!(second.remove(task.as_str()), "{task}");
    }
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
    let (task, result) = all.next().await.expect("the first one has ended");
    assert!(first.contains(task.as_str()) && result.is_ok(), "{task}");
    assert!(all.next().await.is_none(), "each comes once");

    let later = add_tasks(&service, 1, 5);
    for id in &later {
        all.add(id.as_str());
    }
    assert_eq!(succeeded(all).await, later, "also after the end");
}
