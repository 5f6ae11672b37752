//! Which files of a service the console fetches.

#![expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]

use std::io::ErrorKind;
use std::net::TcpListener;

use inferstore::Client;

use crate::state::App;

fn console_of(base_url: &str) -> App {
    let client = Client::builder(base_url, "a key").allow_insecure_http(true).build().expect("a client");
    App::new(client, 0, inferstore::PollInterval::Adaptive).expect("a console")
}

/// Why the file behind this URL is not fetched.
async fn refusal(app: &App, url: &str) -> String {
    let address = app.link(url);
    let fetched = app.fetch(address.trim_start_matches("/view/")).await;
    fetched.err().expect("the file is not fetched").text
}

#[tokio::test]
async fn files_of_local_addresses_are_refused_when_the_service_is_elsewhere() {
    let elsewhere = console_of("https://api.example/api/v1");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    for host in [
        "127.0.0.1",
        "127.1",
        "0.0.0.0",
        "localhost",
        "files.localhost",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[fd00::1]",
        "[fe80::1]",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
    ] {
        let text = refusal(&elsewhere, &format!("http://{host}:{port}/a.png")).await;
        assert!(text.contains("in the local network"), "{host}: {text}");
    }
    for path in ["file:///etc/hostname", "/etc/hostname", "a.png"] {
        assert!(refusal(&elsewhere, path).await.contains("in the local network"), "{path}");
    }
    listener.set_nonblocking(true).expect("it can be set");
    assert_eq!(listener.accept().expect_err("no one has called").kind(), ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_path_of_this_machine_is_never_read() {
    let here = console_of("http://127.0.0.1:1/api/v1");
    for path in ["file:///etc/hostname", "/etc/hostname"] {
        let text = refusal(&here, path).await;
        assert!(text.contains("not a URL with http or https"), "{path}: {text}");
    }
}
