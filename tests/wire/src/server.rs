//! Raw HTTP server. Hand-written, so that tests see the bytes on the wire and can break the protocol. Each connection
//! has a thread, so that the server works with any runtime and without one.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

const MAX_RECORDED: u64 = 8 << 20;

/// Request as it arrived.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Method, in capitals.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Request line and headers.
    pub head: String,
    /// Beginning of the body, at most 8 MiB.
    pub body: Vec<u8>,
    /// Number of received bytes of the body.
    pub body_length: u64,
}

impl Request {
    /// Returns the value of a header; `name` is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let mut values = headers.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value.trim())
    }

    /// Returns method and target, such as `GET /api/v1/…`.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }

    fn length(&self) -> u64 {
        self.header("content-length").and_then(|length| length.parse().ok()).unwrap_or_default()
    }
}

/// Reaction of a [`Server`] to a request whose head has arrived.
pub enum Reaction {
    /// Reads the body, and responds with this status, these headers and this body. A given `content-length` replaces
    /// the true one; an empty one is left out, so that the body ends with the connection.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Reads the body, responds with a JSON body, and keeps the connection open.
    Json(u16, String),
    /// Responds as `Json`, with a pause before each byte of the body.
    Drip(u16, String, Duration),
    /// Reads the body, sends these bytes as they are, and closes the connection.
    Raw(Vec<u8>),
    /// Reads the body, and reacts to the complete request.
    Read(Box<dyn FnOnce(&Request) -> Self + Send>),
    /// Responds with this status at once, then reads the body.
    Early(u16),
    /// Reads this number of bytes of the body, and drops the connection.
    DropAfter(u64),
    /// Reads the body with pauses of this total length, and responds with 200.
    Slowly(Duration),
    /// Reads nothing more, and never responds.
    Silence,
}

impl Reaction {
    /// Responds with this status and no body.
    pub fn status(status: u16) -> Self {
        Self::Answer(status, Vec::new(), Vec::new())
    }
}

type React = dyn FnMut(&Request) -> Reaction + Send;

/// Raw HTTP server, which listens until the process ends.
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Starts a server that reacts to each request by this function.
    pub fn start(react: impl FnMut(&Request) -> Reaction + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let recorded = Arc::clone(&requests);
        let react: Arc<Mutex<React>> = Arc::new(Mutex::new(react));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let recorded = Arc::clone(&recorded);
                let react = Arc::clone(&react);
                thread::spawn(move || Connection { recorded, react }.serve(&stream));
            }
        });
        Self { address, requests }
    }

    /// Starts a server with one response to every request: a status line, headers and a body.
    pub fn answering(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::start(move |_| Reaction::Raw(response.clone()))
    }

    /// Starts a server that responds to every request with `200` and this JSON.
    pub fn answering_json(json: impl ToString) -> Self {
        Self::answering(response("200 OK", "application/json", &json.to_string()))
    }

    /// Returns the origin, such as `http://127.0.0.1:4321`.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the versioned root for a client.
    pub fn base_url(&self) -> String {
        format!("{}/api/v1", self.origin())
    }

    /// Returns the requests so far, in the order in which their bodies ended.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.requests).clone()
    }

    /// Returns the requests as texts, with the random port written as `PORT`.
    pub fn texts(&self) -> Vec<String> {
        let host = self.address.to_string();
        let masked = format!("{}:PORT", self.address.ip());
        let text = |Request { head, body, .. }: &Request| {
            format!("{head}{}", String::from_utf8_lossy(body)).replace("\r\n", "\n").replace(&host, &masked)
        };
        lock(&self.requests).iter().map(text).collect()
    }
}

/// Returns the text of a response that closes its connection.
pub fn response(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Connection {
    recorded: Arc<Mutex<Vec<Request>>>,
    react: Arc<Mutex<React>>,
}

impl Connection {
    fn serve(self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::with_capacity(256 << 10, stream);
        while let Some(mut request) = head(&mut reader)? {
            let reaction = lock(&self.react)(&request);
            if !self.perform(reaction, &mut request, &mut reader)? {
                return stream.shutdown(Shutdown::Write);
            }
        }
        Ok(())
    }

    fn perform(
        &self,
        reaction: Reaction,
        request: &mut Request,
        reader: &mut BufReader<&TcpStream>,
    ) -> io::Result<bool> {
        let mut writer = *reader.get_ref();
        let length = request.length();
        let wanted = match reaction {
            Reaction::Early(_) | Reaction::Silence => 0,
            Reaction::DropAfter(some) => some.min(length),
            _ => length,
        };
        let pause = if let Reaction::Slowly(pause) = reaction { pause } else { Duration::ZERO };
        let read = body(reader, request, wanted, pause);
        let reaction = match reaction {
            Reaction::Read(react) => react(request),
            reaction => reaction,
        };
        // Before the response, so that its receiver finds the request.
        lock(&self.recorded).push(request.clone());
        read?;
        match reaction {
            Reaction::Answer(status, headers, content) => {
                writer.write_all(head_of(status, &headers, content.len()).as_bytes())?;
                writer.write_all(&content)?;
            }
            Reaction::Json(status, content) => {
                writer.write_all(json_head(status, &content).as_bytes())?;
                writer.write_all(content.as_bytes())?;
                return Ok(true);
            }
            Reaction::Drip(status, content, pause) => {
                writer.write_all(json_head(status, &content).as_bytes())?;
                for byte in content.bytes() {
                    thread::sleep(pause);
                    writer.write_all(&[byte])?;
                }
                return Ok(true);
            }
            Reaction::Raw(bytes) => writer.write_all(&bytes)?,
            Reaction::Early(status) => {
                writer.write_all(head_of(status, &[], 0).as_bytes())?;
                writer.shutdown(Shutdown::Write)?;
                body(reader, request, length, Duration::ZERO)?;
            }
            Reaction::Slowly(_) => writer.write_all(head_of(200, &[], 0).as_bytes())?,
            // The connection stays open until the process ends.
            Reaction::Silence => loop {
                thread::park();
            },
            Reaction::DropAfter(_) | Reaction::Read(_) => return Err(io::ErrorKind::ConnectionAborted.into()),
        }
        Ok(false)
    }
}

fn head(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut request = Request::default();
    while !request.head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut request.head)? == 0 {
            return Ok(None);
        }
    }
    let mut words = request.head.split(' ');
    request.method = words.next().unwrap_or_default().to_owned();
    request.target = words.next().unwrap_or_default().to_owned();
    Ok(Some(request))
}

fn body(reader: &mut impl Read, request: &mut Request, length: u64, pauses: Duration) -> io::Result<()> {
    const STEPS: u32 = 50;
    let step = length.div_ceil(u64::from(STEPS)).max(1);
    while request.body_length < length {
        thread::sleep(pauses / STEPS);
        let mut chunk = Vec::new();
        let read = reader.take(step.min(length - request.body_length)).read_to_end(&mut chunk)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        request.body_length += read as u64;
        if request.body_length <= MAX_RECORDED {
            request.body.append(&mut chunk);
        }
    }
    Ok(())
}

fn json_head(status: u16, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} \r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n")
}

fn head_of(status: u16, headers: &[(&'static str, String)], length: usize) -> String {
    let mut head = format!("HTTP/1.1 {status} Reason\r\nconnection: close\r\n");
    for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !headers.iter().any(|(name, _)| *name == "content-length") {
        head.push_str(&format!("content-length: {length}\r\n"));
    }
    head + "\r\n"
}
