//! A batch that is killed at any time and restarted creates each of its tasks once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use inferstore::types::TaskId;
use inferstore::{Client, File, Inputs, PreparedRun};
use serde::{Deserialize, Serialize};

use super::{Intensity, tell};
use crate::client::on_the_service::{MODEL, audited, start, success, tasks};
use crate::client::{built, inputs, quick};

const ITEMS: usize = 200;

const CONCURRENCY: usize = 4;

const BASE_URL: &str = "INFERSTORE_BATCH_BASE_URL";
const KEY: &str = "INFERSTORE_BATCH_KEY";
const JOURNAL: &str = "INFERSTORE_BATCH_JOURNAL";

#[derive(Serialize, Deserialize)]
enum Line {
    Prepared { item: usize, run: PreparedRun },
    Created { item: usize, task: TaskId },
}

#[derive(Default)]
struct Noted {
    prepared: HashMap<usize, PreparedRun>,
    created: BTreeMap<usize, TaskId>,
    lines: usize,
}

impl Noted {
    /// Reads a journal. A line cut by a kill does not count.
    fn read(path: &Path) -> Self {
        let mut noted = Self::default();
        let text = fs::read_to_string(path).unwrap_or_default();
        for line in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            noted.lines += 1;
            match line {
                Line::Prepared { item, run } => drop(noted.prepared.insert(item, run)),
                Line::Created { item, task } => {
                    let known = noted.created.insert(item, task.clone());
                    assert!(known.is_none(), "item {item} became {task} after {known:?}");
                }
            }
        }
        noted
    }
}

fn item(number: usize) -> Inputs {
    match number % 4 {
        0 => inputs(),
        1 => {
            let content = format!("\u{89}PNG {}", number % 3);
            inputs().file("input_image", File::bytes("photo.png", content).with_mime("image/png"))
        }
        _ => inputs().set("input_image", format!("https://files.example/{number}.png")),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_killed_at_any_moment_creates_each_task_once() {
    let intensity = Intensity::of_this_run();
    let mut random = intensity.random();
    for _ in 0..intensity.times(1, 10) {
        let (service, controls, client) = start().await;
        controls.let_model(MODEL, success()).await.expect("it succeeds");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let journal = folder.path().join("journal");
        let key = service.api_key().expect("a fresh service has a key").to_owned();
        let batch = Batch { base_url: service.base_url().to_owned(), key, journal };
        let kills = batch.kill_often(&mut random, intensity.times(8, 50)).await;
        batch.finish().await;

        let noted = Noted::read(&batch.journal);
        let created: BTreeSet<TaskId> = noted.created.values().cloned().collect();
        assert_eq!((noted.created.len(), created.len()), (ITEMS, ITEMS), "each item has its own task");
        assert_eq!(tasks(&controls).await, ITEMS as u64);
        let history = client.tasks().list().try_collect().await.expect("it is listed");
        let history: BTreeSet<TaskId> = history.into_iter().map(|record| record.task_id).collect();
        assert_eq!(history, created);
        audited(&service).await;
        tell(&format!("a batch of {ITEMS} runs was killed {kills} times: {ITEMS} tasks, one each"));
    }
}

struct Batch {
    base_url: String,
    key: String,
    journal: PathBuf,
}

impl Batch {
    fn start(&self) -> Child {
        let mut child = Command::new(env::current_exe().expect("this program has a path"));
        child.args(["--exact", "--ignored", "--nocapture", "stress::crashes::the_child_runs_the_batch"]);
        child.env(BASE_URL, &self.base_url).env(KEY, &self.key).env(JOURNAL, &self.journal);
        child.stdout(Stdio::null()).spawn().expect("this program can be started")
    }

    async fn kill_often(&self, random: &mut fastrand::Rng, kills: usize) -> usize {
        // Each item has two lines. The last ones are left for the end.
        let mut moments: Vec<usize> = (0..kills).map(|_| random.usize(0..2 * ITEMS - 20)).collect();
        moments.sort_unstable();
        for lines in &moments {
            let mut child = self.start();
            while Noted::read(&self.journal).lines <= *lines {
                assert!(child.try_wait().expect("it is ours").is_none(), "the batch ended by itself");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            tokio::time::sleep(Duration::from_micros(random.u64(0..10_000))).await;
            child.kill().expect("it is ours");
            child.wait().expect("a killed process ends");
        }
        moments.len()
    }

    async fn finish(&self) {
        let mut child = self.start();
        let status = tokio::task::spawn_blocking(move || child.wait()).await.expect("it does not panic");
        assert!(status.expect("it is ours").success(), "the batch failed");
    }
}

#[test]
#[ignore = "it is started by the test above, in a process of its own"]
fn the_child_runs_the_batch() {
    let (Ok(base_url), Ok(key), Ok(journal)) = (env::var(BASE_URL), env::var(KEY), env::var(JOURNAL)) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run_batch(&built(quick(base_url, key)), Path::new(&journal)));
}

async fn run_batch(client: &Client, journal: &Path) {
    let Noted { mut prepared, created, .. } = Noted::read(journal);
    let file = OpenOptions::new().append(true).create(true).open(journal).expect("the journal can be opened");
    let file = Mutex::new(file);
    note_text(&file, "\n");
    client.tasks().claim(created.values());
    let left: Vec<_> = (0..ITEMS)
        .filter(|item| !created.contains_key(item))
        .map(|item| (item, prepared.remove(&item)))
        .collect();
    let runs = stream::iter(left).map(|(number, prepared)| {
        let file = &file;
        async move {
            let run = match prepared {
                Some(run) => run,
                None => {
                    let run = client.model(MODEL).prepare(item(number)).await.expect("it is prepared");
                    note(file, &Line::Prepared { item: number, run: run.clone() });
                    run
                }
            };
            let task = client.adopt_or_start(run).await.expect("it is created");
            note(file, &Line::Created { item: number, task: task.id().clone() });
        }
    });
    runs.buffer_unordered(CONCURRENCY).collect::<()>().await;
}

fn note(journal: &Mutex<fs::File>, line: &Line) {
    note_text(journal, &format!("{}\n", serde_json::to_string(line).expect("it is JSON")));
}

fn note_text(journal: &Mutex<fs::File>, text: &str) {
    let mut journal = journal.lock().expect("nothing panicked");
    journal.write_all(text.as_bytes()).expect("the journal can be written");
}
