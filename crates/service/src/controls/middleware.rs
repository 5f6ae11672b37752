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
use crate::api::ROOT;
use crate::clock::Clock;
use crate::http::observe::RequestId;
use crate::http::response::Failure;
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
    fn of(side: Side, request: &Request) -> Self {
        let short = |path: &str| path.strip_prefix(ROOT).unwrap_or(path).to_owned();
        let (method, path) = (request.method().as_str(), request.uri().path());
        let id = request.extensions().get::<RequestId>();
        let (path, pattern, operation) = match side {
            Side::Api => {
                let pattern = request.extensions().get::<MatchedPath>();
                let pattern = pattern.map_or_else(String::new, |pattern| short(pattern.as_str()));
                let operation = Operation::of_api(method, &pattern);
                (short(path), pattern, operation)
            }
            Side::Objects => (path.to_owned(), String::new(), Operation::of_objects(method)),
        };
        Self {
            side,
            method: method.to_owned(),
            path,
            pattern,
            operation,
            request_id: id.map(|id| id.0.clone()).unwrap_or_default(),
        }
    }

    pub(super) fn matches(&self, fault: &Fault) -> bool {
        fault.operation.is_none_or(|wanted| self.operation == Some(wanted))
            && fault.side.is_none_or(|wanted| self.side == wanted)
            && fault.method.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(&self.method))
            && fault.path.as_ref().is_none_or(|wanted| *wanted == self.path || *wanted == self.pattern)
    }
}

impl Tester {
    pub(crate) fn around_routes(self: &Arc<Self>, side: Side, clock: &Clock, routes: Router) -> Router {
        let (tester, clock) = (Arc::clone(self), clock.clone());
        routes.layer(from_fn(move |request: Request, next: Next| {
            let (tester, clock) = (Arc::clone(&tester), clock.clone());
            async move {
                let seen = RequestInfo::of(side, &request);
                tester.around(&clock, &seen, request, |request| next.run(request)).await
            }
        }))
    }

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
