//! Uploads of both tiers and downloads, 100 MiB each, by the client and by curl, against the same service:
//! throughput and memory: `cargo bench --bench transfers`. Needs curl.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops when it cannot go on"
)]

#[path = "support/service.rs"]
#[expect(dead_code, reason = "metrics and nodes are used elsewhere")]
mod service;

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use inferstore::Client;
use inferstore_measure::{Better, Row, Spent, spent};
use serde_json::Value;
use service::{Service, payload};

const ROUNDS: usize = 5;
const MIB: u64 = 1 << 20;

/// Largest file of the form tier, and the number of them that makes 100 MiB.
const SMALL: u64 = 5 * MIB;
const SMALL_FILES: u64 = 20;
const LARGE: u64 = 100 * MIB;

const NAME: &str = "pictures.zip";
const MIME: &str = "application/zip";

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let [_, what, base_url, key, times, from, to] = &arguments[..] {
        return transfer(what, base_url, key, times.parse().expect("a number"), from, to);
    }
    let bench = Bench::new();
    println!("{ROUNDS} rounds, each a process of its own from its start to its end");
    let (small, large) = (bench.file("small", SMALL), bench.file("large", LARGE));
    let url = bench.presign(LARGE)["download_url"].as_str().expect("a URL").to_owned();
    bench.tell(
        "upload of 20 forms of 5 MiB",
        |_| bench.client("upload", SMALL_FILES, &small, ""),
        |_| bench.curl_forms(&small),
    );
    bench.tell(
        "upload of 100 MiB by PUT",
        |_| bench.client("upload", 1, &large, ""),
        |_| bench.curl_put(&large),
    );
    bench.tell(
        "download of 100 MiB",
        |to| bench.client("download", 1, Path::new(&url), to),
        |to| {
            let mut curl = curl();
            curl.args(["-o", to, &url]);
            curl
        },
    );
}

fn transfer(what: &str, base_url: &str, key: &str, times: u64, from: &str, to: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = Client::new(base_url, key).expect("a client");
    runtime.block_on(async {
        for _ in 0..times {
            if what == "upload" {
                let file = inferstore::File::path(from).named(NAME).with_mime(MIME);
                client.folder("documents").upload(file).await.expect("it is stored");
            } else {
                client.download(from).to_file(to).await.expect("it comes");
            }
        }
    });
}

struct Bench {
    service: Service,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { service: Service::start(None, 0), folder: tempfile::tempdir().expect("a temporary folder") }
    }

    fn file(&self, name: &str, size: u64) -> PathBuf {
        let path = self.folder.path().join(name);
        File::create(&path).and_then(|file| file.set_len(size)).expect("a file can be made");
        path
    }

    fn presign(&self, size: u64) -> Value {
        let body = format!(r#"{{"folder":"documents","mime":"{MIME}","name":"{NAME}","size":{size}}}"#);
        let ask = self.service.request("POST", "/api-key/storage/upload/create-presigned-url", Some(&body));
        payload(&self.service.connect().call(&ask).expect("an answer"))
    }

    fn client(&self, what: &str, times: u64, from: &Path, to: &str) -> Command {
        let mut child = Command::new(env::current_exe().expect("this program has a path"));
        child.args([what, &self.service.base_url, &self.service.key, &times.to_string()]);
        child.arg(from).arg(to);
        child
    }

    /// Uploads all forms in one process, so that curl also starts and connects once.
    fn curl_forms(&self, file: &Path) -> Command {
        let target = self.presign(SMALL);
        let fields: Value = serde_json::from_str(target["fields"].as_str().expect("a text")).expect("JSON");
        let mut command = curl();
        for number in 0..SMALL_FILES {
            if number > 0 {
                command.args(["--next", "-sSf", "-H", "Expect:", "-o", "/dev/null"]);
            } else {
                command.args(["-o", "/dev/null"]);
            }
            for (name, value) in fields.as_object().expect("an object") {
                command.args(["--form-string", &format!("{name}={}", value.as_str().expect("a text"))]);
            }
            command.args(["-F", &format!("file=@{};type={MIME}", file.display())]);
            command.arg(target["endpoint"].as_str().expect("a URL"));
        }
        command
    }

    fn curl_put(&self, file: &Path) -> Command {
        let target = self.presign(LARGE);
        let mut command = curl();
        command.args(["-H", &format!("Content-Type: {MIME}"), "-T"]).arg(file);
        command.arg(target["endpoint"].as_str().expect("a URL"));
        command
    }

    fn tell(&self, what: &str, ours: impl Fn(&str) -> Command, theirs: impl Fn(&str) -> Command) {
        let to = self.folder.path().join("arrived");
        let to = to.to_str().expect("a path in words");
        let run = |command: &dyn Fn(&str) -> Command| -> Spent {
            let spent = spent(&mut command(to)).expect("it works");
            // A download never replaces a file.
            let _ = fs::remove_file(to);
            spent
        };
        let rounds: Vec<(Spent, Spent)> = (0..ROUNDS).map(|_| (run(&ours), run(&theirs))).collect();
        let of = |figure: fn(Spent) -> f64| -> (Vec<f64>, Vec<f64>) {
            rounds.iter().map(|(ours, theirs)| (figure(*ours), figure(*theirs))).unzip()
        };
        let speed = of(|spent| 100.0 / spent.time.as_secs_f64());
        let note = "the whole process, from its start to its end; ours also requests the upload target, curl \
                    gets one";
        row(what, "MiB/s", Better::Higher, speed, note).print();
        let note = "the peak of the process; ours carries TLS, a runtime and the types of the whole API";
        row(&format!("{what}: memory"), "MiB", Better::Lower, of(|spent| spent.peak), note).print();
    }
}

fn curl() -> Command {
    let mut command = Command::new("curl");
    // Without `Expect: 100-continue`, which is faster here.
    command.args(["-sSf", "-H", "Expect:"]);
    command
}

fn row(what: &str, unit: &str, better: Better, (ours, theirs): (Vec<f64>, Vec<f64>), note: &str) -> Row {
    Row {
        group: "client".to_owned(),
        what: what.to_owned(),
        against: "curl".to_owned(),
        unit: unit.to_owned(),
        better,
        ours,
        theirs,
        minimum: Some(0.8),
        note: Some(note.to_owned()),
        command: "cargo bench --bench transfers".to_owned(),
    }
}
