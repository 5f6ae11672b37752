//! Breakable connection between a client and the real service: real sockets, and bytes that stop at a chosen
//! place.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Place at which the first connection breaks. A share from 0 to 1 sets the transferred part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Break {
    BeforeConnecting,
    /// The connection is accepted and reset.
    AtAccept,
    InHead(f64),
    InBody(f64),
    /// The service receives the whole request; its response is not read.
    AfterRequest,
    /// The service responds; nothing of the response arrives.
    AfterAnswer,
    InAnswerHead(f64),
    InAnswerBody(f64),
}

/// Forwarder to a service. Dropping it breaks its connections.
pub(crate) struct Cable {
    pub(crate) address: SocketAddr,
    carrying: Option<AbortHandle>,
    /// Reserves the port without a listener.
    _silent: Option<TcpSocket>,
}

impl Cable {
    /// Makes a forwarder whose first connection breaks there, if anywhere. Later ones do not break.
    pub(crate) fn to(service: SocketAddr, breaks: Option<Break>) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(([127, 0, 0, 1], 0).into())?;
        let address = socket.local_addr()?;
        if breaks == Some(Break::BeforeConnecting) {
            return Ok(Self { address, carrying: None, _silent: Some(socket) });
        }
        let carrying = tokio::spawn(carry_all(socket.listen(64)?, service, breaks)).abort_handle();
        Ok(Self { address, carrying: Some(carrying), _silent: None })
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        if let Some(carrying) = &self.carrying {
            carrying.abort();
        }
    }
}

async fn carry_all(listener: TcpListener, service: SocketAddr, breaks: Option<Break>) {
    let mut breaks = breaks;
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let breaks = breaks.take();
        connections.spawn(async move {
            // A client that hangs up ends only its own connection.
            let _ = match breaks {
                None => carry(client, service).await,
                Some(place) => Broken { client, service }.carry(place).await,
            };
        });
    }
}

async fn carry(mut client: TcpStream, service: SocketAddr) -> io::Result<()> {
    let mut onward = TcpStream::connect(service).await?;
    copy_bidirectional(&mut client, &mut onward).await.map(drop)
}

struct Broken {
    client: TcpStream,
    service: SocketAddr,
}

impl Broken {
    async fn carry(mut self, place: Break) -> io::Result<()> {
        if place == Break::AtAccept {
            return self.client.set_zero_linger();
        }
        let request = Message::read(&mut self.client).await?;
        let mut onward = TcpStream::connect(self.service).await?;
        onward.write_all(request.until(place)).await?;
        let answer = match place {
            Break::AfterAnswer | Break::InAnswerHead(_) | Break::InAnswerBody(_) => {
                Message::read(&mut onward).await?
            }
            // The service sees the end of its side, and the client a reset.
            _ => return self.client.set_zero_linger(),
        };
        self.client.write_all(answer.of_answer_until(place)).await?;
        self.client.shutdown().await
    }
}

/// Request or response with an announced length.
struct Message {
    bytes: Vec<u8>,
    head: usize,
}

impl Message {
    async fn read(stream: &mut TcpStream) -> io::Result<Self> {
        let mut bytes = Vec::new();
        loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = end + 4;
                if bytes.len() >= head + announced(&bytes[..head]) {
                    return Ok(Self { bytes, head });
                }
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Returns the part of a request that the service receives.
    fn until(&self, place: Break) -> &[u8] {
        match place {
            Break::InHead(share) => &self.bytes[..part(self.head, share)],
            Break::InBody(share) => self.with_body(share),
            _ => &self.bytes,
        }
    }

    /// Returns the part of a response that the client receives.
    fn of_answer_until(&self, place: Break) -> &[u8] {
        match place {
            Break::InAnswerHead(share) => &self.bytes[..part(self.head, share)],
            Break::InAnswerBody(share) => self.with_body(share),
            _ => &[],
        }
    }

    fn with_body(&self, share: f64) -> &[u8] {
        &self.bytes[..self.head + part(self.bytes.len() - self.head, share)]
    }
}

/// Returns a share of the length, never all of it.
fn part(length: usize, share: f64) -> usize {
    ((length as f64 * share) as usize).min(length.saturating_sub(1))
}

fn announced(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length.and_then(|length| length.trim().parse().ok()).unwrap_or(0)
}
