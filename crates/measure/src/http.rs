//! Minimal HTTP/1.1 client over one keep-alive connection, for little overhead: no pool, default headers or thread.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Open connection.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

/// Complete response.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Body; empty if [`Connection::count`] only counted the bytes.
    pub body: Vec<u8>,
    /// Length of the body in bytes.
    pub length: u64,
}

impl Connection {
    /// Connects to an origin such as `http://127.0.0.1:8787`; a path is ignored.
    pub fn open(origin: &str) -> io::Result<Self> {
        let address = origin.trim_start_matches("http://").split('/').next().unwrap_or_default();
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { stream: BufReader::with_capacity(256 * 1024, stream) })
    }

    /// Sends a serialized request and reads the response.
    pub fn call(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.stream.get_mut().write_all(request)?;
        let mut body = Vec::new();
        let (status, length) = self.answer(&mut body)?;
        Ok(Answer { status, body, length })
    }

    /// Sends a request with a body of `length` zeros and reads the response.
    pub fn send(&mut self, head: &[u8], mut length: usize) -> io::Result<Answer> {
        let zeros = vec![0; 256 * 1024];
        let stream = self.stream.get_mut();
        stream.write_all(head)?;
        while length > 0 {
            let piece = length.min(zeros.len());
            stream.write_all(&zeros[..piece])?;
            length -= piece;
        }
        self.call(b"")
    }

    /// Sends a request and counts the bytes of the response without keeping them.
    pub fn count(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.stream.get_mut().write_all(request)?;
        let (status, length) = self.answer(&mut io::sink())?;
        Ok(Answer { status, body: Vec::new(), length })
    }

    fn answer(&mut self, body: &mut impl Write) -> io::Result<(u16, u64)> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status: u16 = status.ok_or_else(|| io::Error::other(format!("this is not HTTP: {line:?}")))?;
        let (mut length, mut is_chunked) = (0, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(':') {
                None => break,
                Some(("content-length", value)) => length = number(value, 10)?,
                Some(("transfer-encoding", _)) => is_chunked = true,
                Some(_) => {}
            }
        }
        if !is_chunked {
            self.copy(length, body)?;
            return Ok((status, length));
        }
        loop {
            let size = number(&self.line()?, 16)?;
            self.copy(size, body)?;
            length += size;
            self.line()?;
            if size == 0 {
                return Ok((status, length));
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    fn copy(&mut self, length: u64, body: &mut impl Write) -> io::Result<()> {
        let copied = io::copy(&mut (&mut self.stream).take(length), body)?;
        if copied == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// Serializes a request with the given headers, `Host`, and `Content-Length` if there is a body.
pub fn request(method: &str, url: &str, headers: &[(&str, &str)], body: Option<&str>) -> Vec<u8> {
    let rest = url.trim_start_matches("http://");
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut text = format!("{method} /{path} HTTP/1.1\r\nhost: {host}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    match body {
        None => text.push_str("\r\n"),
        Some(body) => text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len())),
    }
    text.into_bytes()
}

fn number(text: &str, radix: u32) -> io::Result<u64> {
    let failed = |_| io::Error::other(format!("this is no length: {text:?}"));
    u64::from_str_radix(text.trim(), radix).map_err(failed)
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn answers_with_a_length_and_in_chunks_are_read_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let origin = format!("http://{}/x", listener.local_addr().expect("it is bound"));
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            let text = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc\
                        HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n\
                        HTTP/1.1 204 No Content\r\n\r\n";
            stream.write_all(text.as_bytes()).expect("it is read");
        });
        let mut connection = Connection::open(&origin).expect("somebody listens");
        let mut next = || connection.answer(&mut io::sink()).expect("an answer");
        assert_eq!([next(), next(), next()], [(200, 3), (404, 2), (204, 0)]);
        server.join().expect("it does not panic");
    }
}
