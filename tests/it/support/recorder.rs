//! Server on a real socket that records requests byte by byte, and responds as scripted.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Recording server on a free loopback port. Dropping it stops the server.
pub(crate) struct Recorder {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Recorder {
    /// Starts a server with one response: a status line, headers and a body.
    pub(crate) async fn answering(response: impl Into<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (recorded, response) = (Arc::clone(&requests), Arc::new(response.into()));
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&recorded), Arc::clone(&response)));
            }
        });
        Self { address, requests, serving }
    }

    /// Starts a server that responds with `200` and this JSON.
    pub(crate) async fn answering_json(json: &serde_json::Value) -> Self {
        Self::answering(response("200 OK", "application/json", &json.to_string())).await
    }

    /// Returns the versioned root for a client.
    pub(crate) fn base_url(&self) -> String {
        format!("{}/api/v1", self.origin())
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far, with the random port written as `PORT`.
    pub(crate) fn requests(&self) -> Vec<String> {
        let requests = self.requests.lock().expect("no thread panicked while it recorded");
        let host = self.address.to_string();
        let masked = format!("{}:PORT", self.address.ip());
        requests.iter().map(|request| request.replace(&host, &masked)).collect()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

pub(crate) fn response(status: &str, content_type: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

async fn serve(mut stream: TcpStream, requests: Arc<Mutex<Vec<String>>>, response: Arc<String>) {
    let mut bytes = Vec::new();
    while !is_complete(&bytes) {
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    let request = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
    requests.lock().expect("no thread panicked while it recorded").push(request);
    // The client may have gone away.
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Returns true if the head is complete, with as much of the body as it announces.
fn is_complete(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let announced =
        head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    bytes.len() >= end + 4 + announced.unwrap_or(0)
}
