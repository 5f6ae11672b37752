//! The command in this process, a service to talk to, and what they print without what differs from
//! run to run.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Cursor, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use inferstore_cli::Environment;
use inferstore_service::{Config, Service};
use inferstore_wire::{Reaction, Server};
use parking_lot::Mutex;
use tempfile::TempDir;

/// A small picture that every model takes.
pub(crate) const PICTURE: &[u8] = include_bytes!("../../demo/hazy.png");

/// A base URL without a service. The port is below those that a system hands out, so no other test
/// can be given it.
pub(crate) const CLOSED: &str = "http://127.0.0.1:1/api/v1";

/// Of 32 by 24 pixels: the runs of hundreds of them end soon.
const SMALL_PICTURE: &[u8] = include_bytes!("small.png");

/// A running service with predictable identifiers, and a folder to call the command in.
pub(crate) struct Local {
    pub(crate) cli: Cli,
    service: Option<Service>,
    runtime: tokio::runtime::Runtime,
}

impl Local {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::ephemeral();
        config.seed = Some(7);
        config.workers = 2;
        // Its tasks stay in the queue.
        config.excluded_models.insert("face-mesh".to_owned());
        config.first_account.api_key = Some("the-key-of-the-tests".to_owned());
        change(&mut config);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime can be made");
        let service = runtime.block_on(Service::start(config)).expect("the service starts");
        let mut cli = Cli::new();
        cli.set("INFERSTORE_BASE_URL", service.base_url());
        cli.set("INFERSTORE_API_KEY", "the-key-of-the-tests");
        Self { cli, service: Some(service), runtime }
    }

    pub(crate) fn service(&self) -> &Service {
        self.service.as_ref().expect("it runs")
    }

    /// Starts a service whose requests can be made to fail.
    #[cfg(feature = "controls")]
    pub(crate) fn with_controls() -> Self {
        Self::with(|config| *config = config.clone().with_controls())
    }

    /// Makes requests fail, as the reference of the controls describes a fault.
    #[cfg(feature = "controls")]
    pub(crate) fn fault(&self, fault: serde_json::Value) {
        let fault = serde_json::from_value(fault).expect("it is a fault");
        let controls = self.service().controls().expect("they are on");
        controls.add_fault(fault).expect("it can be one");
    }

    /// Decides how the tasks of a model end.
    #[cfg(feature = "controls")]
    pub(crate) fn script(&self, model: &str, script: inferstore_service::Script) {
        let controls = self.service().controls().expect("they are on");
        self.block_on(controls.let_model(model, script)).expect("it can be decided");
    }

    /// Changes what a run of a model costs.
    #[cfg(feature = "controls")]
    pub(crate) fn price(&self, model: &str, price: &str) {
        let price = price.parse().expect("an amount");
        let change = inferstore_service::ModelChange { price: Some(price), ..Default::default() };
        self.block_on(self.service().change_model(model, change)).expect("there is such a model");
    }

    /// The command as a process of its own.
    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inferstore"));
        command
            .args(words.split(' '))
            .env("INFERSTORE_BASE_URL", self.service().base_url())
            .env("INFERSTORE_API_KEY", "the-key-of-the-tests")
            .env("INFERSTORE_CONFIG", self.cli.path("profiles.json"))
            .env_remove("INFERSTORE_PROFILE")
            .current_dir(self.cli.folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(service) = self.service.take() {
            self.runtime.block_on(service.shutdown());
        }
    }
}

/// The command, called in this process from a folder of its own.
pub(crate) struct Cli {
    pub(crate) folder: TempDir,
    variables: BTreeMap<String, String>,
    stdin: Vec<u8>,
    is_typing: bool,
    width: Option<usize>,
}

/// The exit code and the output of a command.
pub(crate) struct Ended {
    pub(crate) code: u8,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Cli {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        std::fs::write(folder.path().join("hazy.png"), PICTURE).expect("a file can be written");
        let mut cli =
            Self { folder, variables: BTreeMap::new(), stdin: Vec::new(), is_typing: false, width: None };
        let config = cli.path("profiles.json");
        cli.set("INFERSTORE_CONFIG", &config);
        cli
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    pub(crate) fn unset(&mut self, name: &str) {
        self.variables.remove(name);
    }

    pub(crate) fn stdin(&mut self, text: &str) {
        self.stdin = text.as_bytes().to_vec();
    }

    pub(crate) fn stdin_bytes(&mut self, bytes: &[u8]) {
        self.stdin = bytes.to_vec();
    }

    /// Standard input is a terminal from now on.
    pub(crate) fn typing(&mut self) {
        self.is_typing = true;
    }

    /// Standard output is a terminal of this width from now on.
    pub(crate) fn on_a_terminal(&mut self, width: usize) {
        self.width = Some(width);
    }

    /// Calls the command with words that are separated by single spaces.
    pub(crate) fn call(&self, words: &str) -> Ended {
        self.call_with(&words.split(' ').collect::<Vec<_>>())
    }

    pub(crate) fn call_with(&self, words: &[&str]) -> Ended {
        let (stdout, stderr) = (Stream::default(), Stream::default());
        let environment = Environment {
            variables: self.variables.clone(),
            folder: self.folder.path().to_owned(),
            stdin: Box::new(Cursor::new(self.stdin.clone())),
            stdout: Box::new(stdout.clone()),
            stderr: Box::new(stderr.clone()),
            stdin_is_terminal: self.is_typing,
            stdout_is_terminal: self.width.is_some(),
            stderr_is_terminal: false,
            width: self.width.unwrap_or(100),
        };
        let mut arguments = ["inferstore"].iter().chain(words).copied().collect::<Vec<_>>();
        // The models of the tests are quicker than what the client expects of a model.
        let waits = matches!(words, ["run", ..] | ["task", "wait" | "rerun", ..]);
        if waits && !["--poll", "--detach"].iter().any(|word| words.contains(word)) {
            arguments.extend(["--poll", "0.1"]);
        }
        let arguments = arguments.into_iter().map(Into::into);
        let code = inferstore_cli::run(arguments, environment);
        Ended { code, stdout: stdout.text(), stderr: stderr.text() }
    }

    /// Calls one command after the other, and returns everything that they printed.
    pub(crate) fn transcript(&self, commands: &[&str]) -> String {
        let called = |command: &&str| {
            let ended = self.call(command);
            let has_hint = ["\nhint: ", "try '--help'"].iter().any(|hint| ended.stderr.contains(hint));
            assert!(ended.code == 0 || has_hint, "every failure says what to try: {ended}");
            format!("$ inferstore {command}\n{ended}")
        };
        self.without_folder(&commands.iter().map(called).collect::<Vec<_>>().join("\n"))
    }

    pub(crate) fn without_folder(&self, text: &str) -> String {
        text.replace(&self.path(""), "FOLDER/").replace(&*self.folder.path().to_string_lossy(), "FOLDER")
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                writeln!(f, "--- {name}\n{}", text.trim_end_matches('\n'))?;
            }
        }
        writeln!(f, "--- exit code {}", self.code)
    }
}

/// Replaces what differs from run to run.
pub(crate) fn filters() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    for (pattern, replacement) in [
        // Identifiers of tasks, files and requests.
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
        // Names that keep the files of a run apart.
        (r"samples/[0-9a-z-]+-hazy\.png", "samples/RUN-hazy.png"),
        // Whichever ports were free.
        (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
        (r"/[0-9a-f]{32}/", "/TOKEN/"),
        // Times of day, and how long things took.
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "TIME"),
        (r"\d+\.\d s\b", "N s"),
        (r"\b\d+s ago", "Ns ago"),
        (r"within \d+ ms", "within N ms"),
        // How often a file of a batch was read.
        (r"\w+\.png: (in_queue|computing)\n", ""),
        (r"<RequestId>[0-9a-f-]+…", "<RequestId>…"),
        // How often a task was read, and so how many statuses were seen.
        (r"task: (in_queue|computing)\n", ""),
    ] {
        settings.add_filter(pattern, replacement);
    }
    settings.bind_to_scope()
}

/// A stream that is kept.
#[derive(Clone, Default)]
struct Stream(Arc<Mutex<Vec<u8>>>);

impl Stream {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts a server that responds to each request with these data in an envelope, and returns its origin.
pub(crate) fn answering(data: impl Fn(&str) -> serde_json::Value + Send + 'static) -> String {
    let envelope = |data| serde_json::json!({"status": "success", "message": "ok", "data": data});
    Server::start(move |request| Reaction::Json(200, envelope(data(&request.head)).to_string())).origin()
}

/// Writes this many pictures that differ.
pub(crate) fn pictures(folder: &Path, count: usize) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|number| format!("p{number:03}.png")).collect();
    for name in &names {
        picture(&folder.join(name), name);
    }
    names
}

/// Writes a picture that differs from others by these words.
pub(crate) fn picture(path: &Path, words: &str) {
    // Bytes behind the end of a PNG change its hash, and nothing that is seen.
    std::fs::write(path, [SMALL_PICTURE, words.as_bytes()].concat()).expect("it can be written");
}

/// Sends a signal to a process.
#[cfg(unix)]
pub(crate) fn send(signal: &str, process: u32) {
    let sent = Command::new("kill").args(["-s", signal, &process.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{process} cannot be sent {signal}");
}

/// The files of a folder, by name.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The program of a keyring, which keeps each key in a file of this folder. `locked` there makes it refuse.
#[cfg(target_os = "linux")]
const SECRET_TOOL: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
if [ -e locked ]; then echo 'the collection is locked' >&2; exit 1; fi
action=$1
while [ "$1" != service ]; do shift; done
entry=entry-$(printf %s "$4 $6" | tr -c 'a-z0-9' _)
case $action in
  store) cat >"$entry" ;;
  lookup) cat "$entry" 2>/dev/null ;;
  clear) rm "$entry" ;;
esac
"#;

/// Installs this program in a folder of its own, and returns the folder.
#[cfg(target_os = "linux")]
pub(crate) fn secret_tool(cli: &Cli) -> String {
    let folder = cli.path("bin");
    std::fs::create_dir(&folder).expect("a new folder");
    let (script, program) = (cli.path("script"), cli.path("bin/secret-tool"));
    std::fs::write(&script, SECRET_TOOL).expect("it is ours");
    // Copied by another process: a file that one of this process writes cannot be run meanwhile.
    let copied = std::process::Command::new("install").args(["-m", "700", &script, &program]).status();
    assert!(copied.expect("it starts").success());
    folder
}
