//! The controls for testers of the service, as a caller of `docs/controls.md`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::service::Service;

/// A backstop: the controls answer at once.
const SILENCE: Duration = Duration::from_secs(60);

pub(super) struct Controls {
    address: String,
    token: String,
}

impl Controls {
    pub(super) fn of(service: &Service) -> Result<Self> {
        let (url, token) = service.controls.clone().context("the service has no controls")?;
        let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Ok(Self { address, token })
    }

    /// The tasks of the model succeed without it, after they were computed for so long.
    pub(super) fn let_succeed(&self, model: &str, after: Duration) -> Result<()> {
        let output = json!({"output": "#102030"});
        let after = u64::try_from(after.as_millis()).context("too long")?;
        let script = json!({"then": "succeed", "after_ms": after, "output": output});
        self.ask("PUT", &format!("/models/{model}"), &script).map(drop)
    }

    /// The next request for this operation meets the effect.
    pub(super) fn add_fault(&self, operation: &str, effect: &str) -> Result<()> {
        let fault = json!({"operation": operation, "effect": effect, "times": 1});
        self.ask("POST", "/faults", &fault).map(drop)
    }

    /// How many tasks there are.
    pub(super) fn tasks(&self) -> Result<u64> {
        let overview = self.ask("GET", "/", &Value::Null)?;
        let tasks = overview["tasks"].as_object().context("the controls tell no tasks")?;
        Ok(tasks.values().filter_map(Value::as_u64).sum())
    }

    /// How many requests there were since it was asked last.
    pub(super) fn requests(&self) -> Result<u32> {
        let journal = self.ask("GET", "/journal", &Value::Null)?;
        self.ask("DELETE", "/journal", &Value::Null)?;
        let requests = journal.as_array().context("the controls have no journal")?.len();
        u32::try_from(requests).context("too many requests")
    }

    /// One request on a connection of its own, and the `data` of the answer.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let doing = || format!("asking the controls: {method} {path}");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(&self.address).with_context(doing)?;
        stream.set_read_timeout(Some(SILENCE)).with_context(doing)?;
        // HTTP/1.0 ends an answer by closing the connection.
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        )
        .with_context(doing)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).with_context(doing)?;
        let (head, body) = answer.split_once("\r\n\r\n").with_context(doing)?;
        ensure!(head.contains(" 200 "), "{}: {body}", doing());
        let mut answer: Value = serde_json::from_str(body).with_context(doing)?;
        Ok(answer["data"].take())
    }
}
