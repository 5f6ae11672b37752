//! Profiles whose key is in the keyring of the system.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::process::Command;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use inferstore::Client;
use tokio::net::TcpListener;

const KEY: &str = "the-key-of-the-keyring";

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
async fn a_program_uses_a_key_of_the_keyring() {
    if std::env::var_os(CHILD).is_some() {
        let client = Client::from_profile("work").unwrap();
        assert!(client.account().balance().await.unwrap_err().is_not_found());
        let problem = Client::from_profile("other").unwrap_err().to_string();
        assert!(problem.contains("\"other\" is in the keyring of the system"), "{problem}");
        return;
    }
    let base_url = serve().await;
    let folder = tempfile::tempdir().unwrap();
    let [profiles, script, program] =
        ["profiles.json", "script", "secret-tool"].map(|name| folder.path().join(name));
    let profile = format!("{{\"base_url\": \"{base_url}\"}}");
    fs::write(&profiles, format!("{{\"profiles\": {{\"work\": {profile}, \"other\": {profile}}}}}")).unwrap();
    let expected = format!("lookup service inferstore profile work url {base_url}");
    fs::write(&script, format!("#!/bin/sh\n[ \"$*\" = '{expected}' ] && printf %s {KEY}\n")).unwrap();
    // Copied by another process: a file that one of this process writes cannot be run meanwhile.
    assert!(Command::new("install").args(["-m", "700"]).arg(script).arg(program).status().unwrap().success());
    let mut child = Command::new(std::env::current_exe().unwrap());
    // This test again, with the file and the program in its environment.
    child.args(["--exact", std::thread::current().name().unwrap()]).env(CHILD, "");
    child.env("INFERSTORE_CONFIG", &profiles).env("PATH", folder.path());
    let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}
