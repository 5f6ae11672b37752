//! Raw requests that no client library would send.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const BACKSTOP: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Reply {
    fn read(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let status = text.strip_prefix("HTTP/1.1 ").or_else(|| text.strip_prefix("HTTP/1.0 "))?;
        Some(Self { status: status.get(..3)?.parse().ok()?, text })
    }

    pub(crate) fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }
}

pub(crate) fn split(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").expect("the service speaks plain HTTP here");
    rest.find('/').map_or((rest, "/"), |at| rest.split_at(at))
}

/// Sends bytes on a new connection, and reads until the service closes it. `None`: closed without a response.
/// `and_no_more` shuts down the sending side.
pub(crate) async fn exchange(host: &str, bytes: &[u8], and_no_more: bool) -> Option<Reply> {
    let stream = TcpStream::connect(host).await.expect("the service listens");
    let (mut incoming, mut outgoing) = stream.into_split();
    let mut answer = Vec::new();
    let talk = async {
        let send = async {
            // A peer may close before everything is sent.
            let _ = outgoing.write_all(bytes).await;
            if and_no_more {
                let _ = outgoing.shutdown().await;
            }
        };
        let read = async { drop(incoming.read_to_end(&mut answer).await) };
        tokio::join!(send, read);
    };
    tokio::time::timeout(BACKSTOP, talk).await.expect("the service answers or closes the connection");
    Reply::read(&answer)
}

/// Like `exchange`, on this thread: the bytes follow the connection at once, however busy the runtime is. A
/// full service closes a connection without bytes.
pub(crate) fn exchange_at_once(host: &str, bytes: &[u8]) -> Option<Reply> {
    let mut stream = std::net::TcpStream::connect(host).expect("the service listens");
    stream.set_read_timeout(Some(BACKSTOP)).expect("a timeout above zero");
    stream.write_all(bytes).expect("it fits in the buffer of the system");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the service answers and closes the connection");
    Reply::read(&answer)
}
