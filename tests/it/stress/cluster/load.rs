//! Load of one account, the responses to its callers, and the state that must result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use inferstore::types::{TaskId, TaskRecord, TaskStatus};
use inferstore::{Client, Error, File, Inputs};
use inferstore_service::Money;

use crate::client::{Quickly, built, quick};
use crate::support::cluster::query;
use crate::support::picture::bitmap;

pub(super) const CREDIT: &str = "10000";

const MODEL: &str = "color-extraction";

const FOLDER: &str = "documents";

pub(super) struct Account {
    name: String,
    /// One caller for each loop of creates, so that a lost create is searched among the caller's own.
    callers: Vec<Caller>,
    client: Client,
    stop: Arc<AtomicBool>,
    pub(super) created: BTreeSet<TaskId>,
    pub(super) canceled: BTreeSet<TaskId>,
    pub(super) unknown: usize,
    pub(super) uploaded: BTreeMap<String, Vec<u8>>,
    pub(super) deleted: BTreeSet<String>,
    perhaps_deleted: BTreeSet<String>,
    pub(super) failures: BTreeMap<String, usize>,
    pub(super) charged: usize,
}

struct Caller {
    client: Client,
    picture: String,
}

#[derive(Default)]
struct Told {
    created: BTreeSet<TaskId>,
    canceled: BTreeSet<TaskId>,
    unknown: usize,
    uploaded: BTreeMap<String, Vec<u8>>,
    deleted: BTreeSet<String>,
    perhaps_deleted: BTreeSet<String>,
    failures: BTreeMap<String, usize>,
}

impl Told {
    fn failed(&mut self, operation: &str, error: &Error) {
        let status = error.context().and_then(|context| context.status);
        let kind = status.map_or_else(|| "no response".to_owned(), |status| status.to_string());
        *self.failures.entry(format!("{operation}: {kind}")).or_default() += 1;
    }

    fn read_failed(&mut self, operation: &str, error: &Error) {
        assert!(error.is_retryable(), "{operation}: {error:?}");
        self.failed(operation, error);
    }

    /// Records the failure of a write whose effect is unknown: without a response, with a gateway's, or with
    /// one that reports an unknown commit.
    fn write_failed(&mut self, operation: &str, error: &Error) {
        let status = error.context().and_then(|context| context.status);
        let is_in_doubt = matches!(error, Error::Transport(_) | Error::OutcomeUnknown(_) | Error::Decode(_))
            || matches!(status, Some(500 | 502 | 503 | 504));
        assert!(is_in_doubt || error.is_retryable(), "{operation}: {error:?}");
        self.failed(operation, error);
    }
}

impl Account {
    pub(super) async fn new(base_url: &str, key: String, name: &str, stop: Arc<AtomicBool>) -> Self {
        let client = || {
            built(
                quick(base_url, key.clone())
                    .settings(|settings| settings.read_timeout = Duration::from_secs(10)),
            )
        };
        let mut callers = Vec::new();
        for number in 0..2 {
            let client = client();
            let picture = File::bytes(format!("{number}.bmp"), bitmap([number, 0, 90], [200, 30, number]));
            let picture = client.folder("samples").upload(picture).await.expect("nothing is disturbed yet");
            callers.push(Caller { client, picture: picture.download_url.to_string() });
        }
        Self {
            name: name.to_owned(),
            callers,
            client: client(),
            stop,
            created: BTreeSet::new(),
            canceled: BTreeSet::new(),
            unknown: 0,
            uploaded: BTreeMap::new(),
            deleted: BTreeSet::new(),
            perhaps_deleted: BTreeSet::new(),
            failures: BTreeMap::new(),
            charged: 0,
        }
    }

    pub(super) async fn load(&mut self) {
        let stop = &self.stop;
        let (first, second, files, reads) = tokio::join!(
            create(&self.callers[0], stop),
            create(&self.callers[1], stop),
            store(&self.client, &self.name, stop),
            read(&self.client, stop),
        );
        for told in [first, second, files, reads] {
            self.created.extend(told.created);
            self.canceled.extend(told.canceled);
            self.unknown += told.unknown;
            self.uploaded.extend(told.uploaded);
            self.deleted.extend(told.deleted);
            self.perhaps_deleted.extend(told.perhaps_deleted);
            for (failure, count) in told.failures {
                *self.failures.entry(failure).or_default() += count;
            }
        }
    }

    async fn history(&self) -> Vec<TaskRecord> {
        self.client.tasks().list().try_collect().await.expect("nothing is disturbed any more")
    }

    pub(super) async fn drain(&self, timeout: Duration) {
        let drained = async {
            while self.history().await.iter().any(is_unfinished) {
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        };
        if tokio::time::timeout(timeout, drained).await.is_err() {
            let stuck: Vec<_> = self.history().await.into_iter().filter(is_unfinished).collect();
            panic!("tasks of {} never end: {stuck:?}", self.name);
        }
    }

    pub(super) async fn check(&mut self, database: &str) {
        let history = self.history().await;
        let statuses: BTreeMap<TaskId, TaskStatus> = history
            .into_iter()
            .map(|record| (record.task_id, record.status.expect("a task has a status")))
            .collect();
        for task in &self.created {
            assert!(statuses.contains_key(task), "the acknowledged task {task} is lost");
        }
        for task in &self.canceled {
            assert_eq!(statuses[task], TaskStatus::Canceled, "the acknowledged cancel of {task} is lost");
        }
        let most = self.created.len() + self.unknown;
        assert!(statuses.len() <= most, "{} tasks came of {most} creates", statuses.len());
        let failed: Vec<_> = statuses.iter().filter(|(_, status)| **status == TaskStatus::Failed).collect();
        assert!(failed.is_empty(), "tasks failed because something was killed: {failed:?}");
        self.charged = statuses.values().filter(|status| **status == TaskStatus::Success).count();
        self.check_money(database).await;
        self.check_files().await;
    }

    async fn check_money(&self, database: &str) {
        let storage = query(
            database,
            &format!(
                "SELECT coalesce(sum(amount), 0) FROM movements JOIN accounts ON accounts.id = from_account \
                 WHERE reason = 'storage' AND username = '{}'",
                self.name
            ),
        );
        let storage: i64 = storage.trim().parse().expect("a sum");
        let credit: Money = CREDIT.parse().expect("an amount");
        let price: Money = "0.05".parse().expect("an amount");
        let spent = price.smallest() * self.charged as i64 + storage;
        let left = Money::from_smallest(credit.smallest() - spent).to_string();
        let balance = self.client.balance().await.expect("nothing is disturbed any more");
        assert_eq!(balance.balance, left.parse().ok(), "{}: {} tasks were charged", self.name, self.charged);
    }

    async fn check_files(&self) {
        let folder = self.client.folder(FOLDER);
        let listed: Vec<_> = folder.list(Default::default()).try_collect().await.expect("it is listed");
        let listed: BTreeSet<String> = listed.into_iter().filter_map(|file| file.download_url).collect();
        for (url, content) in &self.uploaded {
            if self.deleted.contains(url) {
                assert!(!listed.contains(url), "the acknowledged delete of {url} is lost");
            } else if !self.perhaps_deleted.contains(url) {
                assert!(listed.contains(url), "the acknowledged upload of {url} is lost");
                let stored = self.client.download(url).bytes().await.expect("a listed file can be read");
                assert!(stored == content, "{url} has changed");
            }
        }
    }
}

fn is_unfinished(record: &TaskRecord) -> bool {
    !matches!(record.status, Some(TaskStatus::Success | TaskStatus::Failed | TaskStatus::Canceled))
}

async fn create(caller: &Caller, stop: &AtomicBool) -> Told {
    let mut told = Told::default();
    while !stop.load(Ordering::SeqCst) {
        let inputs = Inputs::new().set("input", &caller.picture);
        let run = caller
            .client
            .model(MODEL)
            .run(inputs)
            .quickly()
            .options(|options| options.skip_validation = true);
        let task = match run.start().await {
            Ok(task) => task.id().clone(),
            Err(error) => {
                told.write_failed("create", &error);
                told.unknown += 1;
                continue;
            }
        };
        assert!(told.created.insert(task.clone()), "{task} was created twice");
        if fastrand::u8(..3) == 0 {
            match caller.client.task(&task).cancel().await {
                Ok(()) => drop(told.canceled.insert(task)),
                Err(Error::Api(context)) if context.status == Some(409) => {}
                Err(error) => told.write_failed("cancel", &error),
            }
            continue;
        }
        let mut wait = caller.client.task(&task).wait().quickly();
        wait = wait.deadline(Duration::from_secs(15));
        match wait.await {
            Ok(outcome) => assert_eq!(outcome.cost, "0.05".parse().ok()),
            // The node was killed during the run; another one claims the task after the lease expiry.
            Err(Error::DeadlineReached(_)) => {
                *told.failures.entry("wait: longer".to_owned()).or_default() += 1;
            }
            Err(error) => told.read_failed("wait", &error),
        }
    }
    told
}

async fn store(client: &Client, name: &str, stop: &AtomicBool) -> Told {
    let mut told = Told::default();
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        number += 1;
        let size = if number % 10 == 0 { 5_242_881 } else { 1_000 };
        let content = [format!("{name} {number} ").into_bytes(), vec![b'x'; size]].concat();
        let file = File::bytes(format!("{number}.txt"), content.clone());
        let url = match client.folder(FOLDER).upload(file).await {
            Ok(stored) => stored.download_url.to_string(),
            Err(error) => {
                told.write_failed("upload", &error);
                continue;
            }
        };
        told.uploaded.insert(url.clone(), content);
        if fastrand::u8(..3) == 0 || size > 1_000 {
            match client.delete_file(&url).await {
                Ok(()) => drop(told.deleted.insert(url)),
                Err(error) => {
                    told.write_failed("delete", &error);
                    told.perhaps_deleted.insert(url);
                }
            }
        }
    }
    told
}

async fn read(client: &Client, stop: &AtomicBool) -> Told {
    let mut told = Told::default();
    while !stop.load(Ordering::SeqCst) {
        if let Err(error) = client.balance().await {
            told.read_failed("balance", &error);
        }
        if let Err(error) = client.tasks().page(20, 0).await {
            told.read_failed("history", &error);
        }
        if let Err(error) = client.folder(FOLDER).page(Default::default(), 1).await {
            told.read_failed("folder", &error);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    told
}
