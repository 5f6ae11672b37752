//! The console of the command: beside a service and for any, with an address that admits a browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

#[cfg(target_os = "linux")]
use inferstore_cli::exit;

#[cfg(unix)]
use crate::support::names_in;
use crate::support::{Cli, Local};

/// A command that runs until it gets a signal, and its first line.
struct Started {
    process: Child,
    /// A shell that is already there, so that the signal follows the line at once.
    killer: Child,
    line: String,
}

impl Started {
    fn new(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inferstore"));
        for variable in ["BASE_URL", "API_KEY", "PROFILE", "FIRST_KEY", "LOG"] {
            command.env_remove(format!("INFERSTORE_{variable}"));
        }
        let command = command.args(arguments).envs(variables.iter().copied());
        let mut killer = Command::new("sh");
        let killer = killer.args(["-c", "read pid && kill -s TERM $pid"]).stdin(Stdio::piped());
        let killer = killer.spawn().expect("a shell starts");
        let mut process =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the command starts");
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
        Self { process, killer, line: line.trim().to_owned() }
    }

    fn serve(arguments: &[&str]) -> (Self, Value) {
        let own = ["serve", "--port", "0", "--storage-port", "0", "--ready-json"];
        let started = Self::new(&[&own, arguments].concat(), &[]);
        let ready = serde_json::from_str(&started.line).expect("a line of JSON");
        (started, ready)
    }

    fn end(mut self) {
        let mut pid = self.killer.stdin.take().expect("piped");
        writeln!(pid, "{}", self.process.id()).expect("the shell reads");
        assert!(self.killer.wait().expect("it ends").success());
        assert!(self.process.wait().expect("it ends").success());
    }
}

/// The response to a GET, headers included.
fn get(url: &str, cookie: &str) -> String {
    let (host, path) = url.trim_start_matches("http://").split_once('/').expect("a path");
    let mut stream = TcpStream::connect(host).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let request =
        format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("a response");
    String::from_utf8_lossy(&response).into_owned()
}

/// The catalog, as a browser gets it that opens this address.
pub(crate) fn catalog(url: &str) -> String {
    let admitted = get(url, "");
    let cookie = admitted.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    let cookie = cookie.split(';').next().expect("a value");
    get(&format!("{}/", url.split("/?").next().expect("an address")), cookie)
}

/// Starts a command, sends a signal after its first line, and returns what it leaves among temporary files.
#[cfg(unix)]
fn left_behind(words: &[&str], signal: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let cli = Cli::new();
    let folder = cli.path("temporary");
    std::fs::create_dir(&folder).expect("a new folder");
    let mut command = Command::new("env");
    if signal == "HUP" {
        // The tests may run under `nohup`, whose children ignore it.
        command.arg("--default-signal=HUP");
    }
    let mut process = command
        .arg(env!("CARGO_BIN_EXE_inferstore"))
        .args(words)
        .env("TMPDIR", &folder)
        .envs(variables.iter().copied())
        .current_dir(cli.folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let mut output = BufReader::new(process.stdout.take().expect("piped"));
    output.read_line(&mut String::new()).expect("a line");
    assert_eq!(names_in(std::path::Path::new(&folder)).len(), 1, "it has a folder while it runs");
    let sent = Command::new("kill").args(["-s", signal, &process.id().to_string()]).status();
    assert!(sent.expect("it starts").success());
    output.read_to_end(&mut Vec::new()).expect("the rest");
    process.wait().expect("it ends");
    names_in(std::path::Path::new(&folder))
}

#[cfg(unix)]
#[test]
fn a_signal_leaves_no_temporary_folder() {
    let none: [String; 0] = [];
    assert_eq!(left_behind(&["demo"], "INT", &[]), none);
    if cfg!(target_os = "linux") {
        let service = [("INFERSTORE_BASE_URL", "http://127.0.0.1:9/api/v1"), ("INFERSTORE_API_KEY", "a-key")];
        assert_eq!(left_behind(&["console"], "HUP", &service), none);
    }
}

#[test]
fn a_service_has_a_console_beside_it_also_when_its_key_is_forgotten() {
    let cli = Cli::new();
    let folder = cli.path("data");
    let mut tokens = Vec::new();
    for is_key_known in [true, false] {
        let (started, ready) = Started::serve(&["--data-dir", &folder]);
        assert_eq!(ready["api_key"].is_string(), is_key_known);
        let url = ready["console_url"].as_str().expect("an address");
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        assert!(catalog(url).contains("Color harmonization"));
        tokens.push(url.split("token=").nth(1).expect("a token").to_owned());
        started.end();
    }
    assert_eq!(tokens[0], tokens[1], "an open page is admitted after a restart");
    assert_eq!(valid_keys(&cli), 1, "the key of the console is revoked");
    let (started, ready) = Started::serve(&["--data-dir", &folder, "--no-console"]);
    assert!(ready["console_url"].is_null());
    started.end();
}

/// Counts the valid keys of the first account in the folder `data`.
fn valid_keys(cli: &Cli) -> usize {
    let keys = cli.call("admin key list demo --data-dir data --format json");
    let keys: Value = serde_json::from_str(&keys.stdout).expect("a list");
    keys["keys"].as_array().into_iter().flatten().filter(|key| key["revoked_at"].is_null()).count()
}

#[test]
fn a_console_that_is_not_used_leaves_no_key_behind() {
    let cli = Cli::new();
    let folder = cli.path("data");
    Started::serve(&["--data-dir", &folder, "--no-console"]).0.end();
    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let port = taken.local_addr().expect("it has an address").port().to_string();
    for _ in 0..2 {
        let (started, ready) = Started::serve(&["--data-dir", &folder, "--console-port", &port]);
        assert!(ready["console_url"].is_null(), "{ready}");
        started.end();
    }
    assert_eq!(valid_keys(&cli), 1, "the port was taken");
    #[cfg(target_os = "linux")]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
        let mut serve = Command::new(env!("CARGO_BIN_EXE_inferstore"));
        serve.args(["serve", "--port", "0", "--storage-port", "0", "--ready-json", "--data-dir", &folder]);
        let status = serve.stdout(full).stderr(Stdio::null()).status().expect("it starts");
        assert_eq!(status.code(), Some(exit::FAILED.into()));
        assert_eq!(valid_keys(&cli), 1, "its address was not printed");
    }
}

#[test]
fn a_console_opens_for_any_service() {
    let (service, ready) = Started::serve(&["--ephemeral", "--no-console"]);
    let variables = [("INFERSTORE_BASE_URL", "base_url"), ("INFERSTORE_API_KEY", "api_key")]
        .map(|(variable, field)| (variable, ready[field].as_str().expect("a text")));
    let console = Started::new(&["console"], &variables);
    assert!(catalog(&console.line).contains("Color harmonization"));
    console.end();
    // What reads the address may end the console at once.
    for _ in 0..5 {
        Started::new(&["console"], &variables).end();
    }
    service.end();
}

#[test]
fn the_browser_opens_at_the_catalog_a_model_or_a_task() {
    let local = Local::start();
    let cli = &local.cli;
    // The browser gets a file that only its owner can read, and no argument with the token.
    let browser = cli.folder.path().join("xdg-open");
    std::fs::write(&browser, "#!/bin/sh\ncp \"$1\" \"$OPENED\"\n").expect("a script");
    let made = Command::new("chmod").arg("755").arg(&browser).status();
    assert!(made.is_ok_and(|status| status.success()));
    let path = format!("{}:{}", cli.folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let opened = cli.path("opened");
    let variables = [
        ("INFERSTORE_BASE_URL", local.service().base_url()),
        ("INFERSTORE_API_KEY", "the-key-of-the-tests"),
        ("PATH", &path),
        ("OPENED", &opened),
    ];
    let task = cli.call("run haze-removal hazy.png --detach -q").stdout;
    let task = format!("&page=tasks/{}", task.trim());
    for (arguments, page) in [
        (&["open"][..], ""),
        (&["open", "haze-removal"], "&page=models/haze-removal"),
        (&["open", "@last"], &task),
        (&["open", &task[12..20]], &task),
    ] {
        let _ = std::fs::remove_file(&opened);
        let open = Started::new(arguments, &variables);
        let (_, token) = open.line.split_once("/?token=").expect("an address with a token");
        assert_eq!(&token[32..], page, "{arguments:?}");
        let file = (0..200).find_map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            std::fs::read_to_string(&opened).ok().filter(|page| page.ends_with("</a>"))
        });
        assert!(file.expect("a browser was opened").contains(&open.line), "{}", open.line);
        open.end();
    }
    std::fs::remove_file(browser).expect("it is ours");
    let without = Command::new(env!("CARGO_BIN_EXE_inferstore"))
        .arg("open")
        .envs([variables[0], variables[1], ("PATH", cli.folder.path().to_str().expect("text"))])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut without = without.expect("the command starts");
    let mut message = String::new();
    BufReader::new(without.stderr.as_mut().expect("piped")).read_line(&mut message).expect("a line");
    without.kill().expect("it runs");
    without.wait().expect("it ends");
    assert!(message.starts_with("no browser found; open this address: http://127.0.0.1:"), "{message}");
    let unknown = cli.call("open haze-remval");
    assert!(unknown.stderr.contains("neither a model nor a task"), "{}", unknown.stderr);
}
