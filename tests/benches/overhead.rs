//! What a call through the client costs over the same call written by hand with reqwest, in
//! instructions, which do not depend on how busy the machine is:
//! `cargo bench -p inferstore-tests --bench overhead`. Needs valgrind.
//!
//! This program serves a fixed answer and runs itself under callgrind, once for each way of calling
//! and each of two numbers of calls. The difference between the numbers is what the calls cost,
//! without starting up.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops when it cannot go on"
)]

#[path = "support/row.rs"]
mod row;

use std::env;
use std::process::Command;

use inferstore::{ApiKey, Client};
use row::{Better, Row};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const FEW: u32 = 100;
const MANY: u32 = 600;

/// What the bar is for the client.
const ALLOWED: f64 = 1.05;

const BODY: &str = r#"{"status":"success","message":"ok","data":{"balance":"128.507300000000000001","free_balance":"5.00","debt":"0","earnings":"17.25","wallet_address":"0x00000000000000000000000000000000000000a1"}}"#;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    match &arguments[..] {
        [_, way, base_url, calls] => runtime.block_on(call(way, base_url, calls.parse().expect("a number"))),
        _ => runtime.block_on(compare()),
    }
}

async fn compare() {
    let base_url = serve().await;
    let mut costs = Vec::new();
    for way in ["reqwest", "raw", "client"] {
        let few = instructions(way, &base_url, FEW).await;
        let many = instructions(way, &base_url, MANY).await;
        costs.push((way, (many - few) / f64::from(MANY - FEW)));
    }
    let by_hand = costs[0].1;
    for (way, cost) in &costs {
        println!("{way:8} {cost:10.0} instructions per call, {:.3} of hand-written reqwest", cost / by_hand);
    }
    let (raw, client) = (costs[1].1, costs[2].1);
    for (against, theirs) in [("reqwest by hand", by_hand), ("the raw client", raw)] {
        let row = Row {
            group: "client",
            what: "a call",
            against,
            unit: "instructions",
            better: Better::Lower,
            rounds: vec![(client, theirs)],
            bar: Some(1.0 / ALLOWED),
            note: None,
            command: "cargo bench -p inferstore-tests --bench overhead",
        };
        row.print();
    }
    let ratio = client / by_hand;
    println!("the client costs {ratio:.3} of hand-written reqwest; {ALLOWED} is allowed");
    assert!(ratio <= ALLOWED, "the client costs too much");
}

/// Answers every request on every connection with the same balance.
async fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{BODY}",
                    BODY.len()
                );
                let mut buffer = [0; 4096];
                let mut seen = Vec::new();
                while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                    seen.extend_from_slice(&buffer[..length]);
                    if seen.ends_with(b"\r\n\r\n") {
                        seen.clear();
                        if stream.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    format!("http://{address}/api/v1")
}

async fn instructions(way: &str, base_url: &str, calls: u32) -> f64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(env::current_exe().expect("this program has a path")).args([
        way,
        base_url,
        &calls.to_string(),
    ]);
    let run = tokio::task::spawn_blocking(move || valgrind.output());
    let output = run.await.expect("it does not panic").expect("valgrind is installed");
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}");
    let collected = report.lines().find_map(|line| line.split("Collected :").nth(1));
    collected.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("no count in {report}"))
}

async fn call(way: &str, base_url: &str, calls: u32) {
    match way {
        "reqwest" => by_hand(base_url, calls).await,
        "raw" => {
            let client = inferstore_api::Client::new(base_url, ApiKey::new("key")).expect("a client");
            for _ in 0..calls {
                client.get_balance().await.expect("an answer");
            }
        }
        "client" => {
            let account = Client::new(base_url, ApiKey::new("key")).expect("a client").account();
            for _ in 0..calls {
                account.balance().await.expect("an answer");
            }
        }
        other => panic!("there is no way {other}"),
    }
}

/// What one would write without this workspace: the same bytes on the wire, the same checks, the same
/// types.
async fn by_hand(base_url: &str, calls: u32) {
    let user_agent = inferstore::Settings::default().user_agent;
    let http = inferstore_api::http_client_builder().user_agent(user_agent).build().expect("a client");
    for _ in 0..calls {
        let answer = http
            .get(format!("{base_url}/api-key/balance"))
            .header("accept", "application/json")
            .header("x-api-key", "key")
            .send()
            .await
            .expect("an answer")
            .error_for_status()
            .expect("a success")
            .json::<inferstore_api::types::BalanceResponse>()
            .await
            .expect("a balance");
        assert_eq!(answer.status, inferstore_api::types::EnvelopeStatus::Success);
    }
}
