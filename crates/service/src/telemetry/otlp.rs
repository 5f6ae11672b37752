//! Export of spans to an OpenTelemetry collector, by OTLP over HTTP. A bounded queue and one background task: a span
//! that finds the queue full is dropped and counted, so that no request waits for the collector.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use axum::http::{Method, StatusCode};
use inferstore_fetch::over_ring;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use super::outcome::SUCCESS;
use crate::metrics::label;
use crate::{Error, Result};

const MAX_QUEUE: usize = 2_048;

const MAX_BATCH: usize = 512;

const BATCH_DELAY: Duration = Duration::from_millis(200);

/// Timeout of an export, its retries included.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Path of traces below the endpoint (OTLP/HTTP).
const TRACES: &str = "v1/traces";

pub(crate) fn check_endpoint(endpoint: Option<&str>) -> Result<()> {
    endpoint.map_or(Ok(()), |endpoint| traces_url(endpoint).map(|_| ()))
}

fn traces_url(endpoint: &str) -> Result<Url> {
    let refused = |cause: String| Error::setting("reading the OTLP endpoint", cause);
    let mut url = Url::parse(endpoint).map_err(|cause| refused(cause.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(refused("it is a URL like http://127.0.0.1:4318".to_owned()));
    }
    if url.query().is_some() || !url.username().is_empty() || url.password().is_some() {
        let cause = "it has no query and no password; OTEL_EXPORTER_OTLP_HEADERS holds secrets";
        return Err(refused(cause.to_owned()));
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    url.join(TRACES).map_err(|cause| refused(cause.to_string()))
}

/// Spans of this process, on their way to the collector; without an endpoint, nothing is recorded.
pub(crate) struct Spans {
    export: Option<Export>,
}

struct Export {
    queue: mpsc::Sender<SpanData>,
    dropped: Counter,
    scope: InstrumentationScope,
    stop: CancellationToken,
    running: TaskTracker,
}

impl Spans {
    /// Starts the export to this endpoint. The export ends with `flush`, or when the value is dropped.
    pub(crate) fn start(endpoint: Option<&str>, dropped: &Counter) -> Result<Self> {
        let Some(endpoint) = endpoint else { return Ok(Self { export: None }) };
        let (queue, spans) = mpsc::channel(MAX_QUEUE);
        let stop = CancellationToken::new();
        let running = TaskTracker::new();
        let exporter = exporter(&traces_url(endpoint)?)?;
        running.spawn(export_all(exporter, spans, stop.clone(), dropped.clone()));
        running.close();
        let scope =
            InstrumentationScope::builder("inferstore").with_version(env!("CARGO_PKG_VERSION")).build();
        let export = Export { queue, dropped: dropped.clone(), scope, stop, running };
        Ok(Self { export: Some(export) })
    }

    /// Returns the context of a new span; the caller's context if its trace is not sampled, or without an export.
    pub(crate) fn request_context(&self, caller: Option<&str>) -> Option<String> {
        let parent = caller.and_then(context);
        match &self.export {
            Some(_) if parent.as_ref().is_none_or(SpanContext::is_sampled) => {
                Some(traceparent(&child(parent.as_ref())))
            }
            _ => caller.map(str::to_owned),
        }
    }

    /// Records a request with the caller's context, and the one that `request_context` returned for it.
    pub(crate) fn request_ended(
        &self,
        (caller, own): (Option<&str>, Option<&str>),
        method: &Method,
        route: Option<&str>,
        status: StatusCode,
        elapsed: Duration,
    ) {
        let Some(export) = &self.export else { return };
        let Some(own) = own.filter(|_| own != caller).and_then(context) else { return };
        let method = match label(method) {
            "other" => "_OTHER",
            known => known,
        };
        let mut span = export.span(own, caller.and_then(context).as_ref(), SpanKind::Server, elapsed);
        span.attributes = vec![
            KeyValue::new("http.request.method", method),
            KeyValue::new("http.response.status_code", i64::from(status.as_u16())),
        ];
        span.name = Cow::Borrowed(method);
        if let Some(route) = route {
            span.name = Cow::Owned(format!("{method} {route}"));
            span.attributes.push(KeyValue::new("http.route", route.to_owned()));
        }
        if status.is_server_error() {
            span.attributes.push(KeyValue::new("error.type", status.as_str().to_owned()));
            span.status = Status::error("");
        }
        export.record(span);
    }

    /// Records an attempt to run a task, from its lease to its end, in the trace of the task's create.
    pub(crate) fn attempt_ended(
        &self,
        traceparent: Option<&str>,
        (task, attempt): (&str, i64),
        model: &str,
        outcome: &'static str,
        elapsed: Duration,
    ) {
        let Some(export) = &self.export else { return };
        let parent = traceparent.and_then(context);
        if parent.as_ref().is_some_and(|parent| !parent.is_sampled()) {
            return;
        }
        let mut span = export.span(child(parent.as_ref()), parent.as_ref(), SpanKind::Consumer, elapsed);
        span.name = Cow::Owned(format!("run {model}"));
        span.attributes = vec![
            KeyValue::new("inferstore.task.id", task.to_owned()),
            KeyValue::new("inferstore.task.model", model.to_owned()),
            KeyValue::new("inferstore.task.attempt", attempt),
            KeyValue::new("inferstore.task.outcome", outcome),
        ];
        if outcome != SUCCESS {
            span.attributes.push(KeyValue::new("error.type", outcome));
            span.status = Status::error("");
        }
        export.record(span);
    }

    pub(crate) async fn flush(&self) {
        let Some(export) = &self.export else { return };
        export.stop.cancel();
        if tokio::time::timeout(FLUSH_TIMEOUT, export.running.wait()).await.is_err() {
            tracing::warn!("the last spans are not exported: the collector does not respond in time");
        }
    }
}

impl Export {
    fn span(
        &self,
        context: SpanContext,
        parent: Option<&SpanContext>,
        kind: SpanKind,
        elapsed: Duration,
    ) -> SpanData {
        let end = SystemTime::now();
        SpanData {
            span_context: context,
            parent_span_id: parent.map_or(SpanId::INVALID, SpanContext::span_id),
            parent_span_is_remote: parent.is_some(),
            span_kind: kind,
            name: Cow::Borrowed(""),
            start_time: end.checked_sub(elapsed).unwrap_or(end),
            end_time: end,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }

    fn record(&self, span: SpanData) {
        if self.queue.try_send(span).is_err() {
            self.dropped.inc();
        }
    }
}

fn context(traceparent: &str) -> Option<SpanContext> {
    let mut parts = traceparent.split('-').skip(1);
    let trace = TraceId::from_hex(parts.next()?).ok()?;
    let span = SpanId::from_hex(parts.next()?).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(parts.next()?, 16).ok()?);
    Some(SpanContext::new(trace, span, flags, true, TraceState::NONE))
}

fn traceparent(context: &SpanContext) -> String {
    format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), context.trace_flags().to_u8())
}

fn child(parent: Option<&SpanContext>) -> SpanContext {
    let trace =
        parent.map_or_else(|| TraceId::from_bytes(fastrand::u128(1..).to_be_bytes()), SpanContext::trace_id);
    let span = SpanId::from_bytes(fastrand::u64(1..).to_be_bytes());
    SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::NONE)
}

fn exporter(url: &Url) -> Result<SpanExporter> {
    let failed = |cause: String| Error::new("preparing the export of spans", cause);
    let http = over_ring(reqwest::Client::builder())
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(EXPORT_TIMEOUT)
        .build()
        .map_err(|cause| failed(cause.to_string()))?;
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(http)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(url.as_str())
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .map_err(|cause| failed(cause.to_string()))?;
    // `OTEL_RESOURCE_ATTRIBUTES` can add attributes, such as the environment.
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    exporter
        .set_resource(&Resource::builder().with_service_name("inferstore").with_attribute(version).build());
    Ok(exporter)
}

/// Exports the queued spans in batches until the stop or the end of the queue, and then those that are left.
async fn export_all(
    exporter: SpanExporter,
    mut spans: mpsc::Receiver<SpanData>,
    stop: CancellationToken,
    dropped: Counter,
) {
    let mut batch = Vec::new();
    let mut is_failing = false;
    loop {
        tokio::select! {
            count = spans.recv_many(&mut batch, MAX_BATCH) => if count == 0 { return },
            () = stop.cancelled(), if !spans.is_closed() => {
                spans.close();
                continue;
            }
        }
        if batch.len() < MAX_BATCH {
            stop.run_until_cancelled(tokio::time::sleep(BATCH_DELAY)).await;
        }
        while batch.len() < MAX_BATCH
            && let Ok(span) = spans.try_recv()
        {
            batch.push(span);
        }
        let count = batch.len();
        let exported = exporter.export(std::mem::take(&mut batch)).await;
        // The log has one line for an outage of the collector, and one for its end.
        match &exported {
            Err(cause) if !is_failing => tracing::warn!(%cause, "spans are dropped: the collector fails"),
            Ok(()) if is_failing => tracing::info!("spans are exported again"),
            _ => {}
        }
        is_failing = exported.is_err();
        if is_failing {
            dropped.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
        }
    }
}
