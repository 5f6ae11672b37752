//! Middleware around the API and the object store that applies faults and writes the journal.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue, Response};
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use inferstore_server::HangUp;

use super::{Effect, Fault, Operation, Side, Tester};
use crate::api::{Failure, ROOT, RequestId};
use crate::clock::Clock;
use crate::lifecycle::app::App;
use crate::object_storage::{Code, S3Error};

pub(super) struct RequestInfo {
    pub(super) side: Side,
    pub(super) method: String,
    /// Path without `/api/v1` and without the query.
    pub(super) path: String,
    pattern: String,
    pub(super) operation: Option<Operation>,
    pub(super) request_id: String,
}

impl RequestInfo {
    fn at_the_api(request: &Request) -> Self {
        let short = |path: &str| path.strip_prefix(ROOT).unwrap_or(path).to_owned();
        let pattern = request.extensions().get::<MatchedPath>();
        let pattern = pattern.map_or_else(String::new, |pattern| short(pattern.as_str()));
        let id = request.extensions().get::<RequestId>();
        Self {
            side: Side::Api,
            method: request.method().to_string(),
            path: short(request.uri().path()),
            operation: Operation::of_api(request.method().as_str(), &pattern),
            pattern,
            request_id: id.map(|id| id.0.clone()).unwrap_or_default(),
        }
    }

    fn at_the_objects(id: &str, request: &Request) -> Self {
        Self {
            side: Side::Objects,
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            pattern: String::new(),
            operation: Operation::of_objects(request.method().as_str()),
            request_id: id.to_owned(),
        }
    }

    pub(super) fn matches(&self, fault: &Fault) -> bool {
        fault.operation.is_none_or(|wanted| self.operation == Some(wanted))
            && fault.side.is_none_or(|wanted| self.side == wanted)
            && fault.method.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(&self.method))
            && fault.path.as_ref().is_none_or(|wanted| *wanted == self.path || *wanted == self.pattern)
    }
}

/// Adds the middleware of faults and journal to the API, if the controls are on.
pub(crate) fn around_the_api(routes: Router<Arc<App>>, app: &Arc<App>) -> Router<Arc<App>> {
    let Some(tester) = app.tester.clone() else { return routes };
    let clock = app.clock.clone();
    routes.layer(from_fn(move |request: Request, next: Next| {
        let (tester, clock) = (Arc::clone(&tester), clock.clone());
        async move {
            let seen = RequestInfo::at_the_api(&request);
            tester.around(&clock, &seen, request, |request| next.run(request)).await
        }
    }))
}

/// Applies faults and journal to a request to the object store, if the controls are on.
pub(crate) async fn around_objects<F: Future<Output = Response<Body>> + Send>(
    app: &App,
    id: &str,
    request: Request,
    respond: impl FnOnce(Request) -> F + Send,
) -> Response<Body> {
    let Some(tester) = &app.tester else { return respond(request).await };
    let seen = RequestInfo::at_the_objects(id, &request);
    tester.around(&app.clock, &seen, request, respond).await
}

impl Tester {
    async fn around<F: Future<Output = Response<Body>> + Send>(
        &self,
        clock: &Clock,
        seen: &RequestInfo,
        request: Request,
        respond: impl FnOnce(Request) -> F + Send,
    ) -> Response<Body> {
        let number = self.journal.begin(seen, clock.now().to_string());
        let response = match self.faults.meet(seen) {
            None => respond(request).await,
            Some((id, fault)) => {
                self.journal.note(number, |entry| {
                    (entry.fault, entry.effect) = (Some(id), Some(fault.effect));
                });
                fault.happen(seen, request, respond).await
            }
        };
        if response.extensions().get::<HangUp>().is_none() {
            self.journal.note(number, |entry| entry.status = Some(response.status().as_u16()));
        }
        response
    }
}

impl Fault {
    async fn happen<F: Future<Output = Response<Body>> + Send>(
        &self,
        seen: &RequestInfo,
        request: Request,
        respond: impl FnOnce(Request) -> F + Send,
    ) -> Response<Body> {
        match self.effect {
            Effect::Delay if self.after_commit => {
                let response = respond(request).await;
                self.wait().await;
                response
            }
            Effect::Delay => {
                self.wait().await;
                respond(request).await
            }
            Effect::Status if self.after_commit => {
                drop(respond(request).await);
                self.wait().await;
                self.response(seen)
            }
            Effect::Status => {
                // `DrainOnDrop` reads the rest of the body.
                drop(request);
                self.wait().await;
                self.response(seen)
            }
            Effect::HangUp => {
                self.wait().await;
                hang_up()
            }
            Effect::LoseResponse => {
                drop(respond(request).await);
                self.wait().await;
                hang_up()
            }
            Effect::CutBody | Effect::DripBody | Effect::SetField => {
                let response = respond(request).await;
                self.wait().await;
                self.corrupt_body(response).await
            }
        }
    }

    async fn wait(&self) {
        if let Some(delay) = self.delay_ms {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
    }

    /// Builds the response of a status fault, in the format of the API or of S3, unless the fault has its own body.
    fn response(&self, seen: &RequestInfo) -> Response<Body> {
        let message = self.message.clone().unwrap_or_else(|| "a tester wanted this".to_owned());
        let mut response = match (&self.body, seen.side) {
            (Some(body), _) => (self.code(), body.clone()).into_response(),
            (None, Side::Api) => Failure::new(self.code(), message).into_response(),
            (None, Side::Objects) => {
                let code = match self.code().as_u16() {
                    400 => Code::InvalidRequest,
                    403 => Code::AccessDenied,
                    404 => Code::NoSuchKey,
                    503 => Code::SlowDown,
                    _ => Code::InternalError,
                };
                let mut response = S3Error::new(code, message).respond(&seen.request_id);
                *response.status_mut() = self.code();
                response
            }
        };
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert("retry-after", seconds.into());
        }
        for (name, value) in &self.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                headers.insert(name, value);
            }
        }
        response
    }
}

fn hang_up() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(HangUp);
    response
}
