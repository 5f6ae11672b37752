//! `inferstore api`.

use std::io::{ErrorKind, Read};

use clap::Args;
use inferstore::reqwest::{Method, Url};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::exit;
use crate::failure::{Failure, Result};
use crate::lists::MAX_PAGE;
use crate::settings::Session;
use crate::values;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// GET, POST, PUT, PATCH or DELETE, and the path below the base URL, such as /api-key/balance
    #[arg(required = true, num_args = 1..=2, value_name = "[METHOD] PATH")]
    words: Vec<String>,
    /// A JSON body, or @FILE, or @- for standard input
    #[arg(long, value_name = "JSON|@FILE")]
    body: Option<String>,
    /// A field of the body, or of the query of a GET; numbers, true, false and null are JSON, the rest is text
    #[arg(short, long = "field", value_name = "NAME=VALUE", value_parser = values::field, conflicts_with = "body")]
    fields: Vec<(String, String)>,
    /// Read all pages of a list, and print the response of each
    #[arg(long)]
    paginate: bool,
}

/// The largest file that is read from standard input: it is kept in memory.
const MAX_STDIN: u64 = 256 * 1024 * 1024;

const EXAMPLES: &str = "\
Examples:
  inferstore api /api-key/balance
  inferstore api POST /api-key/model/list -f limit=3 -f sort=likes
  inferstore api /api-key/task/histories --paginate --jq '.data.records[].task_id'
  inferstore api DELETE /api-key/storage/store/url --body @file.json";

pub(crate) async fn execute(arguments: Arguments, mut session: Session) -> Result {
    let Arguments { mut words, body, fields, paginate } = arguments;
    let path = words.pop().unwrap_or_default();
    let method = words.pop().map(|method| values::method(&method)).transpose();
    let method = method.map_err(|problem| {
        Failure::usage(problem).with_hint("such as: inferstore api GET /api-key/balance")
    })?;
    let path = if path.starts_with('/') { path } else { format!("/{path}") };
    if path.contains("://") {
        return Err(Failure::usage(format!("{path:?} is no path"))
            .with_hint("paths are relative to the base URL, such as /api-key/balance"));
    }
    if session.output.has_fields() {
        return Err(Failure::usage("a response is printed as it came, with all of its fields")
            .with_hint("--jq chooses among them, such as --jq '.data.balance'"));
    }
    let body = body.map(|body| read_body(&body, &mut session)).transpose()?;
    let has_body = body.is_some() || !fields.is_empty();
    let is_guessed = method.is_none() && has_body;
    let method = method.unwrap_or(if has_body { Method::POST } else { Method::GET });
    let mut request = Request { method, path, body, fields };
    if paginate && ["offset", "page"].iter().any(|name| request.has_field(name)) {
        return Err(Failure::usage("--paginate begins at the first page")
            .with_hint("leave out offset or page; limit or pageSize may be given"));
    }
    let client = session.client()?;
    // The document and other tools write the path from the host.
    let base = Url::parse(client.base_url()).ok();
    let base = base.as_ref().map_or("/", Url::path).trim_end_matches('/');
    if let Some(rest) = request.path.strip_prefix(base).filter(|rest| rest.starts_with('/')) {
        request.path = rest.to_owned();
    }
    let mut page = Page::default();
    loop {
        let (path, body) = request.of_page(paginate.then_some(&page))?;
        let response = client.request(request.method.clone(), path, body).await.map_err(|error| {
            // As it came, but for secrets. The failure itself is reported either way.
            let context = error.context();
            let body = context.and_then(|context| context.excerpt.as_deref());
            let _ = body.map(|body| session.output.data(body));
            let is_other_method = is_guessed && context.and_then(|context| context.status) == Some(405);
            let hint = "fields make it a POST; for a query: inferstore api GET PATH -f …";
            Failure::from(error).or_hint(is_other_method.then_some(hint))
        })?;
        session.output.response(response.trim_end(), request.method == Method::GET)?;
        if !paginate || !page.advance(&response) {
            return Ok(());
        }
    }
}

struct Request {
    method: Method,
    path: String,
    body: Option<Box<RawValue>>,
    fields: Vec<(String, String)>,
}

impl Request {
    fn has_field(&self, name: &str) -> bool {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        let in_query = query.split('&').filter_map(|pair| pair.split_once('='));
        let given = self.fields.iter().map(|(field, _)| field.as_str());
        let body = self.body.as_ref().and_then(|body| body.get().parse::<Value>().ok());
        let is_in_body = body.is_some_and(|body| body.get(name).is_some());
        is_in_body || in_query.map(|(field, _)| field).chain(given).any(|field| field == name)
    }

    fn of_page(&self, page: Option<&Page>) -> Result<(String, Option<Box<RawValue>>)> {
        let mut fields: Vec<(String, String)> = self.fields.clone();
        if let Some(page) = page {
            let paging = match self.path.contains("/storage/upload/") {
                true => [("page", page.number + 1), ("pageSize", MAX_PAGE.into())],
                false => [("offset", page.records), ("limit", MAX_PAGE.into())],
            };
            let paging = paging.into_iter().filter(|(name, _)| !self.has_field(name));
            fields.extend(paging.map(|(name, value)| (name.to_owned(), value.to_string())));
        }
        if fields.is_empty() {
            return Ok((self.path.clone(), self.body.clone()));
        }
        if self.method == Method::GET {
            let joint = if self.path.contains('?') { '&' } else { '?' };
            // The host stands for any: a query is encoded alike everywhere.
            let url = Url::parse_with_params("http://host", fields).ok();
            let query = url.as_ref().and_then(Url::query).unwrap_or_default();
            return Ok((format!("{}{joint}{query}", self.path), self.body.clone()));
        }
        let body = self.body.as_ref().map_or(Ok(Map::new()), |body| serde_json::from_str(body.get()));
        let mut body = body.map_err(|_| not_read("the body of a list is not an object".to_owned()))?;
        for (name, value) in fields {
            let is_json = serde_json::from_str(&value).ok().filter(|value: &Value| !value.is_string());
            body.insert(name, is_json.unwrap_or(Value::String(value)));
        }
        let body = serde_json::value::to_raw_value(&body)
            .map_err(|error| not_read(format!("the body is not JSON: {error}")))?;
        Ok((self.path.clone(), Some(body)))
    }
}

#[derive(Default)]
struct Page {
    number: u64,
    records: u64,
}

impl Page {
    /// Goes to the next page; `false` after the last one.
    fn advance(&mut self, response: &str) -> bool {
        let response: Value = serde_json::from_str(response).unwrap_or_default();
        let data = &response["data"];
        let records = data["records"].as_array().or(data["files"].as_array());
        let count = records.map_or(0, Vec::len) as u64;
        self.number += 1;
        self.records += count;
        count > 0 && data["total"].as_u64().is_none_or(|total| self.records < total)
    }
}

fn read_body(given: &str, session: &mut Session) -> Result<Box<RawValue>> {
    let file = given.strip_prefix('@').map(|path| text_of(path, session));
    let text = file.unwrap_or_else(|| Ok(given.to_owned()))?;
    serde_json::from_str(&text).map_err(|error| not_read(format!("the body is not JSON: {error}")))
}

/// The text of a file, or of standard input for `-`.
pub(crate) fn text_of(path: &str, session: &mut Session) -> Result<String> {
    let read = match path {
        "-" => {
            let mut text = String::new();
            session.environment.stdin.read_to_string(&mut text).map(|_| text)
        }
        path => std::fs::read_to_string(session.here(path)),
    };
    read.map_err(|error| {
        let failure = not_read(format!("{} cannot be read: {error}", place_of(path)));
        match error.kind() {
            ErrorKind::InvalidData => failure.with_hint("save it as UTF-8; nothing was sent"),
            _ => failure,
        }
    })
}

pub(crate) fn read_stdin(session: &mut Session) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    let read = (&mut session.environment.stdin).take(MAX_STDIN + 1).read_to_end(&mut content);
    read.map_err(|error| not_read(format!("standard input cannot be read: {error}")))?;
    if content.len() as u64 > MAX_STDIN {
        return Err(not_read("standard input has more than 256 MiB; give a file".to_owned()));
    }
    Ok(content)
}

pub(crate) fn place_of(path: &str) -> &str {
    if path == "-" { "standard input" } else { path }
}

pub(crate) fn not_read(problem: String) -> Failure {
    Failure::new(exit::INPUT, problem).with_hint("correct it and try again; nothing was sent")
}
