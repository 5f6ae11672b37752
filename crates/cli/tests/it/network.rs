//! Certificates and proxies, from options and variables.

use std::io::{Read, Write};
use std::net::TcpListener;

use inferstore_cli::exit;

use crate::support::{Cli, Local};

/// A proxy that answers each request with a balance, and says in the wallet what was asked of it.
fn proxy() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has one");
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let mut request = vec![0; 8 * 1024];
            let length = connection.read(&mut request).unwrap_or_default();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let asked = request.lines().next().unwrap_or_default();
            let data = serde_json::json!({"balance": "1", "wallet_address": asked});
            let body = serde_json::json!({"status": "success", "message": "ok", "data": data}).to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            let _ = write!(connection, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    format!("http://{address}")
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
