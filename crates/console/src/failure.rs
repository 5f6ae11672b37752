//! Failures as pages. The client redacts its errors.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use inferstore::types::TaskId;
use inferstore::{Error, ErrorKind};
use maud::{Markup, Render, html};

use crate::parts::page_that_reloads;
use crate::text::{Words, segment, word};

const SERVICE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    title: &'static str,
    pub(crate) text: String,
    hint: &'static str,
    detail: Option<Box<str>>,
    /// True if the page reloads until the service responds.
    retries: bool,
    /// Page with the form whose request failed.
    back: Option<Box<str>>,
    candidates: Vec<TaskId>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, title: &'static str, text: impl Into<String>) -> Self {
        Self { status, title, text: text.into(), ..Self::default() }
    }

    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    /// Leads back from the failure of a form: its address is no page to try again.
    pub(crate) fn after(self, method: &Method, path: &str) -> Self {
        let page = path.trim_end_matches("/delete").trim_end_matches("/cancel");
        let page = if path.starts_with("/account/") { "/account" } else { page };
        let back = (method == Method::POST).then(|| page.into());
        Self { retries: self.retries && back.is_none(), back, ..self }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "There is nothing here", what)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = error.kind();
        let title = match kind {
            ErrorKind::Unauthorized => "The service refuses the API key",
            ErrorKind::NoResponse => "The service does not respond",
            ErrorKind::OutcomeUnknown => "The response was lost",
            ErrorKind::CostLimitExceeded => "The price has changed",
            ErrorKind::TaskFailed => "The task failed",
            ErrorKind::TaskCanceled => "The task was canceled",
            ErrorKind::InsufficientBalance => "The balance does not cover this",
            ErrorKind::NotFound => "The service does not know this",
            _ => "This did not work",
        };
        let status = match error.status() {
            Some(status @ 400..500) => StatusCode::from_u16(status).unwrap_or_default(),
            None if matches!(kind, ErrorKind::InvalidInput | ErrorKind::CostLimitExceeded) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            _ => StatusCode::BAD_GATEWAY,
        };
        let hint = match kind {
            // The form has no field for the limit: the limit is the price on the page.
            ErrorKind::CostLimitExceeded => "run it at the price that its page shows now",
            _ => error.hint(),
        };
        let full = error.with_causes();
        let said = match &error {
            Error::Api(context) => context.message.clone().filter(|text| !text.is_empty()),
            Error::Transport(_) => Some("No response came from its address.".to_owned()),
            Error::TaskFailed(failure) => failure.message.clone(),
            _ => None,
        };
        let text = said.unwrap_or_else(|| full.clone());
        let detail = Some(full).filter(|full| *full != text).map(Into::into);
        let retries = kind == ErrorKind::NoResponse;
        let candidates = error.candidates().to_vec();
        Self { candidates, hint, detail, retries, ..Self::new(status, title, text) }
    }
}

/// Replaces the path of a temporary copy in an error by the name of the file.
pub(crate) fn named(mut error: Error, name: &str) -> Error {
    if let Error::File(file) = &mut error
        && Path::new(&file.file).is_absolute()
    {
        name.clone_into(&mut file.file);
    }
    error
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let text = format!("The console cannot keep a file: {error}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "This machine refuses", text)
    }
}

/// Parses a query parameter. An invalid value is an error: otherwise the page would not match its address.
pub(crate) fn parsed<T: FromStr>(query: &Words, name: &str) -> Result<Option<T>> {
    let word = word(query, name);
    if word.is_empty() {
        return Ok(None);
    }
    let unknown = || Failure::not_found(&format!("The address has an unknown value: {name}={word}."));
    word.parse().map(Some).map_err(|_| unknown())
}

pub(crate) async fn within<T>(call: impl Future<Output = Result<T, Error>> + Send) -> Result<T> {
    match tokio::time::timeout(SERVICE_TIMEOUT, call).await {
        Ok(result) => result.map_err(Failure::from),
        Err(_) => {
            let text = format!("It did not respond within {} s.", SERVICE_TIMEOUT.as_secs());
            Err(Failure::new(StatusCode::GATEWAY_TIMEOUT, "The service does not respond", text))
        }
    }
}

impl Render for Failure {
    fn render(&self) -> Markup {
        html! {
            div.failure role="alert" {
                h2 { span.hidden { "Error: " } (self.title) }
                p { (self.text) }
                @if !self.candidates.is_empty() {
                    p { "The client found these tasks in the history; one of them may be this run:" }
                    ul { @for task in &self.candidates { li { a href={ "/tasks/" (segment(task.as_str())) } { (task.as_str()) } } } }
                }
                @if !self.hint.is_empty() {
                    p.hint { "What to try: " @for (index, part) in self.hint.split('`').enumerate() { @if index % 2 == 1 { code { (part) } } @else { (part) } } "." }
                }
                @if let Some(detail) = &self.detail { details { summary { "Details" } p { (detail) } } }
            }
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = html! {
            h1.hidden { "Problem" }
            div data-retry[self.retries] {
                (self)
                @if self.retries { p.muted { "This page tries again every two seconds." } }
                @if let Some(back) = &self.back {
                    // The form of a run begins one as its last step.
                    @if back.starts_with("/models/") { p { "Nothing was started." } }
                    @else if self.status.is_server_error() { p { "Whether this was done is unknown." } }
                    p { a.button href=(back) { "Back" } }
                }
            }
        };
        let title = format!("Error: {}", self.title);
        let page = page_that_reloads(&title, "", self.retries.then_some(5), body);
        (self.status, page).into_response()
    }
}
