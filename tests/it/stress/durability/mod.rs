//! No acknowledged write is lost and nothing is billed twice, even if the process is killed at any time.

mod load;
mod remains;

use std::path::Path;
use std::time::{Duration, Instant};

use inferstore_service::{Config, Service};
use inferstore_wire::until;
use load::Acknowledged;
pub(crate) use load::Caller;
pub(crate) use remains::{charges_are_right, no_stray_bytes};

use super::process::{Start, free_ports};
use super::{Intensity, tell};

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_a_kill_and_are_billed_once() {
    let intensity = Intensity::of_this_run();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let start = Start::plain(folder.path(), free_ports());
    let (mut random, kills) = (intensity.random(), intensity.times(5, 200));
    let acknowledged = Acknowledged::default();
    let (mut within_starts, mut longest_start) = (0, Duration::ZERO);
    for round in 0..kills {
        // A start recovers from the last kill. Some starts are killed too, even the first.
        while random.f64() < 0.5 {
            start.and_kill_after(longest_start.max(Duration::from_millis(100)).mul_f64(random.f64()));
            within_starts += 1;
        }
        let begun = Instant::now();
        let process = start.ready();
        longest_start = longest_start.max(begun.elapsed());
        let caller = Caller::new(&process.base_url, &process.api_key);
        if round == 0 {
            acknowledged.prepare(&caller).await;
        }
        acknowledged.check(&caller).await;
        let moment = Duration::from_millis(random.u64(20..400));
        let sent = tokio::time::timeout(moment, load::run(&caller, &acknowledged)).await;
        assert!(sent.is_err(), "the load ends with the service, not before");
        process.kill();
    }

    let process = start.ready();
    let caller = Caller::new(&process.base_url, &process.api_key);
    acknowledged.check(&caller).await;
    acknowledged.until_all_tasks_have_ended(&caller).await;
    acknowledged.read_all_again();
    acknowledged.check(&caller).await;
    let charged = charges_are_right(&caller).await;
    no_stray_bytes(process, folder.path(), &caller).await;
    assert!(acknowledged.tasks() > 0 && acknowledged.files() > 1, "the load did nothing: {acknowledged:?}");
    books_are_right(folder.path()).await;
    let (tasks, files) = (acknowledged.tasks(), acknowledged.files());
    tell(&format!(
        "{kills} kills under load and {within_starts} within a start: {tasks} acknowledged tasks and {files} \
         files, nothing lost, {charged} tasks charged once each, no stray bytes"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_that_was_killed_is_made_up_for_by_the_next_one() {
    let intensity = Intensity::of_this_run();
    let (mut random, kills) = (intensity.random(), intensity.times(2, 60));
    let mut longest_start = Duration::from_millis(100);
    for _ in 0..kills {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let start = Start::plain(folder.path(), free_ports());
        start.and_kill_after(longest_start.mul_f64(random.f64()));
        let begun = Instant::now();
        let process = start.ready();
        longest_start = longest_start.max(begun.elapsed());
        assert_eq!(charges_are_right(&Caller::new(&process.base_url, &process.api_key)).await, 0);
        process.end();
        books_are_right(folder.path()).await;
    }
    tell(&format!("{kills} first starts killed, up to {longest_start:?} after they began"));
}

pub(crate) async fn books_are_right(folder: &Path) {
    let mut config = Config::folder(folder);
    config.workers = 0;
    let service = Service::start(config).await.expect("the folder is free again");
    let audit = service.audit().await.expect("the books can be read");
    service.shutdown().await;
    assert_eq!(audit.faults, Vec::<String>::new());
    assert!(audit.movements > 0, "no money ever moved");
}

#[test]
fn a_second_service_on_the_same_folder_is_refused_and_says_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let first = Service::start(Config::folder(folder.path())).await.expect("the folder is free");
        let second = Service::start(Config::folder(folder.path())).await;
        let error = second.err().expect("the folder is taken");
        assert!(error.is_folder_taken(), "{error}");
        assert!(error.to_string().contains("another service uses it"), "{error}");
        first.shutdown().await;
        let third = Service::start(Config::folder(folder.path())).await.expect("the folder is free again");
        third.shutdown().await;
    });
}

#[tokio::test]
async fn a_start_that_fails_leaves_nothing_running_behind() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let holder = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let taken = holder.local_addr().expect("it is bound");
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    for place in 0..3 {
        let mut config = Config::folder(folder.path());
        match place {
            0 => config.storage = taken,
            1 => config.operations = Some(taken),
            _ => config.nodes = Some(taken),
        }
        let failed = Service::start(config).await.err().expect("the port is taken").to_string();
        assert!(failed.contains(&taken.to_string()), "{failed}");
    }
    // The database closes its connections itself.
    until("nothing of a service that never started runs", || async { alive() <= before }).await;
}
