//! `inferstore mcp`: a server of the Model Context Protocol for agents: JSON-RPC 2.0 lines over standard streams.
//!
//! Invariants: a call is a line of the journal in the folder before its task is created, so that a call that is repeated,
//! canceled or cut off by a kill is one task; the sum of what tasks have cost and can cost stays within the budget; files
//! are read from the folder and written into it, and nowhere else.

mod calls;
mod tools;

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use clap::{Args, ValueHint};
use futures_util::StreamExt;
use futures_util::future::{AbortHandle, BoxFuture, FutureExt, abortable};
use futures_util::stream::FuturesUnordered;
use inferstore::Decimal;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::signals::Signals;
use crate::complete;
use crate::failure::Result;
use crate::output::closed;
use crate::settings::Session;
use crate::values;
use calls::{Refusal, Server};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  inferstore mcp --folder pictures --budget 5\n  inferstore mcp --model haze-removal --model super-resolution"
)]
pub(crate) struct Arguments {
    /// The folder that files are read from and outputs are saved in; its journal records the calls
    #[arg(long, value_name = "DIR", default_value = "inferstore-mcp", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    /// Refuse runs beyond this sum, with all that the folder has cost before
    #[arg(long, value_name = "AMOUNT", value_parser = values::amount)]
    budget: Option<Decimal>,
    /// Offer this model as a tool of its own [default: the first 100 models]
    #[arg(long = "model", value_name = "MODEL", add = complete::models())]
    models: Vec<String>,
}

/// The versions of the protocol that differ in nothing that this server uses; the newest comes first.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The longest message. Inputs are paths and URLs, not contents.
const MAX_MESSAGE: u64 = 4 * 1024 * 1024;

const MAX_WAITING: usize = 16;

const INSTRUCTIONS: &str = "\
Each model is a tool, and `run` runs any model by its identifier. A file input is a URL, or the path of a file in the \
folder of this server; outputs are saved in that folder, and their paths can be inputs of further calls. Runs cost \
money: `quote` tells the price and what is left of the budget. A call with the same inputs is the same task, and is not \
paid again: repeat a call that was cut off. For another run with the same inputs, give another call_id.";

/// Error codes of JSON-RPC.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const INTERNAL_ERROR: i32 = -32603;

pub(crate) async fn execute(arguments: Arguments, mut session: Session) -> Result {
    // Standard output is the protocol, and nobody reads notes.
    session.output.options.has_errors_alone = true;
    let stdin = std::mem::replace(&mut session.environment.stdin, Box::new(io::empty()));
    let server = Server::open(arguments, &session)?;
    let mut signals = Signals::new()?;
    let mut lines = lines_of(stdin);
    let mut connection = Connection {
        server: &server,
        session: &session,
        calls: FuturesUnordered::new(),
        cancels: HashMap::new(),
    };
    let mut is_open = true;
    // After the end of the input, calls that were received are answered.
    while is_open || !connection.calls.is_empty() {
        tokio::select! {
            biased;
            () = signals.next() => break,
            () = closed() => break,
            Some(id) = connection.calls.next(), if !connection.calls.is_empty() => {
                connection.cancels.remove(&id);
            }
            line = lines.recv(), if is_open => match line {
                Some(Line::Message(line)) => connection.receive(&line)?,
                Some(Line::TooLong) => {
                    let problem = "a message has at most 4 MiB; a file is given by its path or URL";
                    connection.fail(Value::Null, INVALID_REQUEST, problem)?;
                }
                None => is_open = false,
            },
        }
        if session.output.is_closed() {
            break;
        }
    }
    Ok(())
}

enum Line {
    Message(String),
    TooLong,
}

/// The lines of a stream, which a thread reads: a read of standard input cannot be awaited.
fn lines_of(stdin: Box<dyn Read + Send + Sync>) -> mpsc::Receiver<Line> {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    std::thread::spawn(move || {
        let mut stdin = BufReader::new(stdin);
        loop {
            let mut line = Vec::new();
            let read = (&mut stdin).take(MAX_MESSAGE).read_until(b'\n', &mut line);
            let line = match read {
                Ok(_) if line.ends_with(b"\n") => {
                    Line::Message(String::from_utf8_lossy(&line).trim().to_owned())
                }
                Ok(length) if length as u64 == MAX_MESSAGE && stdin.skip_until(b'\n').is_ok() => {
                    Line::TooLong
                }
                // Half a line is what a killed client has left.
                _ => return,
            };
            let is_empty = matches!(&line, Line::Message(text) if text.is_empty());
            if !is_empty && sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

struct Connection<'a> {
    server: &'a Server<'a>,
    session: &'a Session,
    /// The requests that are worked on; each ends with its identifier.
    calls: FuturesUnordered<BoxFuture<'a, String>>,
    cancels: HashMap<String, AbortHandle>,
}

impl Connection<'_> {
    fn receive(&mut self, line: &str) -> Result {
        let message = match serde_json::from_str(line) {
            Ok(Value::Object(message)) => message,
            Ok(_) => return self.fail(Value::Null, INVALID_REQUEST, "a message is an object"),
            Err(_) => return self.fail(Value::Null, PARSE_ERROR, "the message is no JSON"),
        };
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            // This server asks for nothing, so nobody waits for a response.
            if message.contains_key("result") || message.contains_key("error") {
                return Ok(());
            }
            let id = message.get("id").cloned().unwrap_or_default();
            return self.fail(id, INVALID_REQUEST, "a request has a method, which is a text");
        };
        let params = message.get("params").and_then(Value::as_object).cloned().unwrap_or_default();
        let Some(id) = message.get("id").cloned() else {
            let canceled = params.get("requestId").filter(|_| method == "notifications/cancelled");
            if let Some(cancel) = canceled.and_then(|id| self.cancels.remove(&id.to_string())) {
                cancel.abort();
            }
            return Ok(());
        };
        // Another number could not be returned as it was sent.
        if !(id.is_string() || id.is_i64() || id.is_u64()) {
            let problem = "the id must be a string or a whole number below 2^64";
            return self.fail(Value::Null, INVALID_REQUEST, problem);
        }
        if self.cancels.contains_key(&id.to_string()) {
            return self.fail(id, INVALID_REQUEST, "an open request has this id");
        }
        match method {
            "initialize" => self.send(&id, Ok(initialized(&params))),
            "ping" => self.send(&id, Ok(json!({}))),
            "tools/list" | "tools/call" => {
                self.begin(id, method == "tools/call", params);
                Ok(())
            }
            _ => self.fail(id, METHOD_NOT_FOUND, &format!("there is no method {method:?}")),
        }
    }

    fn begin(&mut self, id: Value, is_call: bool, params: Map<String, Value>) {
        let (server, session) = (self.server, self.session);
        let key = id.to_string();
        let answer = async move {
            let result = if is_call { server.call(params).await } else { server.list().await };
            // A client that has gone is noticed by the loop.
            let _ = session.output.data(response(&id, result));
        };
        let (answer, cancel) = abortable(answer);
        self.cancels.insert(key.clone(), cancel);
        self.calls.push(answer.map(|_| key).boxed());
    }

    fn fail(&self, id: Value, code: i32, message: &str) -> Result {
        self.send(&id, Err((code, message.to_owned())))
    }

    fn send(&self, id: &Value, result: Result<Value, Refusal>) -> Result {
        self.session.output.data(response(id, result))
    }
}

fn response(id: &Value, result: Result<Value, Refusal>) -> String {
    let (member, value) = match result {
        Ok(result) => ("result", result),
        Err((code, message)) => ("error", json!({"code": code, "message": message})),
    };
    json!({"jsonrpc": "2.0", "id": id, member: value}).to_string()
}

/// The result of `initialize`: the version of the client if this server knows it.
fn initialized(params: &Map<String, Value>) -> Value {
    let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let version = VERSIONS.into_iter().find(|version| *version == asked).unwrap_or(VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "inferstore", "version": env!("CARGO_PKG_VERSION")},
        "instructions": INSTRUCTIONS,
    })
}
