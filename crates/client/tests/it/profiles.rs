//! Profiles whose key is printed by a command.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::process::Command;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use inferstore::Client;
use serde_json::json;
use tokio::net::TcpListener;

const KEY: &str = "the-key-that-is-printed";

/// Set in the child process.
const CHILD: &str = "INFERSTORE_TEST_PROFILE";

/// The base URL of a service that knows the key, and no account.
async fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/api/v1", listener.local_addr().unwrap());
    let respond = |headers: HeaderMap| async move {
        let has_key = headers.values().any(|value| value.to_str().is_ok_and(|text| text.contains(KEY)));
        if has_key { StatusCode::NOT_FOUND } else { StatusCode::UNAUTHORIZED }
    };
    tokio::spawn(axum::serve(listener, Router::new().fallback(respond)).into_future());
    base_url
}

#[tokio::test]
async fn a_program_uses_the_key_that_the_command_of_a_profile_prints() {
    if std::env::var_os(CHILD).is_some() {
        let client = Client::from_profile("work").unwrap();
        assert!(client.account().balance().await.unwrap_err().is_not_found());
        let problem = Client::from_profile("other").unwrap_err().to_string();
        assert!(problem.contains("the key_command of the profile \"other\""), "{problem}");
        return;
    }
    let profile = |command: &str| json!({"base_url": "BASE", "key_command": ["sh", "-c", command]});
    let work = profile(&format!("echo {KEY}"));
    let profiles = json!({"profiles": {"work": work, "other": profile("exit 1")}});
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), profiles.to_string().replace("BASE", &serve().await)).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    // This test again, with the file in its environment.
    child.args(["--exact", std::thread::current().name().unwrap()]).env(CHILD, "");
    child.env("INFERSTORE_CONFIG", file.path());
    let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}
