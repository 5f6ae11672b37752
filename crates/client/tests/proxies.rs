//! Which requests go through the proxy of the environment.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use axum::Router;
use inferstore::Client;
use tokio::net::TcpListener;

/// The URL and its content, for the test that runs in a child process.
const CHILD_URL: &str = "INFERSTORE_TEST_DOWNLOAD_URL";
const CHILD_CONTENT: &str = "INFERSTORE_TEST_CONTENT";

/// The origin of a server that responds to everything with this text.
async fn serve(text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let server = axum::serve(listener, Router::new().fallback(move || async move { text }));
    tokio::spawn(server.into_future());
    origin
}

#[tokio::test]
#[ignore = "runs in the child process of the test below"]
async fn child_that_downloads() {
    let [url, expected] = [CHILD_URL, CHILD_CONTENT].map(|name| std::env::var(name).unwrap());
    let client = Client::new("http://127.0.0.1:9/api/v1", "key").unwrap();
    assert_eq!(client.download(url).bytes().await.unwrap(), expected);
}

#[tokio::test]
async fn object_storage_elsewhere_is_behind_the_proxy_also_when_the_service_is_on_this_machine() {
    let proxy = serve("through the proxy").await;
    let storage = serve("directly").await;
    for (url, content) in [(&*storage, "directly"), ("http://storage.invalid/a.png", "through the proxy")] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "child_that_downloads", "--ignored"]);
        child.env(CHILD_URL, url).env(CHILD_CONTENT, content);
        child.env("HTTP_PROXY", &proxy).env("http_proxy", &proxy);
        child.env_remove("NO_PROXY").env_remove("no_proxy").env_remove("REQUEST_METHOD");
        let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
        assert!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stdout));
    }
}
