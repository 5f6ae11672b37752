//! Wait for many tasks: independent of the task history, and extensible while it is read.

use std::collections::BTreeSet;
use std::time::Duration;

use inferstore_batch::WaitAll;
use tokio::time::{Instant, sleep, timeout};

use crate::support::scripted::{MODEL, Reply, Scripted};

async fn add_tasks(scripted: &Scripted, count: usize, seconds: u64) -> BTreeSet<String> {
    scripted.service.model(MODEL).takes(Duration::from_secs(seconds));
    scripted.create(count).await.into_iter().collect()
}

fn wait_all(scripted: &Scripted, ids: &BTreeSet<String>) -> WaitAll {
    inferstore_batch::wait_all(&scripted.client(), ids.iter().map(String::as_str))
}

async fn succeeded(mut all: WaitAll) -> BTreeSet<String> {
    let mut ended = BTreeSet::new();
    let wait = async {
        while let Some((task, result)) = all.next().await {
            result.unwrap_or_else(|error| panic!("{task}: {error:?}"));
            assert!(ended.insert(task.to_string()), "{task} came twice");
        }
    };
    timeout(Duration::from_mins(10), wait).await.expect("the wait ends");
    ended
}

fn failures() -> [Reply; 4] {
    let no_page = Reply::status(200, r#"{"status":"success","data":[1,2]}"#);
    [Reply::failure(403, "not yours"), Reply::failure(500, "a bug"), no_page, Reply::Lost]
}

#[tokio::test(start_paused = true)]
async fn all_tasks_end_although_the_history_fails_from_the_beginning() {
    for failure in failures() {
        let scripted = Scripted::new();
        let ids = add_tasks(&scripted, 20, 30).await;
        scripted.reply_to("listTasks", failure.clone());
        assert_eq!(succeeded(wait_all(&scripted, &ids)).await, ids, "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_tasks_end_although_the_history_fails_after_it_has_shown_them() {
    for failure in failures() {
        let scripted = Scripted::new();
        let ids = add_tasks(&scripted, 20, 30).await;
        let failing = async {
            sleep(Duration::from_secs(10)).await;
            assert!(scripted.count("listTasks") > 0, "the history has shown them");
            scripted.reply_to("listTasks", failure.clone());
        };
        let (ended, ()) = tokio::join!(succeeded(wait_all(&scripted, &ids)), failing);
        assert_eq!(ended, ids, "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_tasks_end_although_they_move_to_other_places_of_the_history() {
    let scripted = Scripted::new();
    add_tasks(&scripted, 130, 0).await;
    let ids = add_tasks(&scripted, 40, 60).await;
    let trimming = async {
        for _ in 0..4 {
            sleep(Duration::from_secs(10)).await;
            scripted.trim_history(35);
        }
    };
    let (ended, ()) = tokio::join!(succeeded(wait_all(&scripted, &ids)), trimming);
    assert_eq!(ended, ids);
}

#[tokio::test(start_paused = true)]
async fn tasks_that_the_history_no_longer_shows_end_too() {
    let scripted = Scripted::new();
    let ids = add_tasks(&scripted, 40, 60).await;
    let trimming = async {
        sleep(Duration::from_secs(10)).await;
        scripted.trim_history(40);
    };
    let (ended, ()) = tokio::join!(succeeded(wait_all(&scripted, &ids)), trimming);
    assert_eq!(ended, ids);
}

#[tokio::test(start_paused = true)]
async fn tasks_can_be_added_while_the_wait_is_read() {
    let scripted = Scripted::new();
    let first = add_tasks(&scripted, 1, 60).await;
    let mut all = wait_all(&scripted, &first);
    assert!(timeout(Duration::from_secs(10), all.next()).await.is_err());
    let mut second = add_tasks(&scripted, 3, 5).await;
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

    let later = add_tasks(&scripted, 1, 5).await;
    for id in &later {
        all.add(id.as_str());
    }
    assert_eq!(succeeded(all).await, later, "also after the end");
}
