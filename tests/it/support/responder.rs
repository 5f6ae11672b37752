//! Threaded server for measurements: discards bodies of any length, and responds by a function.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

pub(crate) struct Request {
    /// Method and path, such as `GET /api/v1/…`.
    pub(crate) line: String,
    pub(crate) content_length: Option<u64>,
    pub(crate) body_length: u64,
}

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: String,
    /// Pause before every byte of the body. `None`: the body is sent at once.
    pub(crate) pause: Option<Duration>,
}

/// Serves on a free loopback port until the process ends, and returns the origin. A request without a
/// response hangs until its client goes away.
pub(crate) fn respond(answer: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let origin = format!("http://{}", listener.local_addr().expect("it is bound"));
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            // The thread ends when its client goes away.
            thread::spawn(move || converse(&stream, &*answer));
        }
    });
    origin
}

fn converse(stream: &TcpStream, answer: &dyn Fn(&Request) -> Option<Answer>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(256 * 1024, stream);
    while let Some(request) = read(&mut reader)? {
        let Some(Answer { code, body, pause }) = answer(&request) else {
            return std::io::copy(&mut reader, &mut std::io::sink()).map(drop);
        };
        let head = format!(
            "HTTP/1.1 {code} \r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut writer = stream;
        writer.write_all(head.as_bytes())?;
        match pause {
            None => writer.write_all(body.as_bytes())?,
            Some(pause) => {
                for byte in body.bytes() {
                    thread::sleep(pause);
                    writer.write_all(&[byte])?;
                }
            }
        }
    }
    Ok(())
}

/// Reads the next request and discards its body. `None`: the connection has ended.
fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let line = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    let mut content_length = None;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let header = header.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(length) = header.strip_prefix("content-length:") {
            content_length = length.trim().parse().ok();
        }
    }
    let mut body = reader.take(content_length.unwrap_or(0));
    let body_length = std::io::copy(&mut body, &mut std::io::sink())?;
    Ok(Some(Request { line, content_length, body_length }))
}
