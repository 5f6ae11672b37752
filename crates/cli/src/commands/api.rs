//! `inferstore api`.

use std::io::Read;

use clap::Args;
use inferstore::reqwest::Method;
use serde_json::value::RawValue;

use crate::exit;
use crate::failure::{Failure, Result};
use crate::settings::Session;
use crate::values;

/// Send any request to the service, and print the answer as it came
///
/// The path is relative to the base URL. A GET is repeated like every read; everything else is sent
/// once, because its effect is unknown.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// GET, POST, PUT, PATCH or DELETE
    #[arg(value_parser = values::method)]
    method: Method,
    /// The path below the base URL, such as /api-key/balance
    path: String,
    /// A JSON body, or @FILE, or @- for standard input
    #[arg(long, value_name = "JSON|@FILE")]
    body: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  inferstore api GET /api-key/balance
  inferstore api POST /api-key/model/list --body '{\"limit\": 3}'
  inferstore api DELETE /api-key/storage/store/url --body @file.json";

pub(crate) async fn execute(arguments: Arguments, mut session: Session) -> Result {
    let Arguments { method, path, body } = arguments;
    if !path.starts_with('/') {
        return Err(Failure::usage(format!("the path {path:?} does not begin with a slash"))
            .with_hint("paths are relative to the base URL, such as /api-key/balance"));
    }
    let body = body.map(|body| read_body(&body, &mut session)).transpose()?;
    let answer = session.client()?.request(method, path, body).await?;
    session.output.data(answer.trim_end())
}

fn read_body(given: &str, session: &mut Session) -> Result<Box<RawValue>> {
    let text = match given.strip_prefix('@') {
        None => given.to_owned(),
        Some(path) => text_of(path, session)?,
    };
    serde_json::from_str(&text).map_err(|error| not_read(format!("the body is not JSON: {error}")))
}

/// The text of a file, or of standard input for `-`.
pub(crate) fn text_of(path: &str, session: &mut Session) -> Result<String> {
    let read = match path {
        "-" => {
            let mut text = String::new();
            session.environment.stdin.read_to_string(&mut text).map(|_| text)
        }
        path => std::fs::read_to_string(session.environment.folder.join(path)),
    };
    read.map_err(|error| not_read(format!("{path} cannot be read: {error}")))
}

/// Something that was to be sent cannot be.
pub(crate) fn not_read(problem: String) -> Failure {
    Failure::new(exit::INPUT, problem).with_hint("correct it and try again; nothing was sent")
}
