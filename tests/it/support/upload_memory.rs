//! Memory of a large upload, measured in a process of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use inferstore::{Client, File, UploadEvent};
use inferstore_wire::{Reaction, Server};
use serde_json::json;

pub(crate) struct Measured {
    pub(crate) idle: u64,
    pub(crate) peak: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Tier {
    Form,
    Put,
}

/// Uploads a file of this size through the tier in a child process. `child` returns its command, which has to
/// call [`upload`] with its two arguments: the base URL, and the path of the file.
pub(crate) fn measure(tier: Tier, size: u64, child: impl FnOnce(&str, &Path) -> Command) -> Measured {
    let (method, path) = match tier {
        Tier::Form => ("POST", "/bucket"),
        Tier::Put => ("PUT", "/bucket/key?X-Amz-Algorithm=AWS4-HMAC-SHA256"),
    };
    let storage = Server::start(|_| Reaction::Json(200, String::new()));
    let endpoint = format!("{}{path}", storage.origin());
    let target =
        json!({"endpoint": endpoint, "fields": "{\"key\":\"k\"}", "download_url": "https://files.example/k"});
    let answer = json!({"status": "success", "message": "ok", "data": target}).to_string();
    let api = Server::start(move |_| Reaction::Json(200, answer.clone()));

    let path = std::env::temp_dir().join(format!("inferstore-large-{tier:?}-{}", std::process::id()));
    fs::File::create(&path).and_then(|file| file.set_len(size)).expect("a sparse file can be made");
    let output = child(&api.base_url(), &path).output().expect("the child runs");
    fs::remove_file(&path).expect("the file is ours");

    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}{}", String::from_utf8_lossy(&output.stderr));
    let number = |name: &str| -> u64 {
        let line = report.lines().find_map(|line| line.split_once(name)).map(|(_, rest)| rest);
        let digits = line.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no {name} in {report}"))
    };
    assert_eq!(number("progress="), size, "the pieces add up to the size");
    let [request] = &storage.requests()[..] else { panic!("{tier:?}: one request was expected") };
    let arrived = request.body_length;
    assert_eq!(request.header("content-length"), Some(&*arrived.to_string()));
    assert!(request.method == method && arrived >= size, "{} with {arrived} bytes", request.method);
    Measured { idle: number("idle="), peak: number("peak=") }
}

pub(crate) fn upload(base_url: &str, path: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = Client::new(base_url, "key").expect("a client");
    let idle = memory();
    let (mut progress, mut peak) = (0, idle);
    let mut events = client.folder("samples").upload(File::path(path)).events();
    runtime.block_on(async {
        while let Some(event) = events.next().await {
            if let UploadEvent::Progress { sent, .. } = event {
                assert!(sent > progress, "it never goes back");
                progress = sent;
                peak = peak.max(memory());
            }
        }
        events.finish().await.expect("it is stored");
    });
    format!("idle={idle} peak={} progress={progress}", peak.max(memory()))
}

/// Returns the allocated memory of this process in KiB, without code pages: their number depends on the size
/// of the program.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the system tells");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).expect("a number of kB")
}
