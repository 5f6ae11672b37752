//! Certificates and proxies, from options and variables.

use inferstore_cli::exit;

use crate::node::tls_in_front_of;
use crate::support::{Cli, Local, answering};

#[test]
fn the_deadline_of_a_run_holds_for_a_service_that_never_responds() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = silent.local_addr().expect("it has an address");
    let cli = Cli::new();
    std::fs::write(cli.path("a.png"), "any").expect("it can be written");
    for rest in ["a.png", "a.png --detach", "a.png -o out/", "input_image=@a.png"] {
        let ended = cli
            .call(&format!("run any {rest} --deadline 0.2s --base-url http://{address}/api/v1 --api-key k"));
        assert_eq!(ended.code, exit::DEADLINE, "{rest}: {ended}");
    }
}

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
fn plain_http_to_this_machine_goes_through_no_proxy_of_another_one() {
    let local = Local::start();
    for call in ["balance", "doctor"] {
        let ended = local.cli.call(&format!("{call} --proxy http://proxy.invalid:3128"));
        assert_eq!(ended.code, exit::DONE, "{ended}");
    }
}

#[test]
fn doctor_tells_a_proxy_that_is_gone_from_a_service_that_is_gone() {
    let local = Local::start();
    let cli = &local.cli;
    let call = "doctor --base-url https://service.example/api/v1 --api-key k";
    let gone = "http://127.0.0.1:1";
    let named = cli.call(&format!("{call} --proxy {gone}"));
    let of_variable = local.command(call).env("HTTPS_PROXY", gone).output().expect("it starts");
    let of_variable = String::from_utf8_lossy(&of_variable.stderr).into_owned();
    for stderr in [named.stderr, of_variable] {
        assert!(stderr.contains("proxy: 127.0.0.1:1 is not reached"), "{stderr}");
    }
    // The name of the service is left to the proxy.
    let through = cli.call(&format!("{call} --proxy {}", proxy()));
    assert!(through.stdout.contains("accepts connections"), "{through}");
}

#[test]
fn a_login_keeps_the_proxy_in_the_profile() {
    let mut cli = Cli::new();
    cli.stdin("key");
    let login = format!("login http://service.example --allow-insecure-http --proxy {}", proxy());
    assert_eq!(cli.call(&login).code, exit::DONE);
    let ended = cli.call("balance --json=wallet_address --allow-insecure-http");
    assert!(ended.stdout.contains("GET http://service.example/api/v1/api-key/balance"), "{ended}");
}

#[test]
fn a_login_keeps_the_path_of_the_certificates_in_the_profile() {
    let mut local = Local::start();
    let address = local.service().base_url().split('/').nth(2).expect("it has a host").to_owned();
    let (url, pem) = local.block_on(tls_in_front_of(address));
    let cli = &mut local.cli;
    cli.unset("INFERSTORE_BASE_URL");
    cli.unset("INFERSTORE_API_KEY");
    std::fs::write(cli.path("cert.pem"), pem).expect("it can be written");
    cli.stdin("the-key-of-the-tests");
    let untrusted = cli.call(&format!("login {url}"));
    assert!(untrusted.code == exit::NOT_REACHED && untrusted.stderr.contains("--cacert"), "{untrusted}");
    for login in [format!("login {url} --cacert cert.pem"), format!("login {url}")] {
        let ended = cli.call(&login);
        assert_eq!(ended.code, exit::DONE, "{ended}");
        let ended = cli.call("balance");
        assert_eq!(ended.code, exit::DONE, "{ended}");
    }
    for call in ["doctor --json", "status --json", "profile list --json"] {
        let shown = cli.call(call);
        assert!(shown.stdout.contains(&cli.path("cert.pem")), "{shown}");
    }
    let ended = cli.call("balance --cacert hazy.png");
    assert!(ended.code == exit::USAGE && ended.stderr.contains("hazy.png"), "{ended}");
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
