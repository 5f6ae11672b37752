//! HTTP/1.1 as far as clients speak it: heads, bodies with a length or in chunks, and the ways in
//! which a connection ends.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::content::Received;

/// The request line and the headers, their names in lower case.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) method: String,
    /// Path and query, as sent.
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
}

impl Head {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
        Some(Self { method, target, headers: headers.collect() })
    }

    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub(super) fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    pub(super) fn is_chunked(&self) -> bool {
        self.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    }

    pub(super) fn content_length(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    pub(super) fn framing(&self) -> Framing {
        if self.is_chunked() { Framing::Chunked } else { Framing::Length(self.content_length().unwrap_or(0)) }
    }

    pub(super) fn keeps_alive(&self) -> bool {
        !self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// The value of the first header with this name, which is in lower case.
pub(super) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// How the end of a body is known.
#[derive(Clone, Copy)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
}

/// How a connection ends before its client wants it to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    /// In order, as a service does that shuts down.
    Close,
    /// With a reset, as a service does that crashes.
    Reset,
    /// Not at all, until the client gives up.
    Stall,
}

pub(super) struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        // Answers are written in several small pieces; none of them should wait for the next.
        stream.set_nodelay(true).expect("the socket takes its option");
        Self { stream, unread: Vec::new() }
    }

    /// The head of the next request; none when the client has gone away or sends something else.
    pub(super) async fn head(&mut self) -> Option<Head> {
        loop {
            if let Some(end) = position(&self.unread, b"\r\n\r\n") {
                let head = Head::parse(&self.unread[..end]);
                self.unread.drain(..end + 4);
                return head;
            }
            self.read_more().await?;
        }
    }

    /// Reads a body to its end; none when the client stops before that.
    pub(super) async fn body(&mut self, framing: Framing, received: &mut Received) -> Option<()> {
        match framing {
            Framing::Length(length) => self.data(length, received).await,
            Framing::Chunked => loop {
                let line = self.line().await?;
                let length = u64::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
                self.data(length, received).await?;
                // After the last chunk, trailers would follow; nobody sends any.
                self.line().await?;
                if length == 0 {
                    return Some(());
                }
            },
        }
    }

    async fn data(&mut self, length: u64, received: &mut Received) -> Option<()> {
        let mut missing = length;
        while missing > 0 {
            if self.unread.is_empty() {
                self.read_more().await?;
            }
            let here = usize::try_from(missing).unwrap_or(usize::MAX).min(self.unread.len());
            received.push(&self.unread[..here]);
            self.unread.drain(..here);
            missing -= here as u64;
        }
        Some(())
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = position(&self.unread, b"\r\n") {
                let line = String::from_utf8_lossy(&self.unread[..end]).into_owned();
                self.unread.drain(..end + 2);
                return Some(line);
            }
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> Option<()> {
        self.unread.reserve(64 * 1024);
        let count = self.stream.read_buf(&mut self.unread).await.ok()?;
        (count > 0).then_some(())
    }

    /// None when the client has gone away.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).await.ok()
    }

    pub(super) async fn end(mut self, ending: Ending) {
        match ending {
            // A client that has gone away needs no farewell.
            Ending::Close => drop(self.stream.shutdown().await),
            Ending::Reset => self.stream.set_zero_linger().expect("the socket takes its option"),
            Ending::Stall => {
                while self.read_more().await.is_some() {
                    self.unread.clear();
                }
            }
        }
    }
}

pub(super) fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
