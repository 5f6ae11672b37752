//! `inferstore run --rows` that is killed at any time and restarted creates one task for each row, with
//! little memory for a row.

use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use inferstore_cli::Environment;
use inferstore_service::{Config, Script, Service};
use serde_json::json;

use super::{Intensity, tell};
use crate::client::on_the_service::{MODEL, audited, tasks};
use crate::command::environment;

const BASE_URL: &str = "INFERSTORE_ROWS_BASE_URL";
const KEY: &str = "INFERSTORE_ROWS_KEY";
const FOLDER: &str = "INFERSTORE_ROWS_FOLDER";

/// Memory in bytes that the command takes for a row at most, and apart from the number of rows.
const MAX_MEMORY_OF_ROW: u64 = 2 * 1024;
const MAX_VARIATION: u64 = 8 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_killed_at_any_moment_are_one_task_each() {
    let intensity = Intensity::of_this_run();
    let (rows, kills) = intensity.times((60, 3), (10_000, 50));
    let mut random = intensity.random();
    let mut config = Config::ephemeral().with_controls();
    config.first_account.balance = "100000".parse().expect("it is an amount");
    let service = Service::start(config).await.expect("the service starts");
    let controls = service.controls().expect("they are on");
    let output = json!({ "output_image": "an image", "output_hue": "a hue" });
    controls.let_model(MODEL, Script::succeed(output)).await.expect("it succeeds");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |rows: usize| {
        let row = |row| format!("https://files.example/{row}.png,v_shape,{}\n", row % 90 + 1);
        let lines: String = (0..rows).map(row).collect();
        let text = format!("input_image,template,angle\n{lines}");
        fs::write(folder.path().join("jobs.csv"), text).expect("it can be written");
    };
    // The memory of a batch of few rows, to compare with.
    let few = rows / 10;
    write(few);
    let of_few = run_to_end(&service, folder.path()).await;
    write(rows);

    let journal = folder.path().join("out/inferstore-batch.jsonl");
    let noted = || fs::read(&journal).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count();
    // Each row has four lines. The last ones are left for the end.
    let mut moments: Vec<usize> = (0..kills).map(|_| random.usize(4 * few..4 * rows - 40)).collect();
    moments.sort_unstable();
    let (mut hits, mut peak) = (0, 0);
    for moment in moments {
        let mut child = start(&service, folder.path());
        while noted() <= moment && child.try_wait().expect("it is ours").is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_micros(random.u64(0..10_000))).await;
        peak = peak.max(peak_memory(&child));
        hits += usize::from(child.try_wait().expect("it is ours").is_none());
        child.kill().expect("it is ours");
        child.wait().expect("a killed process ends");
    }
    assert!(hits > 0, "no kill came during the work");
    peak = peak.max(run_to_end(&service, folder.path()).await);
    assert_eq!(tasks(&controls).await, rows as u64);
    audited(&service).await;
    let allowed = of_few + MAX_VARIATION + MAX_MEMORY_OF_ROW * rows as u64;
    assert!(peak < allowed, "{peak} bytes for {rows} rows, and {of_few} for {few}");
    tell(&format!(
        "{rows} rows were killed {hits} times: {rows} tasks, and at most {} MiB of memory, beside {} MiB for {few} rows",
        peak / 1024 / 1024,
        of_few / 1024 / 1024
    ));
}

/// Runs the rows to their end, and returns the most memory that the command took.
async fn run_to_end(service: &Service, folder: &Path) -> u64 {
    let mut child = start(service, folder);
    let mut peak = 0;
    loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            assert!(status.success(), "the batch failed: {status}");
            return peak;
        }
        peak = peak.max(peak_memory(&child));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn start(service: &Service, folder: &Path) -> Child {
    let mut child = Command::new(env::current_exe().expect("this program has a path"));
    child.args(["--exact", "--ignored", "--nocapture", "stress::rows::the_child_runs_the_rows"]);
    let key = service.api_key().expect("a fresh service has a key");
    child.env(BASE_URL, service.base_url()).env(KEY, key).env(FOLDER, folder);
    child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("this program can be started")
}

fn peak_memory(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or_default() * 1024
}

#[test]
#[ignore = "it is started by the test above, in a process of its own"]
fn the_child_runs_the_rows() {
    let (Ok(base_url), Ok(key), Ok(folder)) = (env::var(BASE_URL), env::var(KEY), env::var(FOLDER)) else {
        return;
    };
    let environment =
        Environment { stderr: Box::new(io::stderr()), ..environment(&base_url, &key, folder.into()) };
    let words = format!("inferstore run {MODEL} --rows jobs.csv -o out -j 16 --poll 0.2 --settle 2s -q");
    let code = inferstore_cli::run(words.split(' ').map(Into::into), environment);
    assert_eq!(code, 0);
}
