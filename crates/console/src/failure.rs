//! Failures: what went wrong, for a page. Errors of the client are redacted by the client.

use std::error::Error as StdError;
use std::iter::successors;
use std::path::Path;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use inferstore::types::TaskId;
use inferstore::{Error, FileErrorKind};
use maud::{Markup, Render, html};

use crate::pages;

/// How long a page waits for the service.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// What went wrong, and what to try.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    title: &'static str,
    pub(crate) text: String,
    hint: &'static str,
    /// Tasks that a lost create may have become.
    candidates: Vec<TaskId>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, title: &'static str, text: impl Into<String>) -> Self {
        Self { status, title, text: text.into(), ..Self::default() }
    }

    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "There is nothing here", what)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error.status() {
            Some(status) if (400..500).contains(&status) => StatusCode::from_u16(status).unwrap_or_default(),
            None if is_refused_here(&error) => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::BAD_GATEWAY,
        };
        let title = match &error {
            Error::Unauthorized(_) => "The service refuses the API key",
            Error::Transport(_) => "The service does not respond",
            Error::OutcomeUnknown(_) => "The response was lost",
            Error::CostLimitExceeded(_) => "The price has changed",
            Error::TaskFailed(_) => "The task failed",
            Error::TaskCanceled(_) => "The task was canceled",
            error if error.is_insufficient_balance() => "The balance does not cover this",
            error if error.is_not_found() => "The service does not know this",
            _ => "This did not work",
        };
        let causes = successors(Some(&error as &dyn StdError), |&cause| cause.source());
        let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        let hint = match &error {
            // The form has no field for the limit: it is the price that the page shows.
            Error::CostLimitExceeded(_) => {
                "run it again at the price that the page of the model shows now, or choose another model; \
                 no task was created"
            }
            error => error.hint(),
        };
        let candidates = match error {
            Error::OutcomeUnknown(unknown) => unknown.candidates,
            _ => Vec::new(),
        };
        Self { candidates, hint, ..Self::new(status, title, text) }
    }
}

/// Whether the client refused what it was given, so that nothing was sent.
fn is_refused_here(error: &Error) -> bool {
    match error {
        Error::InvalidArgument(_) | Error::Inputs(_) | Error::CostLimitExceeded(_) => true,
        Error::File(file) => {
            use FileErrorKind::{Empty, InvalidMimeType, InvalidName};
            matches!(file.kind, Empty | InvalidName | InvalidMimeType)
        }
        _ => false,
    }
}

/// The error with the name of the file in place of the path of its temporary copy.
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

/// Waits for the service, and not for ever.
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
                h2 { (self.title) }
                p { (self.text) }
                @if !self.candidates.is_empty() {
                    p { "The client found these tasks in the history; one of them may be this run:" }
                    ul { @for task in &self.candidates {
                        li { a href={ "/tasks/" (pages::segment(task.as_str())) } { (task.as_str()) } }
                    } }
                }
                @if !self.hint.is_empty() { p.hint { "What to try: " (self.hint) "." } }
            }
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, pages::page(self.title, "", html! { h1.hidden { "Problem" } (self) })).into_response()
    }
}
