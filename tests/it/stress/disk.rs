//! Full disk, and data folder without write permission: errors are reported, nothing is half done, and the
//! service resumes when there is space.
//!
//! Two ways to fill a disk. A limit on file sizes, set on the running process and lifted again, works
//! everywhere and for every user. A small file system is the real case, on machines that allow mounting one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use super::durability::{Caller, books_are_right, charges_are_right, no_stray_bytes};
use super::process::{PLAIN, Start, free_ports};
use super::{Intensity, tell};

/// A write past the limit fails without ending the process.
const LIMITED: &str = r#"trap '' XFSZ; exec "$@""#;

const FULL: &str = r#"trap '' XFSZ; ulimit -f 0; exec "$@""#;

const SMALL: &str = r#"exec unshare --user --map-root-user --mount sh -c \
    'mount -t tmpfs -o size=64m none "$2" && exec "$@"' sh "$@""#;

fn bound_by_permissions() -> &'static str {
    let mine = tempfile::tempfile().and_then(|file| file.metadata()).expect("a file");
    // File permissions do not apply to root, so it drops that capability.
    match mine.uid() == 0 {
        true => r#"exec setpriv --bounding-set=-dac_override,-dac_read_search "$@""#,
        false => PLAIN,
    }
}

enum Disk {
    Limited(Pid),
    /// Data folder, as other processes see it.
    Small(PathBuf),
}

impl Disk {
    fn fill(&self, room: u64) {
        match self {
            Self::Limited(service) => limit(*service, Some(room)),
            Self::Small(folder) => {
                let mut filler = fs::File::create(folder.join("filler")).expect("it is ours");
                while filler.write_all(&[1; 4096]).is_ok() {}
                let length = filler.metadata().expect("it is there").len();
                filler.set_len(length.saturating_sub(room)).expect("it becomes shorter");
            }
        }
    }

    fn make_room(&self) {
        match self {
            Self::Limited(service) => limit(*service, None),
            Self::Small(folder) => fs::remove_file(folder.join("filler")).expect("it is there"),
        }
    }
}

fn limit(service: Pid, bytes: Option<u64>) {
    let limit = Rlimit { current: bytes, maximum: None };
    prlimit(Some(service), Resource::Fsize, limit).expect("the process is ours");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_reported_and_the_service_recovers_with_free_space() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let start = Start { by: LIMITED, ..Start::plain(folder.path(), free_ports()) };
    let process = start.ready();
    let caller = Caller::new(&process.base_url, &process.api_key);
    let disk = Disk::Limited(Pid::from_child(&process.child));
    let crowd = Crowd::fill_and_empty(&caller, &disk).await;
    let said = process.complaints();
    assert!(said.contains("make room on the disk of the data folder"), "{said}");
    assert!(said.contains(&format!("writing an object to {}", folder.path().display())), "{said}");
    process.kill();

    // Partial files are removed at the next start, which a full disk only delays.
    let full = Start { by: FULL, ..start };
    let said = full.failure();
    assert!(said.contains(&folder.path().display().to_string()) && said.contains("make room"), "{said}");
    let process = start.ready();
    crowd.check(&caller).await;
    charges_are_right(&caller).await;
    no_stray_bytes(process, folder.path(), &caller).await;
    books_are_right(folder.path()).await;
    tell(&format!("a limit on files: {}", crowd.figures()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_holds_on_a_small_file_system() {
    let is_allowed = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if !is_allowed {
        return tell(
            "no small file system: this machine does not permit mounting one. A limit on files was tried",
        );
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let start = Start { by: SMALL, ..Start::plain(folder.path(), free_ports()) };
    let process = start.ready();
    let caller = Caller::new(&process.base_url, &process.api_key);
    let seen_from_here = format!("/proc/{}/root{}", process.child.id(), folder.path().display());
    let crowd = Crowd::fill_and_empty(&caller, &Disk::Small(seen_from_here.into())).await;
    charges_are_right(&caller).await;
    process.end_having_complained();
    tell(&format!("a small file system: {}", crowd.figures()));
}

#[derive(Default)]
struct Crowd {
    created: BTreeSet<String>,
    stored: BTreeMap<String, Vec<u8>>,
    refused: u32,
}

impl Crowd {
    async fn fill_and_empty(caller: &Caller, disk: &Disk) -> Self {
        let intensity = Intensity::of_this_run();
        let (mut random, rounds) = (intensity.random(), intensity.times(3, 60));
        let mut crowd = Self::default();
        let picture = crate::support::picture::red_and_blue();
        let input = caller.upload("input.bmp", &picture).await.expect("there is room");
        crowd.stored.insert(input.clone(), picture);
        for round in 0..rounds {
            let room = if round == 0 { 0 } else { random.u64(0..160 * 1024) };
            let sizes: Vec<_> = (0..4).map(|_| random.usize(1..120 * 1024)).collect();
            let early = vec![b'e'; sizes[0]];
            let target = target(caller, &format!("{round}-early.txt"), early.len()).await;
            let target = target.expect("there is still room");
            disk.fill(room);
            let before = crowd.refused;
            crowd.all_at_once(caller, &input, round, &sizes).await;
            crowd.refused += u32::from(send(caller, &target, &early).await.is_none());
            if let (Disk::Limited(_), 0) = (disk, room) {
                assert_eq!(crowd.refused - before, 13, "nothing can be written, so everything is refused");
            }
            for path in ["/api-key/balance", "/api-key/task/histories", "/api-key/storage/upload/documents"] {
                caller.data(path).await;
            }
            disk.make_room();
            let url = send(caller, &target, &early).await.expect("a target lives on");
            crowd.stored.insert(url, early);
            let before = crowd.refused;
            crowd.all_at_once(caller, &input, rounds + round, &sizes).await;
            assert_eq!(crowd.refused, before, "there is room again, and something is still refused");
            crowd.check(caller).await;
        }
        crowd
    }

    async fn all_at_once(&mut self, caller: &Caller, input: &str, round: u32, sizes: &[usize]) {
        let creates = (0..8).map(|_| create(caller, input));
        let uploads = sizes.iter().enumerate().map(|(number, size)| {
            let content = vec![b'a' + number as u8; *size];
            let name = format!("{round}-{number}.txt");
            async move { (store(caller, &name, &content).await, content) }
        });
        let (created, stored) = tokio::join!(join_all(creates), join_all(uploads));
        for id in created {
            match id {
                Some(id) => assert!(self.created.insert(id), "an identifier was given twice"),
                None => self.refused += 1,
            }
        }
        for (url, content) in stored {
            match url {
                Some(url) => drop(self.stored.insert(url, content)),
                None => self.refused += 1,
            }
        }
    }

    async fn check(&self, caller: &Caller) {
        let ended = async {
            loop {
                let tasks = caller.tasks().await;
                let waits = |task: &Value| task["status"] == "in_queue" || task["status"] == "computing";
                if !tasks.iter().any(waits) {
                    return tasks;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let tasks = tokio::time::timeout(Duration::from_secs(120), ended).await.expect("tasks end");
        let ids = tasks.iter().filter_map(|task| task["task_id"].as_str().map(str::to_owned));
        assert_eq!(ids.collect::<BTreeSet<_>>(), self.created, "tasks of no response, or none");
        let mut listed = BTreeSet::new();
        for folder in ["samples", "documents"] {
            let files = caller.data(&format!("/api-key/storage/upload/{folder}?pageSize=1000")).await;
            for file in files["files"].as_array().into_iter().flatten() {
                let url = file["download_url"].as_str().expect("it has a URL");
                assert_eq!(caller.read(url).await, self.stored[url], "{url}");
                listed.insert(url.to_owned());
                assert_eq!(file["size"].as_u64(), Some(self.stored[url].len() as u64));
            }
        }
        assert_eq!(listed.len(), self.stored.len(), "files of no response, or none");
    }

    fn figures(&self) -> String {
        let (created, stored) = (self.created.len(), self.stored.len());
        format!("{created} tasks and {stored} files, {} refused, nothing half done", self.refused)
    }
}

async fn create(caller: &Caller, input: &str) -> Option<String> {
    let path = "/api-key/model/color-extraction/task";
    let answer = caller.call(Method::POST, path, Some(json!({ "input": input }))).await;
    reported(answer).map(|data| data["data"].as_str().expect("an identifier").to_owned())
}

async fn store(caller: &Caller, name: &str, content: &[u8]) -> Option<String> {
    let target = target(caller, name, content.len()).await?;
    send(caller, &target, content).await
}

async fn target(caller: &Caller, name: &str, size: usize) -> Option<Value> {
    let order = json!({"folder": "documents", "mime": "text/plain", "name": name, "size": size});
    let path = "/api-key/storage/upload/create-presigned-url";
    reported(caller.call(Method::POST, path, Some(order)).await)
}

async fn send(caller: &Caller, target: &Value, content: &[u8]) -> Option<String> {
    let status = caller.send(target, content).await.expect("an answer comes");
    assert!(status.is_success() || status.is_server_error(), "{status}");
    status.is_success().then(|| target["download_url"].as_str().expect("a URL").to_owned())
}

/// Returns the payload. `None`: an API failure that reports lack of space.
fn reported(answer: Option<(StatusCode, Value)>) -> Option<Value> {
    let (status, mut body) = answer.expect("an answer comes");
    if status == StatusCode::OK {
        return Some(body["data"].take());
    }
    assert_eq!((status, &body["status"]), (StatusCode::INSUFFICIENT_STORAGE, &json!("fail")), "{body}");
    assert!(body["message"].as_str().is_some_and(|message| message.contains("disk")), "{body}");
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_without_write_permission_is_named_and_left_unchanged() {
    let outer = tempfile::tempdir().expect("a temporary folder");
    let folder = outer.path().join("data");
    let start = Start { by: bound_by_permissions(), ..Start::plain(&folder, free_ports()) };
    let is_named = |said: &str| {
        assert!(said.contains(&folder.display().to_string()), "{said}");
        assert!(said.contains("let the user of the service write to the data folder"), "{said}");
    };

    set_mode(outer.path(), 0o555);
    is_named(&start.failure());
    set_mode(outer.path(), 0o755);
    fs::write(&folder, "a file").expect("it can be written");
    is_named(&start.failure());
    fs::remove_file(&folder).expect("it is there");

    let process = start.ready();
    let caller = Caller::new(&process.base_url, &process.api_key);
    let mut crowd = Crowd::default();
    let input = store(&caller, "kept.txt", b"kept").await.expect("it can be written");
    crowd.stored.insert(input.clone(), b"kept".to_vec());
    for mode in [0o555, 0o755] {
        set_mode(&folder.join("objects/incoming"), mode);
        let refused = crowd.refused;
        crowd.all_at_once(&caller, &input, mode, &[10; 4]).await;
        assert_eq!(crowd.refused - refused, if mode == 0o555 { 4 } else { 0 }, "{mode:o}");
        crowd.check(&caller).await;
    }
    is_named(&process.end_having_complained());

    for mode in [[0o555, 0o444], [0o755, 0o644]] {
        set_all_modes(&folder, mode);
        if mode[0] == 0o555 {
            is_named(&start.failure());
        }
    }
    let process = start.ready();
    crowd.check(&caller).await;
    no_stray_bytes(process, &folder, &caller).await;
    books_are_right(&folder).await;
    tell(&format!("a folder that may not be written to: {}", crowd.figures()));
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

fn set_all_modes(folder: &Path, modes: [u32; 2]) {
    for entry in fs::read_dir(folder).expect("it can be listed") {
        let path = entry.expect("it is there").path();
        match path.is_dir() {
            true => set_all_modes(&path, modes),
            false => set_mode(&path, modes[1]),
        }
    }
    set_mode(folder, modes[0]);
}
