//! Answers: the envelopes of the API, the errors of object storage, and how both are sent.

use std::time::Duration;

use serde_json::{Value, json};

use super::content::Content;
use super::http::Connection;

#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Content,
}

impl Answer {
    pub(super) fn new(code: u16, content_type: &str, body: impl Into<Content>) -> Self {
        Self { code, headers: Vec::new(), body: body.into() }.with_header("content-type", content_type)
    }

    pub(super) fn empty(code: u16) -> Self {
        Self { code, headers: Vec::new(), body: "".into() }
    }

    pub(super) fn json(code: u16, value: &Value) -> Self {
        Self::new(code, "application/json", value.to_string().as_str())
    }

    /// The envelope around a payload.
    pub(super) fn success(data: &Value) -> Self {
        Self::json(200, &json!({"status": "success", "message": "ok", "data": data}))
    }

    /// The envelope without a payload, as cancel and delete answer.
    pub(super) fn done(message: &str) -> Self {
        Self::json(200, &json!({"status": "success", "message": message}))
    }

    pub(super) fn failure(code: u16, message: &str) -> Self {
        Self::json(code, &json!({"status": "fail", "message": message}))
    }

    /// A refusal of object storage.
    pub(super) fn storage_error(code: u16, word: &str, message: &str) -> Self {
        let xml = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <Error><Code>{word}</Code><Message>{message}</Message><HostId>scripted</HostId></Error>"
        );
        Self::new(code, "application/xml", xml.as_str())
    }

    pub(super) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The head, which announces a body of this length. The reason phrase may be empty, and is.
    fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {} \r\n", self.code);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.code != 204 {
            head.push_str(&format!("content-length: {}\r\n", self.body.length()));
        }
        head + "\r\n"
    }

    /// None when the client has gone away, or must not expect another answer.
    pub(super) async fn send(&self, delivery: Delivery, connection: &mut Connection) -> Option<()> {
        connection.write(self.head().as_bytes()).await?;
        let sent = match delivery {
            Delivery::FirstHalf => self.body.first_half(),
            Delivery::Whole | Delivery::Dripping(_) => self.body.clone(),
        };
        for piece in sent.pieces() {
            let piece = piece.bytes();
            match delivery {
                Delivery::Dripping(pause) => {
                    for byte in piece.iter() {
                        tokio::time::sleep(pause).await;
                        connection.write(&[*byte]).await?;
                    }
                }
                Delivery::Whole | Delivery::FirstHalf => connection.write(&piece).await?,
            }
        }
        (delivery != Delivery::FirstHalf).then_some(())
    }
}

/// How much of a body is sent, and how fast. Its whole length is announced in any case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Whole,
    FirstHalf,
    /// Byte by byte, with a pause before each.
    Dripping(Duration),
}
