//! Requests that use, or bypass, the proxy of the environment.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use axum::Router;
use inferstore::Client;
use tokio::net::TcpListener;

/// Environment variables of the child process: the URL and its content.
const CHILD_URL: &str = "INFERSTORE_TEST_DOWNLOAD_URL";
const CHILD_CONTENT: &str = "INFERSTORE_TEST_CONTENT";

/// Starts a server that responds to everything with this text, and returns its origin.
async fn serve(text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let server = axum::serve(listener, Router::new().fallback(move || async move { text }));
    tokio::spawn(server.into_future());
    origin
}

#[tokio::test]
async fn remote_object_storage_is_reached_by_the_proxy_of_a_local_service() {
    if let Ok(url) = std::env::var(CHILD_URL) {
        let client = Client::new("http://127.0.0.1:9/api/v1", "key").unwrap();
        let content = client.download(url).bytes().await.unwrap();
        assert_eq!(content, std::env::var(CHILD_CONTENT).unwrap());
        return;
    }
    let proxy = serve("through the proxy").await;
    let storage = serve("directly").await;
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
