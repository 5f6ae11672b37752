//! Nothing that the service has acknowledged is lost, and nothing is billed twice, even when its process
//! is killed in the middle of everything.

mod load;
mod process;

use std::path::Path;
use std::time::Duration;

use inferstore_service::{Config, Service};
use load::{Acknowledged, Caller};
use process::{Process, free_ports};

use super::{Effort, tell};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_being_killed_and_nothing_is_billed_twice() {
    let effort = Effort::of_this_run();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ports = free_ports();
    let (mut random, kills) = (effort.random(), effort.times(20, 200));
    let acknowledged = Acknowledged::default();
    for round in 0..kills {
        let process = Process::start(folder.path(), ports);
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

    let process = Process::start(folder.path(), ports);
    let caller = Caller::new(&process.base_url, &process.api_key);
    acknowledged.check(&caller).await;
    acknowledged.until_all_tasks_have_ended(&caller).await;
    acknowledged.check(&caller).await;
    process.end();
    assert!(acknowledged.tasks() > 0 && acknowledged.files() > 1, "the load did nothing: {acknowledged:?}");
    books_are_right(folder.path()).await;
    let (tasks, files) = (acknowledged.tasks(), acknowledged.files());
    tell(&format!("{kills} kills, {tasks} acknowledged tasks, {files} files, nothing lost"));
}

/// Opens the folder once more and adds everything up.
async fn books_are_right(folder: &Path) {
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
    // The connections to the database close by themselves.
    let ended = async {
        while alive() > before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    ended.expect("nothing of a service that never started still runs");
}
