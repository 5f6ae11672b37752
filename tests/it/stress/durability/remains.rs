//! Final state: money and bytes, counted.

use std::fs;
use std::path::Path;
use std::time::Duration;

use inferstore_service::{Config, Money, Service};
use serde_json::Value;

use super::Caller;
use crate::stress::process::Process;

const AT_FIRST: i64 = 1_000_005_000_000_000;

const PRICE: i64 = 50_000_000;

/// Checks that every successful task, and no other one, was charged once; returns the number of charges.
pub(crate) async fn charges_are_right(caller: &Caller) -> i64 {
    let mut charged = 0;
    for record in caller.tasks().await {
        let succeeded = record["status"] == "success";
        assert_eq!(record["cost"].as_f64(), Some(if succeeded { 0.05 } else { 0.0 }), "{record}");
        charged += i64::from(succeeded);
    }
    let reported = caller.data("/api-key/balance").await;
    let amount = |name: &str| {
        let text = reported[name].as_str().expect("a decimal string");
        text.parse::<Money>().expect("an amount").smallest()
    };
    let owned = amount("balance") + amount("free_balance") - amount("debt");
    assert_eq!(AT_FIRST - owned, charged * PRICE, "{charged} tasks were charged: {reported}");
    charged
}

/// Ends the process, and checks that the data folder contains only files of accounts. Partial files are removed before
/// the service is ready, complete files without a row by the sweeper.
pub(crate) async fn no_stray_bytes(process: Process, folder: &Path, caller: &Caller) {
    let objects = folder.join("objects");
    assert_eq!(files_in(&objects.join("incoming")), 0, "something half written is left");
    // The model here writes no files, so all files were uploaded.
    let reported = caller.data("/api-key/storage/upload/statistics").await;
    let (listed, bytes) = (reported["total_files"].as_u64(), reported["total_size"].as_u64());
    process.end();
    let mut config = Config::folder(folder).with_controls();
    config.workers = 0;
    let service = Service::start(config).await.expect("the folder is free again");
    let controls = service.controls().expect("they are on");
    controls.advance_clock(Duration::ZERO).await.expect("every job runs");
    service.shutdown().await;
    assert_eq!(Some(files_in(&objects.join("blobs"))), listed, "there are other blobs than files");
    assert_eq!(Some(size_of(&objects.join("blobs"))), bytes, "they have other sizes");
}

fn files_in(folder: &Path) -> u64 {
    walk(folder, &mut |_| 1)
}

fn size_of(folder: &Path) -> u64 {
    walk(folder, &mut fs::Metadata::len)
}

fn walk(folder: &Path, count: &mut impl FnMut(&fs::Metadata) -> u64) -> u64 {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let entries = entries.map(|entry| entry.expect("it can be listed"));
    // The sweeper may remove a file at any time.
    let entries = entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
    entries.map(|(path, about)| if about.is_dir() { walk(&path, count) } else { count(&about) }).sum()
}

impl Caller {
    pub(crate) async fn tasks(&self) -> Vec<Value> {
        let mut tasks = Vec::new();
        loop {
            let page = self.data(&format!("/api-key/task/histories?limit=100&offset={}", tasks.len())).await;
            match page["records"].as_array() {
                Some(records) if !records.is_empty() => tasks.extend(records.iter().cloned()),
                _ => return tasks,
            }
        }
    }
}
