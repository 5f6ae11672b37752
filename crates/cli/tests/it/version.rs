//! `version --check`: newer releases, from a list that the caller names.

use inferstore_cli::exit;
use inferstore_wire::{Server, response};
use serde_json::{Value, json};

use crate::support::{CLOSED, Cli};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Starts a server with this list of releases, and returns it with the URL of the list.
fn server(status: &str, text: &str) -> (Server, String) {
    let server = Server::answering(response(status, "application/json", text));
    let url = format!("{}/file", server.origin());
    (server, url)
}

fn list_of(status: &str, text: &str) -> String {
    server(status, text).1
}

#[test]
fn newer_releases_are_listed_newest_first_from_the_list_alone() {
    let list = json!({"releases": [
        {"version": "99.9.0", "date": "2030-01-02"},
        {"version": "99.10.0", "url": "https://host.example/99.10.0", "new": [1]},
        {"version": "100.0.0-rc.1"},
        {"version": VERSION},
        {"version": "0.0.1"},
    ]});
    let (server, url) = server("200 OK", &list.to_string());
    let mut cli = Cli::new();
    cli.set("INFERSTORE_API_KEY", "a-secret-key");
    let table = cli.call(&format!("version --check --releases {url}"));
    assert_eq!(table.code, exit::DONE, "{table}");
    let rows: Vec<&str> =
        table.stdout.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(rows[..3], ["NEWER", "99.10.0", "99.9.0"], "{table}");
    assert!(table.stdout.ends_with(&format!("this is inferstore {VERSION}\n")), "{table}");
    let request = &server.texts()[0];
    assert!(request.starts_with("GET /file "), "{request}");
    assert!(!request.contains("a-secret-key") && !request.to_lowercase().contains("x-api-key"), "{request}");

    cli.set("INFERSTORE_RELEASES", &url);
    let json = cli.call("version --check --json");
    let json: Value = serde_json::from_str(&json.stdout).expect("it is JSON");
    assert_eq!(json["version"], VERSION);
    assert_eq!(json["newer"][0], json!({"version": "99.10.0", "url": "https://host.example/99.10.0"}));
    assert_eq!(json["newer"][1], json!({"version": "99.9.0", "date": "2030-01-02"}));
    assert_eq!(cli.call("version --check -q").stdout, "99.10.0\n");
    assert_eq!(server.requests().len(), 3);

    assert_eq!(cli.call("version").stdout.trim_end().rsplit(' ').next(), Some(VERSION));
    assert_eq!(server.requests().len(), 3, "a version without --check asks nobody");
}

#[test]
fn the_newest_release_says_so() {
    let url = list_of("200 OK", &json!({"releases": [{"version": VERSION}]}).to_string());
    let ended = Cli::new().call(&format!("version --check --releases {url}"));
    assert_eq!(ended.stdout, format!("inferstore {VERSION} is the newest release\n"), "{ended}");
    let ended = Cli::new().call(&format!("version --check -q --releases {url}"));
    assert_eq!(ended.stdout, format!("{VERSION}\n"), "{ended}");
}

#[test]
fn a_check_that_cannot_be_made_says_why_and_what_to_try() {
    let cli = Cli::new();
    let check = |releases: &str| cli.call(&format!("version --check --releases {releases}"));
    for (ended, code, message) in [
        (cli.call("version --check"), exit::USAGE, "INFERSTORE_RELEASES"),
        (cli.call("version --releases http://host.example"), exit::USAGE, "--check"),
        (check("releases.json"), exit::USAGE, "https://host.example/inferstore/releases.json"),
        (check("file:///releases.json"), exit::USAGE, "no http or https URL"),
        (
            check(&CLOSED.replace("//", "//user:hidden@")),
            exit::NOT_REACHED,
            "the releases at http://127.0.0.1:1/api/v1 cannot be read: Connection refused",
        ),
        (
            check(&list_of("404 Not Found", "<h1>no</h1>")),
            exit::FAILED,
            "cannot be read: the server responded with 404",
        ),
        (check(&list_of("200 OK", "<h1>no</h1>")), exit::FAILED, "is no list of releases: expected value"),
        (check(&list_of("200 OK", r#"{"releases": [{"version": "next"}]}"#)), exit::FAILED, "1.2.3"),
        (check(&list_of("200 OK", &"x".repeat(1024 * 1024 + 1))), exit::FAILED, "1048576"),
    ] {
        assert!(ended.code == code && ended.stderr.contains(message), "{code} {message}: {ended}");
        assert!(ended.stdout.is_empty() && !ended.stderr.contains("hidden"), "{ended}");
    }
}
