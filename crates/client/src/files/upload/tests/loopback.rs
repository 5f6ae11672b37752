//! Scripted service and object store on a local socket, which records the requests. Hand-written, to check
//! the bytes on the wire.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::{ApiKey, Client, ClientBuilder, Retry};

pub(crate) type TestResult = Result<(), Box<dyn std::error::Error>>;

/// Returns the whole text of an error: message, causes and `Debug`.
pub(crate) fn said<T>(result: crate::Result<T>) -> String {
    let Err(error) = result else { return "it worked".to_owned() };
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    format!("{text} {error:?}")
}

/// Largest file that is uploaded as a form.
pub(crate) const FORM_CEILING: u64 = 5_242_880;

/// Secrets that must never be shown; the key must never reach object storage.
pub(crate) const KEY: &str = "PLANTED-KEY";
pub(crate) const SIGNATURE: &str = "PLANTED-SIGNATURE";

const KEPT: u64 = 8 * 1024 * 1024;

const PRESIGN: &str = "/api/v1/api-key/storage/upload/create-presigned-url";

#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    /// Beginning of the body.
    pub(crate) body: Vec<u8>,
    pub(crate) body_length: u64,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Reaction to a request to object storage.
pub(crate) enum Reaction {
    /// Reads the whole body and responds. An explicit `content-length` replaces the true one.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Responds at once, then reads the body.
    Early(u16),
    /// Reads this part of the body and drops the connection.
    DropAfter(u64),
    /// Reads the body with pauses of this total length, and responds with 200.
    Slowly(Duration),
    Silence,
}

impl Reaction {
    pub(crate) fn status(status: u16) -> Self {
        Self::Answer(status, Vec::new(), Vec::new())
    }

    /// Makes an error response of object storage.
    pub(crate) fn refusal(status: u16, code: &str) -> Self {
        let body =
            format!("<Error><Code>{code}</Code><Message>{SIGNATURE} is not good enough</Message></Error>");
        Self::Answer(status, Vec::new(), body.into_bytes())
    }
}

type React = dyn FnMut(&Request) -> Reaction + Send;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Presigns every target, and reacts to other requests as scripted, before reading their body.
    pub(crate) async fn start(react: impl FnMut(&Request) -> Reaction + Send + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = Self { address: listener.local_addr()?, requests: Arc::default() };
        let requests = Arc::clone(&server.requests);
        let react: Arc<Mutex<React>> = Arc::new(Mutex::new(react));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (requests, react) = (Arc::clone(&requests), Arc::clone(&react));
                tokio::spawn(async move { serve(stream, &requests, &react).await });
            }
        });
        Ok(server)
    }

    /// Returns a client with short backoffs.
    pub(crate) fn client(&self) -> crate::Result<Client> {
        self.builder(5).build()
    }

    /// Returns a client builder with this maximum number of attempts.
    pub(crate) fn builder(&self, max_attempts: u32) -> ClientBuilder {
        let retry = Retry { initial_backoff: Duration::from_millis(1), max_attempts, ..Retry::default() };
        Client::builder(format!("http://{}/api/v1", self.address), ApiKey::new(KEY))
            .settings(|settings| settings.retry = retry)
    }

    /// Returns the requests to object storage, in the order of their end.
    pub(crate) fn stored(&self) -> Vec<Request> {
        self.all().into_iter().filter(|request| request.target != PRESIGN).collect()
    }

    /// Returns the requests for a target.
    pub(crate) fn presigned(&self) -> Vec<Request> {
        self.all().into_iter().filter(|request| request.target == PRESIGN).collect()
    }

    fn all(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(stream: TcpStream, requests: &Mutex<Vec<Request>>, react: &Mutex<React>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut request = head(&mut stream).await?;
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or_default();
    let remember = |request: &Request| {
        let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(request.clone());
        requests.iter().filter(|request| request.target == PRESIGN).count()
    };
    if request.target == PRESIGN {
        body(&mut stream, &mut request, length, Duration::ZERO).await?;
        let count = remember(&request);
        return answer(&mut stream, 200, &[], presigned(&request, count).as_bytes()).await;
    }
    let reaction = react.lock().unwrap_or_else(PoisonError::into_inner)(&request);
    match reaction {
        Reaction::Answer(status, headers, content) => {
            let read = body(&mut stream, &mut request, length, Duration::ZERO).await;
            remember(&request);
            read?;
            answer(&mut stream, status, &headers, &content).await
        }
        Reaction::Early(status) => {
            remember(&request);
            answer(&mut stream, status, &[], b"").await?;
            body(&mut stream, &mut request, length, Duration::ZERO).await
        }
        Reaction::DropAfter(some) => {
            let read = body(&mut stream, &mut request, some.min(length), Duration::ZERO).await;
            remember(&request);
            read
        }
        Reaction::Slowly(long) => {
            body(&mut stream, &mut request, length, long).await?;
            remember(&request);
            answer(&mut stream, 200, &[], b"").await
        }
        Reaction::Silence => {
            remember(&request);
            std::future::pending().await
        }
    }
}

async fn head(stream: &mut BufReader<TcpStream>) -> io::Result<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut words = lines.first().map(String::as_str).unwrap_or_default().split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let headers = lines.iter().skip(1).filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    Ok(Request { method, target, headers, ..Request::default() })
}

/// Reads this number of bytes, in steps with pauses.
async fn body(
    stream: &mut BufReader<TcpStream>,
    request: &mut Request,
    length: u64,
    long: Duration,
) -> io::Result<()> {
    const STEPS: u32 = 50;
    let step = length.div_ceil(u64::from(STEPS)).max(1);
    while request.body_length < length {
        if !long.is_zero() {
            tokio::time::sleep(long / STEPS).await;
        }
        let mut chunk = Vec::new();
        let read = stream.take(step.min(length - request.body_length)).read_to_end(&mut chunk).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        request.body_length += read as u64;
        if request.body_length <= KEPT {
            request.body.append(&mut chunk);
        }
    }
    Ok(())
}

async fn answer(
    stream: &mut BufReader<TcpStream>,
    status: u16,
    headers: &[(&'static str, String)],
    body: &[u8],
) -> io::Result<()> {
    let mut text = format!("HTTP/1.1 {status} Reason\r\nconnection: close\r\n");
    for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    // An empty value means: until the connection ends.
    if !headers.iter().any(|(name, _)| *name == "content-length") {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    stream.write_all(text.as_bytes()).await?;
    stream.write_all(body).await?;
    stream.shutdown().await
}

/// Makes a target whose name has its number.
fn presigned(request: &Request, count: usize) -> String {
    let asked: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let store = format!("http://{}/bucket", request.header("host").unwrap_or_default());
    let (endpoint, fields) = if asked["size"].as_u64().unwrap_or_default() > FORM_CEILING {
        let endpoint = format!("{store}/key?X-Amz-Algorithm=A&X-Amz-Signature={SIGNATURE}&target={count}");
        (endpoint, json!({ "Content-Type": asked["mime"] }).to_string())
    } else {
        let fields =
            format!(r#"{{"x-amz-signature":"{SIGNATURE}","key":"k","Content-Type":{}}}"#, asked["mime"]);
        (format!("{store}?target={count}"), fields)
    };
    let download_url = format!("https://host.example/{count}");
    let data = json!({ "endpoint": endpoint, "fields": fields, "download_url": download_url });
    json!({ "status": "success", "message": "", "data": data }).to_string()
}

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("inferstore-test-{:016x}", fastrand::u64(..)));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Creates a sparse file of this size.
    pub(crate) fn sparse(&self, name: &str, size: u64) -> io::Result<PathBuf> {
        let path = self.path(name);
        std::fs::File::create(&path)?.set_len(size)?;
        Ok(path)
    }

    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let entries =
            std::fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names: Vec<String> = entries.collect::<io::Result<_>>()?;
        names.sort();
        Ok(names)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
