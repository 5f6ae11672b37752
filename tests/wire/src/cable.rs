//! TCP proxy whose connections break: the first one at a chosen place, or all of them for some time.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// Place at which the first connection breaks. A share from 0 to 1 sets the transferred part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Break {
    /// Nothing listens.
    BeforeConnecting,
    /// The connection is accepted and reset.
    AtAccept,
    /// The service receives a part of the head of the request.
    InHead(f64),
    /// The service receives a part of the body of the request.
    InBody(f64),
    /// The service receives the whole request; its response is not read.
    AfterRequest,
    /// The service responds; nothing of the response arrives.
    AfterAnswer,
    /// A part of the head of the response arrives.
    InAnswerHead(f64),
    /// A part of the body of the response arrives.
    InAnswerBody(f64),
}

/// State of the line to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Connections are forwarded.
    Open,
    /// New connections are accepted and wait; open ones are forwarded.
    Stalled,
    /// Open connections break, and new ones are closed.
    Cut,
}

/// Forwarder to a service. Dropping it breaks its connections.
pub struct Cable {
    /// Address of this end.
    pub address: SocketAddr,
    line: watch::Sender<Line>,
    connections: watch::Sender<usize>,
    refusals: watch::Sender<usize>,
    carrying: Option<AbortHandle>,
    /// Reserves the port without a listener.
    _silent: Option<TcpSocket>,
}

impl Cable {
    /// Makes a forwarder whose first connection breaks there, if anywhere. Later ones do not break.
    pub fn to(service: SocketAddr, breaks: Option<Break>) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(([127, 0, 0, 1], 0).into())?;
        let address = socket.local_addr()?;
        let line = watch::Sender::new(Line::Open);
        let connections = watch::Sender::new(0);
        let refusals = watch::Sender::new(0);
        if breaks == Some(Break::BeforeConnecting) {
            return Ok(Self { address, line, connections, refusals, carrying: None, _silent: Some(socket) });
        }
        let carrier = Carrier {
            service,
            line: line.subscribe(),
            connections: connections.clone(),
            refusals: refusals.clone(),
        };
        let carrying = tokio::spawn(carrier.carry_all(socket.listen(64)?, breaks)).abort_handle();
        Ok(Self { address, line, connections, refusals, carrying: Some(carrying), _silent: None })
    }

    /// Changes the state of the line.
    pub fn set(&self, line: Line) {
        self.line.send_replace(line);
    }

    /// Cuts the line, and waits until no connection is open.
    pub async fn cut(&self) {
        self.set(Line::Cut);
        let _ = self.connections.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Waits until this number of connections has been closed because the line was cut.
    pub async fn refused(&self, number: usize) {
        let _ = self.refusals.subscribe().wait_for(|count| *count >= number).await;
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        if let Some(carrying) = &self.carrying {
            carrying.abort();
        }
    }
}

#[derive(Clone)]
struct Carrier {
    service: SocketAddr,
    line: watch::Receiver<Line>,
    connections: watch::Sender<usize>,
    refusals: watch::Sender<usize>,
}

impl Carrier {
    async fn carry_all(self, listener: TcpListener, mut breaks: Option<Break>) {
        let mut connections = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            let breaks = breaks.take();
            let carrier = self.clone();
            connections.spawn(async move {
                // A client that hangs up ends only its own connection.
                let _ = match breaks {
                    None => carrier.carry(client).await,
                    Some(place) => Broken { client, service: carrier.service }.carry(place).await,
                };
            });
        }
    }

    async fn carry(mut self, mut client: TcpStream) -> io::Result<()> {
        let is_open =
            self.line.wait_for(|line| *line != Line::Stalled).await.is_ok_and(|line| *line == Line::Open);
        if is_open {
            self.connections.send_modify(|count| *count += 1);
            tokio::select! {
                biased;
                _ = self.line.wait_for(|line| *line == Line::Cut) => {}
                _ = forward(&mut client, self.service) => {}
            }
            drop(client);
            self.connections.send_modify(|count| *count -= 1);
        } else {
            self.refusals.send_modify(|count| *count += 1);
        }
        Ok(())
    }
}

async fn forward(client: &mut TcpStream, service: SocketAddr) -> io::Result<()> {
    let mut onward = TcpStream::connect(service).await?;
    copy_bidirectional(client, &mut onward).await.map(drop)
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

    fn until(&self, place: Break) -> &[u8] {
        match place {
            Break::InHead(share) => &self.bytes[..part(self.head, share)],
            Break::InBody(share) => self.with_body(share),
            _ => &self.bytes,
        }
    }

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
