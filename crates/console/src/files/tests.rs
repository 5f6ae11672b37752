//! SSRF protection: files of a service that the console fetches or refuses.

#![expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]

use std::io::ErrorKind;
use std::net::TcpListener;

use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::{Client, ClientBuilder, reqwest};

use super::*;
use crate::state::App;

fn console_of(base_url: &str) -> App {
    console(Client::builder(base_url, "a key").settings(|settings| settings.allow_insecure_http = true))
}

fn console(client: ClientBuilder) -> App {
    let client = client.build().expect("a client");
    let guard = crate::guard::Guard::new(0, String::new());
    App::new(client, guard, inferstore::PollInterval::Adaptive, std::env::temp_dir())
}

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
        "localhost.",
        "printer.local",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[fd00::1]",
        "[fe80::1]",
        // IPv4 addresses in other forms: NAT64, network-specific NAT64, 6to4, and a deprecated one.
        "[64:ff9b::10.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b:1::8.8.8.8]",
        "[2002:c0a8:1::1]",
        "[2002:7f00:1::]",
        "[::10.0.0.1]",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
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
async fn files_of_public_addresses_are_fetched() {
    for host in ["8.8.8.8", "[2606:4700::1111]", "files.example"] {
        let elsewhere = Client::builder("https://api.example/api/v1", "a key").middleware(Unreachable);
        let text = refusal(&console(elsewhere), &format!("http://{host}/a.png")).await;
        assert!(!text.contains("in the local network"), "{host}: {text}");
    }
}

struct Unreachable;

impl Middleware for Unreachable {
    fn handle<'a>(
        &'a self,
        _: reqwest::Request,
        _: Next<'a>,
    ) -> BoxFuture<'a, reqwest::Result<reqwest::Response>> {
        let response = axum::http::Response::builder().status(404).body("");
        Box::pin(async { Ok(response.expect("a response").into()) })
    }
}

struct Redirecting(&'static str);

impl Middleware for Redirecting {
    fn handle<'a>(
        &'a self,
        request: reqwest::Request,
        _: Next<'a>,
    ) -> BoxFuture<'a, reqwest::Result<reqwest::Response>> {
        assert_eq!(request.url().host_str(), Some("files.example"), "{}", request.url());
        let response = axum::http::Response::builder().status(302).header("location", self.0).body("");
        Box::pin(async { Ok(response.expect("a response").into()) })
    }
}

#[tokio::test]
async fn a_redirect_into_the_local_network_is_not_followed() {
    for target in ["http://192.168.0.1/a.png", "http://localhost./a.png", "http://[::1]:9/a.png"] {
        let client = Client::builder("https://api.example/api/v1", "a key").middleware(Redirecting(target));
        let elsewhere = console(client);
        let text = refusal(&elsewhere, "http://files.example/a.png").await;
        assert!(text.contains("in the local network"), "{target}: {text}");
    }
}

#[tokio::test]
async fn a_path_of_this_machine_is_never_read() {
    let here = console_of("http://127.0.0.1:1/api/v1");
    for path in ["file:///etc/hostname", "/etc/hostname"] {
        let text = refusal(&here, path).await;
        assert!(text.contains("not a URL with http or https"), "{path}: {text}");
    }
}

/// A picture of 250 bytes that states 12,000 times 12,000 pixels: 432 MB in memory.
fn bomb() -> Vec<u8> {
    let mut bytes = b"\xff\xd8\xff\xdb\0\x43\0".to_vec();
    bytes.extend([1; 64]);
    bytes.extend(b"\xff\xc0\0\x11\x08\x2e\xe0\x2e\xe0\x03\x01\x11\0\x02\x11\0\x03\x11\0");
    for class in [0, 0x10] {
        bytes.extend([0xff, 0xc4, 0, 20, class, 1]);
        bytes.extend([0; 16]);
    }
    bytes.extend(b"\xff\xda\0\x0c\x03\x01\0\x02\0\x03\0\0\x3f\0");
    bytes.extend([0; 100]);
    bytes.extend(b"\xff\xd9");
    bytes
}

#[test]
fn a_picture_whose_pixels_are_too_many_has_no_thumbnail() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), bomb()).expect("it can be written");
    let reader = ImageReader::open(file.path()).expect("it is there").with_guessed_format().expect("a type");
    assert_eq!(reader.into_dimensions().ok(), Some((12_000, 12_000)));
    assert!(small_picture(file.path()).is_none());
}
