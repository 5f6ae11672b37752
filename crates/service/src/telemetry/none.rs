//! No export of spans: the build lacks the feature `otel`.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus_client::metrics::counter::Counter;

use crate::{Error, Result};

pub(crate) fn check_endpoint(endpoint: Option<&str>) -> Result<()> {
    match endpoint {
        None => Ok(()),
        Some(_) => {
            let cause = "this build has no OpenTelemetry export; build with --features otel";
            Err(Error::setting("reading the settings", cause))
        }
    }
}

pub(crate) struct Spans;

impl Spans {
    pub(crate) fn start(_endpoint: Option<&str>, _dropped: &Counter) -> Result<Self> {
        Ok(Self)
    }

    pub(crate) fn request_context(&self, caller: Option<&str>) -> Option<String> {
        caller.map(str::to_owned)
    }

    pub(crate) fn request_ended(
        &self,
        _contexts: (Option<&str>, Option<&str>),
        _method: &Method,
        _route: Option<&str>,
        _status: StatusCode,
        _elapsed: Duration,
    ) {
    }

    pub(crate) fn attempt_ended(
        &self,
        _traceparent: Option<&str>,
        _task_attempt: (&str, i64),
        _model: &str,
        _outcome: &'static str,
        _elapsed: Duration,
    ) {
    }

    pub(crate) async fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use crate::{Config, Error, Service};

    #[tokio::test]
    async fn an_endpoint_is_refused_with_the_reason() -> Result<(), Error> {
        let mut config = Config::ephemeral();
        config.otlp_endpoint = Some("http://127.0.0.1:4318".to_owned());
        let refused = Service::start(config).await.err();
        let is_refused = |error: &Error| error.is_setting() && error.to_string().contains("--features otel");
        assert!(refused.as_ref().is_some_and(is_refused), "{refused:?}");
        Ok(())
    }
}
