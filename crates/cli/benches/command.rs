//! Start time of the command, beside a process that does nothing, and the time that `balance` and `models list`
//! take beside curl, which makes the same calls: `cargo bench --bench command`.

#![expect(clippy::expect_used, reason = "a bench ends when it cannot go on")]

use std::process::{Command, Stdio};

use inferstore_measure::{Better, Row, side_by_side, times};
use inferstore_service::{Config, Service};

const ROUNDS: usize = 7;

/// Number of starts in a round; the median counts.
const TIMES: usize = 15;

fn main() {
    let figures = side_by_side(
        ROUNDS,
        || process(inferstore().arg("--version")),
        || process(&mut Command::new("/bin/true")),
    );
    let note = "/bin/true is the lower bound. The difference is loading a program of some 35 MB";
    row("--version", "/bin/true", figures, note).print();

    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let service = runtime.block_on(Service::start(Config::ephemeral())).expect("the service starts");
    let (base_url, key) = (service.base_url().to_owned(), service.api_key().unwrap_or_default().to_owned());
    let ours = |words: &[&str]| {
        let mut command = inferstore();
        command.env("INFERSTORE_BASE_URL", &base_url).env("INFERSTORE_API_KEY", &key);
        process(command.args(words))
    };
    let curl = |arguments: &[&str], path: &str| {
        let mut command = Command::new("curl");
        command.args(["-sSf", "-H", &format!("x-api-key: {key}")]).args(arguments);
        process(command.arg(format!("{base_url}/api-key/{path}")))
    };
    let figures = side_by_side(ROUNDS, || ours(&["balance"]), || curl(&[], "balance"));
    let note =
        "both are a process, a connection and one call; ours also reads its settings and writes a table";
    row("balance", "curl", figures, note).print();
    let body = ["-H", "content-type: application/json", "-d", r#"{"limit":20,"offset":0}"#];
    let list = || curl(&body, "model/list");
    let figures = side_by_side(ROUNDS, || ours(&["models", "list"]), list);
    row("models list", "curl", figures, note).print();
    runtime.block_on(service.shutdown());
}

fn inferstore() -> Command {
    Command::new(env!("CARGO_BIN_EXE_inferstore"))
}

/// Measures a process from its start to its end, in milliseconds.
fn process(command: &mut Command) -> f64 {
    times(TIMES, 1e-3, || {
        let status = command.stdout(Stdio::null()).status().expect("it starts");
        assert!(status.success());
    })
}

fn row(what: &str, against: &str, (ours, theirs): (Vec<f64>, Vec<f64>), note: &str) -> Row {
    Row {
        group: "command".to_owned(),
        what: what.to_owned(),
        against: against.to_owned(),
        unit: "ms".to_owned(),
        better: Better::Lower,
        ours,
        theirs,
        minimum: None,
        note: Some(note.to_owned()),
        command: "cargo bench --bench command".to_owned(),
    }
}
