//! Certificates and proxies, from options and variables.

use inferstore_cli::exit;

use crate::support::{Cli, Local, answering};

/// A proxy that answers each request with a balance, and says in the wallet what was asked of it.
fn proxy() -> String {
    answering(|request| {
        let asked = request.lines().next().unwrap_or_default();
        serde_json::json!({"balance": "1", "wallet_address": asked})
    })
}

#[test]
fn requests_go_through_the_proxy_that_is_named() {
    let cli = Cli::new();
    let call = "balance --json=wallet_address --base-url http://service.example/api/v1 --allow-insecure-http --api-key k";
    let ended = cli.call(&format!("{call} --proxy {}", proxy()));
    assert!(ended.stdout.contains("GET http://service.example/api/v1/api-key/balance"), "{ended}");
    let ended = cli.call(&format!("{call} --proxy ://"));
    assert!(ended.code == exit::USAGE && ended.stderr.contains("--proxy"), "{ended}");
}

#[test]
fn a_file_without_certificates_is_an_error_of_the_command_line() {
    let mut local = Local::start();
    std::fs::write(local.cli.path("empty.pem"), "no certificate").expect("it can be written");
    for path in ["missing.pem", "empty.pem"] {
        let ended = local.cli.call(&format!("balance --cacert {path}"));
        assert!(ended.code == exit::USAGE && ended.stderr.contains(path), "{ended}");
        local.cli.set("INFERSTORE_CACERT", path);
        let ended = local.cli.call("balance");
        assert!(ended.code == exit::USAGE && ended.stderr.contains(path), "{ended}");
        local.cli.unset("INFERSTORE_CACERT");
    }
    let doctor = local.cli.call("doctor");
    assert!(doctor.stdout.contains("TLS") && doctor.stdout.contains("plain http"), "{doctor}");
}
