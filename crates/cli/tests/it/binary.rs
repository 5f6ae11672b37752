//! The real binary: as a process, with real signals.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use inferstore_cli::exit;

use crate::support::{Cli, Local, names_in, send};

fn inferstore() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inferstore"));
    for variable in ["BASE_URL", "API_KEY", "PROFILE", "CONFIG", "FIRST_KEY", "LOG"] {
        command.env_remove(format!("INFERSTORE_{variable}"));
    }
    command
}

/// A service in a process of its own.
struct Served {
    process: Child,
    ready: serde_json::Value,
}

/// Starts a service for people, and returns the lines for a shell that it prints.
fn exports(arguments: &[&str], lines: usize) -> Vec<String> {
    let mut process = inferstore()
        .args(["serve", "--port", "0", "--storage-port", "0", "--ephemeral", "--no-console"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let stdout = process.stdout.take().expect("it is piped");
    let read = BufReader::new(stdout).lines().take(lines).map(|line| line.expect("a line")).collect();
    process.kill().expect("it runs");
    process.wait().expect("it ends");
    read
}

#[test]
fn a_service_with_controls_prints_where_they_are_for_a_shell() {
    let lines = exports(&["--controls-port", "0"], 4);
    let names: Vec<&str> = lines.iter().filter_map(|line| line.split('=').next()).collect();
    let expected = ["BASE_URL", "API_KEY", "CONTROLS_URL", "CONTROLS_TOKEN"];
    assert_eq!(names, expected.map(|name| format!("export INFERSTORE_{name}")));
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        Self::with(arguments, &[])
    }

    fn with(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut process = inferstore()
            .args(["serve", "--port", "0", "--storage-port", "0", "--ready-json"])
            // Its tasks stay in the queue.
            .args(["--exclude-model", "face-mesh"])
            .args(arguments)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let stdout = process.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it is ready");
        Self { process, ready: serde_json::from_str(&line).expect("one line of JSON") }
    }

    fn call(&self, words: &str) -> Command {
        let mut command = inferstore();
        command.args(words.split(' '));
        for (variable, field) in [("INFERSTORE_BASE_URL", "base_url"), ("INFERSTORE_API_KEY", "api_key")] {
            command.env(variable, self.ready[field].as_str().unwrap_or_default());
        }
        command
    }

    /// Sends the API this many requests on one connection, and reads every response.
    fn ask(&self, requests: usize) {
        let url = self.ready["base_url"].as_str().expect("it is printed");
        let host = url.trim_start_matches("http://").trim_end_matches("/api/v1");
        let mut stream = TcpStream::connect(host).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let mut response = [0; 4_096];
        for _ in 0..requests {
            stream.write_all(b"GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n").expect("it is sent");
            assert!(stream.read(&mut response).is_ok_and(|length| length > 0), "no response");
        }
    }

    /// Ends it with a signal, and returns the rest of what it printed.
    fn end(self, signal: &str) -> Output {
        send(signal, self.process.id());
        self.process.wait_with_output().expect("it ends")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_and_version_are_data() {
    let version = inferstore().arg("--version").output().expect("it starts");
    assert_eq!(text(&version.stdout), concat!("inferstore ", env!("CARGO_PKG_VERSION"), "\n"));
    let help = inferstore().arg("--help").output().expect("it starts");
    assert!(text(&help.stdout).contains("help exit-codes") && help.stderr.is_empty(), "{help:?}");
    let nothing = inferstore().output().expect("it starts");
    assert_eq!(nothing.status.code(), Some(exit::USAGE.into()));
    assert!(nothing.stdout.is_empty(), "{nothing:?}");
}

#[test]
fn a_service_says_one_line_and_keeps_what_it_was_told() {
    let cli = Cli::new();
    let folder = cli.path("data");
    let served = Served::start(&["--data-dir", &folder]);
    let ready = &served.ready;
    assert_eq!(ready["event"], "ready");
    assert_eq!(ready["pid"], served.process.id());
    assert_eq!(ready["data_dir"], folder.as_str());
    assert!(ready["storage_url"].as_str().is_some_and(|url| url.starts_with("http://127.0.0.1:")), "{ready}");

    let upload = served.call("files upload samples hazy.png").current_dir(cli.folder.path()).output();
    assert!(upload.expect("it starts").status.success());
    let ended = served.end("TERM");
    assert!(ended.status.success() && ended.stdout.is_empty(), "{ended:?}");

    let again = Served::start(&["--data-dir", &folder]);
    assert!(again.ready["api_key"].is_null(), "only a hash is kept: {}", again.ready);
    assert!(again.end("INT").status.success());
}

#[test]
fn an_unaffordable_task_is_refused_or_fails_by_the_setting() {
    let cli = Cli::new();
    let folder = cli.path("data");
    let first = Served::start(&["--data-dir", &folder]);
    let key = first.ready["api_key"].clone();
    first.end("TERM");
    assert_eq!(cli.call("admin model price face-mesh 1000 --data-dir data").code, exit::DONE);
    for (choice, tasks) in [("refuse", 0), ("fail-task", 1)] {
        let mut served = Served::start(&["--data-dir", &folder, "--insufficient-balance", choice]);
        served.ready["api_key"] = key.clone();
        let run = served.call("run face-mesh -i input=https://files.example/face.png").output();
        let run = run.expect("it starts");
        assert!(!run.status.success() && text(&run.stderr).contains("balance"), "{run:?}");
        let list = served.call("task list --format quiet").output().expect("it starts");
        assert_eq!(text(&list.stdout).lines().count(), tasks, "{choice}: {list:?}");
        served.end("TERM");
    }
}

/// Ends a service, which has written its key neither to standard output nor to its log.
fn not_printed(served: Served, key: &str) {
    assert!(served.ready["api_key"].is_null(), "{}", served.ready);
    let ended = served.end("TERM");
    assert!(!text(&ended.stdout).contains(key) && !text(&ended.stderr).contains(key), "{ended:?}");
}

#[test]
fn the_first_key_is_never_the_clients_and_an_invalid_key_is_not_printed() {
    let cli = Cli::new();
    let folder = cli.path("data");
    let first = "a-first-key-of-ours";
    let variables = [("INFERSTORE_API_KEY", "a-key-of-another-service"), ("INFERSTORE_FIRST_KEY", first)];
    let served = Served::with(&["--data-dir", &folder], &variables);
    let works = |served: &Served| {
        let mut balance = served.call("balance");
        balance.env("INFERSTORE_API_KEY", first).output().expect("it starts").status.success()
    };
    assert!(works(&served));
    not_printed(served, first);

    let key_file = cli.path("key.txt");
    // The unit of a system names it at every start.
    for (key, is_unused) in [("another-first-key", true), (first, false)] {
        std::fs::write(&key_file, key).expect("the key is written");
        let again = Served::start(&["--data-dir", &folder, "--first-key-file", &key_file]);
        assert!(again.ready["api_key"].is_null(), "{}", again.ready);
        let ended = again.end("TERM");
        assert_eq!(text(&ended.stderr).contains("the first key was not used"), is_unused, "{ended:?}");
    }

    std::fs::write(&key_file, format!("{first}\n")).expect("the key is written");
    let from_file = Served::start(&["--ephemeral", "--first-key-file", &key_file]);
    assert!(works(&from_file));
    not_printed(from_file, first);
    let lines = exports(&["--first-key-file", &key_file, "--controls-port", "0"], 2);
    assert!(lines[1].starts_with("export INFERSTORE_CONTROLS_URL"), "{lines:?}");
    let short = inferstore()
        .args(["serve", "--ephemeral", "--port", "0", "--storage-port", "0"])
        .env("INFERSTORE_FIRST_KEY", "short")
        .output();
    let short = short.expect("it starts");
    assert_eq!(short.status.code(), Some(exit::USAGE.into()));
    assert!(text(&short.stderr).contains("at least 16"), "{short:?}");
    let mut no_url = inferstore();
    let no_url = no_url
        .args(["serve", "--ephemeral", "--port", "0", "--storage-port", "0", "--storage-url", "foo"])
        .output()
        .expect("it starts");
    assert_eq!(no_url.status.code(), Some(exit::USAGE.into()), "{no_url:?}");
    let key_of_a_client = inferstore().args(["serve", "--ephemeral", "--api-key", "x"]).output();
    assert_eq!(key_of_a_client.expect("it starts").status.code(), Some(exit::USAGE.into()));
    let no_bucket =
        inferstore().args(["serve", "--ephemeral", "--database", "postgres://localhost/x"]).output();
    let no_bucket = no_bucket.expect("it starts");
    assert_eq!(no_bucket.status.code(), Some(exit::USAGE.into()), "{no_bucket:?}");
    assert!(text(&no_bucket.stderr).contains("--objects"), "{no_bucket:?}");
}

#[test]
fn a_build_without_otel_refuses_the_flag_and_ignores_the_variable() {
    if cfg!(feature = "otel") {
        return;
    }
    let arguments = ["serve", "--ephemeral", "--port", "0", "--storage-port", "0", "--no-console"];
    let refused = inferstore().args(arguments).args(["--otlp-endpoint", "http://127.0.0.1:1"]).output();
    let refused = refused.expect("it starts");
    assert_eq!(refused.status.code(), Some(exit::USAGE.into()), "{refused:?}");
    assert!(text(&refused.stderr).contains("build with --features otel"), "{refused:?}");
    let variable = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let ended = Served::with(&["--ephemeral", "--no-console"], &[variable]).end("INT");
    assert!(ended.status.success() && text(&ended.stderr).contains("is ignored"), "{ended:?}");
}

#[test]
fn the_lifecycle_rule_of_a_bucket_is_printed_and_nothing_is_started() {
    let mut serve = inferstore();
    serve.args(["serve", "--objects", "s3://files/a?endpoint=http://store.example", "--print-lifecycle"]);
    let printed = serve.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret").output();
    let printed = printed.expect("it starts");
    assert_eq!(printed.status.code(), Some(exit::DONE.into()), "{printed:?}");
    let rule: serde_json::Value = serde_json::from_slice(&printed.stdout).expect("JSON");
    assert_eq!(rule["Rules"][0]["Filter"]["Prefix"], "a/blobs/");
}

#[test]
fn a_port_that_is_taken_is_named_with_a_hint() {
    let served = Served::start(&["--ephemeral"]);
    let port =
        served.ready["base_url"].as_str().and_then(|url| url.split([':', '/']).nth(4)).expect("a port");
    let cli = Cli::new();
    let folder = cli.path("data");
    for (taken, free) in [("--port", "--storage-port"), ("--storage-port", "--port")] {
        let arguments = ["serve", "--data-dir", &folder, free, "0", taken, port];
        let second = inferstore().args(arguments).output().expect("it starts");
        assert_eq!(second.status.code(), Some(exit::FAILED.into()));
        let printed = text(&second.stderr);
        let listener = format!("listening on 127.0.0.1:{port} ({taken}) failed: ");
        let hint = "hint: choose another port with that option, such as 0";
        assert!(printed.contains(&listener) && printed.contains(hint), "{printed}");
    }
    let everywhere = inferstore()
        .args(["serve", "--ephemeral", "--host", "0.0.0.0", "--port", "0", "--storage-port", "0"])
        .output();
    let printed = text(&everywhere.expect("it starts").stderr);
    assert!(printed.contains("--storage-url") && !printed.contains("port"), "{printed}");
    served.end("TERM");
    let third = Served::start(&["--data-dir", &folder]);
    assert!(third.ready["api_key"].is_string(), "a start that failed has used up the key: {}", third.ready);
    third.end("TERM");
}

#[test]
fn a_log_that_is_not_read_stops_neither_requests_nor_the_end() {
    let served = Served::start(&["--ephemeral", "-v"]);
    // Far more than a pipe holds.
    served.ask(3_000);
    let begun = Instant::now();
    send("TERM", served.process.id());
    let mut process = served.process;
    assert!(process.wait().expect("it ends").success());
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[test]
fn the_access_log_names_route_status_and_account_and_no_secret() {
    let served = Served::start(&["--ephemeral", "--log-format", "json"]);
    assert!(served.call("task show some-task-id").output().is_ok());
    let key = served.ready["api_key"].as_str().expect("a key").to_owned();
    let log = text(&served.end("TERM").stderr);
    let line = log.lines().find(|line| line.contains("/task/{id}/detail")).expect("a line of the request");
    let line: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
    assert_eq!((&line["level"], &line["method"]), (&"INFO".into(), &"GET".into()));
    assert_eq!((&line["status"], &line["account"]), (&404.into(), &"demo".into()));
    assert!(line["ms"].is_u64() && line["id"].as_str().is_some_and(|id| id.len() == 36), "{line}");
    assert!(!log.contains(&key) && !log.contains("some-task-id"), "{log}");

    let quiet = Served::with(&["--ephemeral"], &[("INFERSTORE_LOG", "warn")]);
    quiet.ask(1);
    assert_eq!(text(&quiet.end("TERM").stderr), "");
}

#[test]
fn requests_in_progress_are_finished_and_a_second_signal_ends_at_once() {
    // `timeout` sends two at once, which are one.
    for (at_once, later) in [(1, 0), (2, 0), (1, 1)] {
        let mut served = Served::start(&["--ephemeral"]);
        let url = served.ready["base_url"].as_str().expect("it is printed");
        let host = url.trim_start_matches("http://").trim_end_matches("/api/v1");
        let key = served.ready["api_key"].as_str().expect("it is printed");
        let mut stream = TcpStream::connect(host).expect("it listens");
        let head = format!(
            "POST /api/v1/api-key/model/list HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n\
             content-type: application/json\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it is sent");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let mut goes_on = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
        stream.read_exact(&mut goes_on).expect("the body is read");
        assert!(goes_on.starts_with(b"HTTP/1.1 100 "), "{}", text(&goes_on));
        stream.write_all(b"{").expect("it is sent");
        let mut log = lines_of(&mut served.process);
        let process = served.process.id().to_string();
        let sent = Command::new("kill").args(["-s", "TERM"]).args(vec![&process; at_once]).status();
        assert!(sent.is_ok_and(|status| status.success()));
        line_with(&mut log, "requests in progress are finished");
        if later == 1 {
            std::thread::sleep(Duration::from_millis(300));
            send("TERM", served.process.id());
        }
        let mut response = String::new();
        if later == 0 {
            stream.write_all(b"}").expect("it is sent");
            stream.read_to_string(&mut response).expect("a response");
            assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        }
        let status = served.process.wait().expect("it ends");
        assert_eq!(status.success(), later == 0, "{at_once} and {later}");
    }
}

/// The lines of standard error. The pipe is closed when they are dropped.
fn lines_of(process: &mut Child) -> Lines<BufReader<ChildStderr>> {
    BufReader::new(process.stderr.take().expect("it is piped")).lines()
}

/// Waits for a line with these words.
fn line_with(lines: &mut Lines<BufReader<ChildStderr>>, words: &str) -> String {
    let line = lines.map_while(Result::ok).find(|line| line.contains(words));
    assert!(line.is_some(), "no line says {words:?}");
    line.unwrap_or_default()
}

/// Starts a run on a model that no node serves, and waits until its task is there.
fn stuck_run(served: &Served, cli: &Cli, arguments: &str) -> (Child, Lines<BufReader<ChildStderr>>) {
    let mut run = served
        .call(&format!("run face-mesh -i input=@hazy.png{arguments}"))
        .current_dir(cli.folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = lines_of(&mut run);
    line_with(&mut lines, "created");
    (run, lines)
}

fn status(served: &Served, task: &str) -> String {
    let shown = served.call(&format!("task show {task} --format json")).output().expect("it starts");
    let task: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("it is JSON");
    task["status"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn ctrl_c_detaches_and_a_second_one_cancels() {
    let (served, cli) = (Served::start(&["--ephemeral"]), Cli::new());

    let (run, mut lines) = stuck_run(&served, &cli, "");
    send("INT", run.id());
    let hint = line_with(&mut lines, "inferstore task wait ");
    let detached = run.wait_with_output().expect("it ends");
    assert_eq!(detached.status.code(), Some(exit::DETACHED.into()), "{detached:?}");
    let task = text(&detached.stdout);
    assert!(hint.contains(&format!("inferstore task wait {}", task.trim())), "{hint}");
    assert_eq!(status(&served, task.trim()), "in_queue");

    let (run, mut lines) = stuck_run(&served, &cli, "");
    send("INT", run.id());
    line_with(&mut lines, "Ctrl-C again cancels it");
    send("INT", run.id());
    line_with(&mut lines, "was canceled");
    let canceled = run.wait_with_output().expect("it ends");
    assert_eq!(canceled.status.code(), Some(exit::TASK_CANCELED.into()), "{canceled:?}");
    assert_eq!(status(&served, text(&canceled.stdout).trim()), "canceled");

    let (run, mut lines) = stuck_run(&served, &cli, " --cancel-on-interrupt");
    send("INT", run.id());
    line_with(&mut lines, "was canceled");
    let canceled = run.wait_with_output().expect("it ends");
    assert_eq!(canceled.status.code(), Some(exit::TASK_CANCELED.into()), "{canceled:?}");

    std::fs::copy(cli.path("hazy.png"), cli.path("b.png")).expect("it can be copied");
    let queued = || text(&served.call("task list --status in_queue -q").output().expect("it starts").stdout);
    let before = queued().lines().count();
    let batch = served
        .call("run face-mesh hazy.png b.png -o out --cancel-on-interrupt")
        .current_dir(cli.folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let journal = cli.path("out/inferstore-batch.jsonl");
    let begun = Instant::now();
    while std::fs::read_to_string(&journal).unwrap_or_default().matches(r#"{"Started""#).count() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(20), "the journal has not both tasks");
        std::thread::sleep(Duration::from_millis(20));
    }
    send("INT", batch.id());
    let canceled = batch.wait_with_output().expect("it ends");
    assert_eq!(canceled.status.code(), Some(exit::DETACHED.into()), "{canceled:?}");
    assert!(text(&canceled.stderr).contains("2 queued tasks were canceled"), "{canceled:?}");
    assert_eq!(queued().lines().count(), before);
    served.end("TERM");
}

#[test]
fn a_reader_that_has_read_enough_is_no_failure() {
    let served = Served::start(&["--ephemeral"]);
    let mut list =
        served.call("models list --all --format json").stdout(Stdio::piped()).spawn().expect("it starts");
    drop(list.stdout.take());
    assert!(list.wait().expect("it ends").success());
    served.end("TERM");
}

#[test]
fn a_download_that_is_interrupted_leaves_nothing() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/a.bin", server.local_addr().expect("it has an address"));
    let (local, cli) = (Local::start(), Cli::new());
    for signal in ["INT", "TERM"] {
        let words = format!("files download {url} {signal}.bin");
        let download = local.command(&words).current_dir(cli.folder.path()).spawn().expect("it starts");
        let (mut connection, _) = server.accept().expect("it connects");
        // The rest never comes.
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart").expect("it is sent");
        let has_part = || names_in(cli.folder.path()).iter().any(|name| name.ends_with(".part"));
        let begun = Instant::now();
        while !has_part() {
            assert!(begun.elapsed() < Duration::from_secs(20), "nothing is written");
            std::thread::sleep(Duration::from_millis(5));
        }
        send(signal, download.id());
        let ended = download.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(exit::FAILED.into()), "{ended:?}");
        assert_eq!(names_in(cli.folder.path()), ["hazy.png"], "{ended:?}");
    }
}

/// Starts a service that says what to type next.
fn serve_for_people(cli: &Cli, arguments: &[&str], variables: &[(&str, &str)]) -> Child {
    let mut process = inferstore()
        .args(["serve", "--port", "0", "--storage-port", "0", "--data-dir", &cli.path("data")])
        .args(arguments)
        .env("INFERSTORE_LOG", "warn")
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let stderr = BufReader::new(process.stderr.as_mut().expect("it is piped"));
    let next = stderr.lines().map_while(Result::ok).find(|line| line.contains("inferstore models list"));
    assert!(next.is_some(), "the next command is printed");
    process
}

#[test]
fn a_service_stores_a_profile_that_works_after_a_restart_too() {
    let cli = Cli::new();
    let config = cli.path("profiles.json");
    let start = || serve_for_people(&cli, &[], &[("INFERSTORE_CONFIG", &config)]);
    let balance = |arguments: &[&str]| {
        let output = inferstore().arg("balance").args(arguments).env("INFERSTORE_CONFIG", &config).output();
        output.expect("it starts").status.success()
    };
    for _ in 0..2 {
        let mut service = start();
        assert!(balance(&[]) && balance(&["--profile", "local"]));
        send("TERM", service.id());
        assert!(service.wait().expect("it ends").success());
    }
    assert!(!balance(&[]), "the service has ended");
}

#[test]
fn a_service_on_all_addresses_prints_one_that_commands_accept() {
    let cli = Cli::new();
    let config = cli.path("profiles.json");
    let everywhere = ["--host", "0.0.0.0", "--storage-url", "http://127.0.0.1:9"];
    let printed = exports(&everywhere, 1);
    assert!(printed[0].contains("=http://127.0.0.1:"), "{printed:?}");
    let mut service = serve_for_people(&cli, &everywhere, &[("INFERSTORE_CONFIG", &config)]);
    let listed = inferstore().args(["models", "list", "-q"]).env("INFERSTORE_CONFIG", &config).output();
    let listed = listed.expect("it starts");
    assert!(listed.status.success() && !listed.stdout.is_empty(), "{listed:?}");
    send("TERM", service.id());
    assert!(service.wait().expect("it ends").success());
}

#[cfg(target_os = "linux")]
#[test]
fn a_key_in_the_keyring_stays_there_when_the_address_changes() {
    let cli = Cli::new();
    let (home, bin) = (cli.path("home"), crate::support::secret_tool(&cli));
    let path = format!("{bin}:{}", std::env::var("PATH").expect("it is set"));
    let variables = [
        ("HOME", &*home),
        ("XDG_CONFIG_HOME", ""),
        ("PATH", &path),
        ("DISPLAY", ":0"),
        ("WAYLAND_DISPLAY", ""),
    ];
    let file = cli.path("home/.config/inferstore/profiles.json");
    let local = || {
        let text = std::fs::read_to_string(&file).expect("it is there");
        let profiles: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        profiles["profiles"]["local"].clone()
    };
    let succeeds = |arguments: &[&str]| {
        let output = inferstore().args(arguments).envs(variables).output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
    };
    let end = |mut service: Child| {
        send("TERM", service.id());
        assert!(service.wait().expect("it ends").success());
    };

    let service = serve_for_people(&cli, &[], &variables);
    let (url, key) = (local()["base_url"].clone(), local()["api_key"].clone());
    succeeds(&["login", url.as_str().expect("a text"), "--api-key", key.as_str().expect("a text")]);
    assert!(local()["api_key"].is_null(), "{}", local());
    end(service);
    let service = serve_for_people(&cli, &[], &variables);
    assert!(local()["api_key"].is_null() && local()["base_url"] != url, "{}", local());
    succeeds(&["balance"]);
    end(service);
    let entries = std::fs::read_dir(bin).expect("it is there").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    assert_eq!(names.filter(|name| name.starts_with("entry-")).count(), 1, "of the address before is none");
}

#[test]
fn a_model_process_whose_service_is_gone_ends_in_the_middle_of_a_run() {
    let cli = Cli::new();
    let pipe = cli.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it starts").success());
    let mut process = inferstore()
        .args(["model-worker", "1000000", "1073741824"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = process.stdin.take().expect("it is piped");
    let request = serde_json::json!({
        "model": "color-extraction",
        "folder": cli.folder.path(),
        "inputs": { "input": pipe },
        "files": ["input"],
        "seconds": 60,
        "measure": false,
    });
    writeln!(stdin, "{request}").expect("it is sent");
    // It opens when the run reads it, and the run waits for its content.
    let _content = std::fs::File::options().write(true).open(&pipe).expect("it is there");
    drop(stdin);
    let begun = Instant::now();
    while process.try_wait().expect("it was started").is_none() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it goes on without its service");
        std::thread::sleep(Duration::from_millis(5));
    }
    let ended = process.wait_with_output().expect("it has ended");
    assert_eq!(text(&ended.stdout), "{\"ready\":true}\n", "it wrote a result");
}
