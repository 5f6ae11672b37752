//! Requests that use, or bypass, the proxy of the environment.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use inferstore::Client;
use inferstore_wire::{Server, response};

/// Environment variables of the child process: the URL and its content.
const CHILD_URL: &str = "INFERSTORE_TEST_DOWNLOAD_URL";
const CHILD_CONTENT: &str = "INFERSTORE_TEST_CONTENT";

/// Starts a server that responds to everything with this text, and returns its origin.
fn serve(text: &str) -> String {
    Server::answering(response("200 OK", "text/plain", text)).origin()
}

#[tokio::test]
async fn remote_object_storage_is_reached_by_the_proxy_of_a_local_service() {
    if let Ok(url) = std::env::var(CHILD_URL) {
        let client = Client::new("http://127.0.0.1:9/api/v1", "key").unwrap();
        let content = client.download(url).bytes().await.unwrap();
        assert_eq!(content, std::env::var(CHILD_CONTENT).unwrap());
        return;
    }
    let proxy = serve("through the proxy");
    let storage = serve("directly");
    for (url, content) in [(&*storage, "directly"), ("http://storage.invalid/a.png", "through the proxy")] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        // Runs this test again, with the proxy in its environment.
        child.args(["--exact", std::thread::current().name().unwrap()]);
        child.env(CHILD_URL, url).env(CHILD_CONTENT, content);
        child.env("HTTP_PROXY", &proxy).env("http_proxy", &proxy);
        child.env_remove("NO_PROXY").env_remove("no_proxy").env_remove("REQUEST_METHOD");
        let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{url}: {printed}");
    }
}
