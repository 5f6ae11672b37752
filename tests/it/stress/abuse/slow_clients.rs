//! Slow clients: each opens a connection, sends as little as possible, and stays until the service closes the
//! connection.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::super::raw;
use super::harness::Harness;

#[derive(Clone)]
pub(super) struct Slow {
    pub(super) who: &'static str,
    host: String,
    opening: String,
    drip: &'static [u8],
    reads: bool,
    most: usize,
}

const IDLE: &str = "idle";

const PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn all(harness: &Harness) -> Vec<Slow> {
    let mut clients = Vec::new();
    let mut add = |who, host: &str, opening: String, drip: &'static [u8], reads| {
        let most = if matches!(who, IDLE | "a head byte by byte" | "headers without end") {
            usize::MAX
        } else {
            100
        };
        clients.push(Slow { who, host: host.to_owned(), opening, drip, reads, most });
    };
    for host in [&harness.api, &harness.storage, &harness.operations, &harness.nodes] {
        add(IDLE, host, String::new(), b"", true);
        add("a head byte by byte", host, "GET / HTTP/1.1\r\nhost: x\r\nx-slow: ".to_owned(), b"a", true);
        add("headers without end", host, "GET / HTTP/1.1\r\n".to_owned(), b"x-a: b\r\n", true);
        add("idle after an answer", host, "GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), b"", true);
    }
    let json = "host: x\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n";
    let create = format!(
        "POST /api/v1/api-key/model/color-extraction/task HTTP/1.1\r\nx-api-key: {}\r\n{json}\r\n{{",
        harness.second_key
    );
    add("a body byte by byte", &harness.api, create, b" ", true);
    let register =
        format!("POST /nodes/v1/register HTTP/1.1\r\nx-node-key: {}\r\n{json}\r\n{{", harness.node_key);
    add("a body of a node byte by byte", &harness.nodes, register, b" ", true);
    let form = "POST /files-x HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data; boundary=b\r\n\
                content-length: 1000000\r\n\r\n--b\r\ncontent-disposition: form-data; name=\"key\"\r\n\r\n";
    add("a form of a stranger byte by byte", &harness.storage, form.to_owned(), b"a", true);

    let second = harness.second();
    for (who, size) in [("a form byte by byte", 1_000_000), ("a put byte by byte", 6_000_000)] {
        let upload = harness.target("slow.txt", size, &second).await.upload(vec![b'a'; size]);
        let mut whole = upload.bytes();
        whole.truncate(whole.len() - size + 300_000);
        let opening = String::from_utf8_lossy(&whole).into_owned();
        add(who, &harness.storage, opening, b"a", true);
    }
    let large = harness.store("large.bin", vec![7; 24 << 20], &second).await.download_url;
    let get = format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", raw::split(&large).1);
    add("an answer that is not read", &harness.storage, get, b"", false);
    clients
}

pub(super) fn gather(clients: &[Slow], count: usize) -> impl Iterator<Item = Slow> {
    let rounds = (0..).flat_map(move |round| clients.iter().filter(move |client| round < client.most));
    rounds.take(count).cloned()
}

impl Slow {
    pub(super) async fn stay(self) {
        let stream = TcpStream::connect(&self.host).await.expect("a connection is accepted, or waits");
        let (mut incoming, mut outgoing) = stream.into_split();
        let _ = outgoing.write_all(self.opening.as_bytes()).await;
        if !self.reads {
            // A client that does not read never learns that the service has given up.
            return std::future::pending().await;
        }
        let listen = async { drop(tokio::io::copy(&mut incoming, &mut tokio::io::sink()).await) };
        let drip = async {
            // An empty drip is silence.
            while outgoing.write_all(self.drip).await.is_ok() {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::select! {
            () = listen => {}
            () = drip => {}
        }
    }
}
