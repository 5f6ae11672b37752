//! `files sync` beside `aws s3 sync`, with 2,000 small files: `cargo bench --bench sync`. Theirs stores into SeaweedFS;
//! ours into a service, and into a service over the same SeaweedFS. `cargo xtask bench command` installs both programs
//! under `target/tools`.

#![expect(clippy::expect_used, reason = "a bench ends when it cannot go on")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use inferstore::types::UploadFolder;
use inferstore_measure::{Better, Row, Server, free_port, side_by_side};
use inferstore_service::{Config, S3Config, Service};

/// Each round has a folder of the storage for itself.
const ROUNDS: usize = 3;

const FILES: usize = 2000;

/// Size of a file in bytes.
const SIZE: usize = 4096;

/// Number of files that change between two syncs.
const CHANGED: usize = 20;

/// Access key and secret key of SeaweedFS.
const KEYS: [&str; 2] = ["bench", "bench-secret"];

/// Number of tries of the first command to SeaweedFS, which listens before it serves.
const MAX_TRIES: usize = 100;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, _seaweedfs) = seaweedfs(folder.path());
    let aws = |words: &[&str]| {
        let mut command = Command::new(tool("aws"));
        let [access_key, secret_key] = KEYS;
        command.env("AWS_ACCESS_KEY_ID", access_key).env("AWS_SECRET_ACCESS_KEY", secret_key);
        command
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .env("AWS_CONFIG_FILE", folder.path().join("no-such-file"));
        command.args(["--endpoint-url", &store, "s3"]).args(words);
        command
    };
    let tries = (0..MAX_TRIES).find(|_| {
        let made = aws(&["mb", "s3://theirs"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        made.expect("aws starts").success()
    });
    assert!(tries.is_some(), "SeaweedFS does not serve");

    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let [access_key, secret_key] = KEYS;
    let bucket = S3Config::new(&format!("s3://ours?endpoint={store}"), access_key, secret_key);
    let bucket = bucket.expect("it is a bucket");
    for (name, against, bucket) in [
        ("alone", "aws s3 sync to SeaweedFS", None),
        ("same", "aws s3 sync to SeaweedFS, which the service stores into too", Some(bucket)),
    ] {
        let mut config = Config::ephemeral();
        config.objects = bucket;
        let service = runtime.block_on(Service::start(config)).expect("the service starts");
        let files = Files::new(&folder.path().join(name));
        let ours = |round: usize| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_inferstore"));
            command.env("INFERSTORE_BASE_URL", service.base_url());
            command.env("INFERSTORE_API_KEY", service.api_key().unwrap_or_default());
            command.args(["files", "sync", "-q"]).arg(&files.folder).arg(UploadFolder::ALL[round].as_str());
            command
        };
        let theirs = |round: usize| {
            let mut command = aws(&["sync", "--no-progress"]);
            command.arg(&files.folder).arg(format!("s3://theirs/{name}/{round}"));
            command
        };
        compare(&files, against, ours, theirs);
        runtime.block_on(service.shutdown());
    }
}

/// Measures all syncs of both sides, each of which has a command for each round.
fn compare(files: &Files, against: &str, ours: impl Fn(usize) -> Command, theirs: impl Fn(usize) -> Command) {
    let jobs = "with their defaults, ours sends 4 files at once and aws 10; neither store syncs the disk";
    let contents =
        "ours compares the contents of all files, with one HEAD request each; aws their sizes and times";
    for (what, changed, sent, note) in [
        ("first upload of 2,000 files", 0, FILES, jobs),
        ("sync of 2,000 files, none changed", 0, 0, contents),
        ("sync of 2,000 files, 20 changed", CHANGED, CHANGED, contents),
    ] {
        let (mut round_of_ours, mut round_of_theirs) = (0..ROUNDS, 0..ROUNDS);
        let once = |round: Option<usize>, command: &dyn Fn(usize) -> Command| {
            files.change(changed);
            seconds(&mut command(round.unwrap_or_default()), sent)
        };
        let (ours, theirs) = side_by_side(
            ROUNDS,
            || once(round_of_ours.next(), &ours),
            || once(round_of_theirs.next(), &theirs),
        );
        let row = Row {
            group: "command".to_owned(),
            what: what.to_owned(),
            against: against.to_owned(),
            unit: "s".to_owned(),
            better: Better::Lower,
            ours,
            theirs,
            minimum: None,
            note: Some(note.to_owned()),
            command: "cargo xtask bench command".to_owned(),
        };
        row.print();
    }
}

/// Runs a sync that must send this number of files, and returns its time.
fn seconds(command: &mut Command, sent: usize) -> f64 {
    let begun = Instant::now();
    let output = command.output().expect("it starts");
    let seconds = begun.elapsed().as_secs_f64();
    let names = String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains(NAME)).count();
    assert!(output.status.success() && names == sent, "{names} files of {sent}: {output:?}");
    seconds
}

/// The beginning of the name of each file.
const NAME: &str = "small-";

/// The files to sync.
struct Files {
    folder: PathBuf,
}

impl Files {
    fn new(folder: &Path) -> Self {
        fs::create_dir(folder).expect("the folder can be made");
        let files = Self { folder: folder.to_owned() };
        files.change(FILES);
        files
    }

    /// Gives the first files another content.
    fn change(&self, count: usize) {
        for number in 0..count {
            let content: Vec<u8> =
                std::iter::repeat_with(|| fastrand::alphanumeric() as u8).take(SIZE).collect();
            fs::write(self.folder.join(format!("{NAME}{number:04}.txt")), content)
                .expect("a file can be written");
        }
    }
}

/// Starts SeaweedFS, and returns the URL of its S3 API.
fn seaweedfs(folder: &Path) -> (String, Server) {
    let [access_key, secret_key] = KEYS;
    let actions = r#"["Admin", "Read", "List", "Tagging", "Write"]"#;
    let credentials = format!(r#"[{{"accessKey": "{access_key}", "secretKey": "{secret_key}"}}]"#);
    let identities = format!(
        r#"{{"identities": [{{"name": "bench", "actions": {actions}, "credentials": {credentials}}}]}}"#
    );
    let config = folder.join("seaweedfs.json");
    fs::write(&config, identities).expect("a file can be written");
    let data = folder.join("seaweedfs");
    fs::create_dir(&data).expect("the folder can be made");
    let mut command = Command::new(tool("weed"));
    command
        .arg("server")
        .arg(format!("-dir={}", data.display()))
        .args(["-ip=127.0.0.1", "-ip.bind=127.0.0.1"]);
    command.args(["-filer", "-s3", "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.iam=false"]);
    command.args(["-master.volumeSizeLimitMB=64", "-volume.max=200", "-volume.minFreeSpace=64MiB"]);
    command.arg(format!("-s3.config={}", config.display()));
    let port = || free_port().expect("there is a free port");
    for part in ["master", "volume", "filer", "s3"] {
        command.arg(format!("-{part}.port.grpc={}", port()));
    }
    for part in ["master", "volume", "filer"] {
        command.arg(format!("-{part}.port={}", port()));
    }
    let port = port();
    command.arg(format!("-s3.port={port}")).stderr(Stdio::null());
    let server = Server::listening(&mut command, port).expect("SeaweedFS starts");
    (format!("http://127.0.0.1:{port}"), server)
}

/// The path of a program of others.
fn tool(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/sync/python/bin").join(name);
    assert!(program.exists(), "{name} is not installed; `cargo xtask bench command` does it");
    program
}
