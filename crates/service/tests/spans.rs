//! Spans of requests and of attempts, as a collector receives them.

#[expect(dead_code, reason = "tests of the service need the rest")]
#[path = "it/caller.rs"]
mod caller;
#[expect(dead_code, reason = "tests of nodes need the rest")]
#[path = "it/nodes/support.rs"]
mod support;

use std::collections::BTreeMap;

use inferstore_service::{Config, Service};
use inferstore_wire::{Reaction, Server, until};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as SpanStatus;
use prost::Message as _;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;
use tokio::net::TcpListener;

use support::{Bench, TestResult};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
const CREATE: &str = "POST /api/v1/api-key/model/{id}/task";

/// Spans that wait for the collector at most, and those of an export.
const MAX_QUEUE: usize = 2_048;
const MAX_BATCH: usize = 512;

type Attributes = BTreeMap<String, String>;

/// Span with the attributes of its resource.
struct Received {
    resource: Attributes,
    span: Span,
}

impl Received {
    fn attributes(&self) -> Attributes {
        attributes(&self.span.attributes)
    }

    fn status(&self) -> SpanStatus {
        self.span.status.as_ref().map_or(SpanStatus::Unset, |status| status.code())
    }
}

/// Collector that accepts every export.
struct Collector(Server);

impl Collector {
    fn start() -> Self {
        Self(Server::start(|request| {
            let is_export = request.line() == "POST /v1/traces"
                && request.header("content-type") == Some("application/x-protobuf");
            Reaction::status(if is_export { 200 } else { 400 })
        }))
    }

    fn config(&self) -> Config {
        let mut config = Config::ephemeral();
        config.otlp_endpoint = Some(self.0.origin());
        config.nodes = Some(([127, 0, 0, 1], 0).into());
        config.workers = 0;
        config
    }

    /// Returns the spans so far, by their names.
    fn by_name(&self) -> TestResult<BTreeMap<String, Vec<Received>>> {
        let mut spans = BTreeMap::<_, Vec<_>>::new();
        for request in self.0.requests() {
            for of_resource in ExportTraceServiceRequest::decode(&*request.body)?.resource_spans {
                let resource = of_resource.resource.map(|resource| attributes(&resource.attributes));
                let resource = resource.unwrap_or_default();
                for span in of_resource.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans) {
                    let received = Received { resource: resource.clone(), span };
                    spans.entry(received.span.name.clone()).or_default().push(received);
                }
            }
        }
        Ok(spans)
    }
}

fn attributes(sent: &[KeyValue]) -> Attributes {
    let text = |attribute: &KeyValue| match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(AnyValue::StringValue(text)) => text.clone(),
        Some(AnyValue::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    sent.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Attributes {
    expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Creates a task with a secret in its input and in the query, and with this `traceparent`; returns its identifier.
async fn create(bench: &Bench, trace: Option<&str>) -> TestResult<String> {
    let url = format!("{}/api-key/model/echo/task?token=secret", bench.service.base_url());
    let mut request = bench.http.post(url).header("x-api-key", &bench.key);
    if let Some(trace) = trace {
        request = request.header("traceparent", trace);
    }
    let body = json!({ "say": "secret" }).to_string();
    let response = request.header(CONTENT_TYPE, "application/json").body(body).send().await?;
    let response: serde_json::Value = serde_json::from_str(&response.error_for_status()?.text().await?)?;
    Ok(response["data"]["data"].as_str().ok_or("there is no task")?.to_owned())
}

#[tokio::test]
async fn a_create_and_its_attempts_are_spans_of_the_callers_trace() -> TestResult {
    let collector = Collector::start();
    let bench = Bench::around(Service::start(collector.config()).await?).await?;
    bench.publish("echo").await?;
    let node = bench.register(&["echo"]).await?;
    let task = create(&bench, Some(&format!("00-{TRACE}-{CALLER}-01"))).await?;
    let lease = node.lease(0.0).await?.ok_or("there is no task")?;
    assert_eq!(node.finish(&lease, "done").await?, 200);
    let handed = lease.data["traceparent"].as_str().ok_or("the node gets no trace")?.to_owned();
    let key = bench.key.clone();
    bench.service.shutdown().await;

    let spans = collector.by_name()?;
    let [created] = &spans[CREATE][..] else { return Err("there is one create".into()) };
    let [attempt] = &spans["run echo"][..] else { return Err("there is one attempt".into()) };
    let own = hex(&created.span.span_id);
    assert_eq!(hex(&created.span.trace_id), TRACE);
    assert_eq!(hex(&created.span.parent_span_id), CALLER);
    assert_eq!(created.span.kind(), SpanKind::Server);
    let expected = [
        ("http.request.method", "POST"),
        ("http.response.status_code", "200"),
        ("http.route", "/api/v1/api-key/model/{id}/task"),
    ];
    assert_eq!(created.attributes(), pairs(&expected));
    assert_eq!(created.status(), SpanStatus::Unset);
    assert_eq!(handed, format!("00-{TRACE}-{own}-01"));

    assert_eq!(hex(&attempt.span.trace_id), TRACE);
    assert_eq!(hex(&attempt.span.parent_span_id), own);
    let expected = [
        ("inferstore.task.attempt", "1"),
        ("inferstore.task.id", &*task),
        ("inferstore.task.model", "echo"),
        ("inferstore.task.outcome", "success"),
    ];
    assert_eq!(attempt.attributes(), pairs(&expected));
    for Received { resource, span } in [created, attempt] {
        assert_eq!(resource["service.name"], "inferstore");
        assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
        assert!(span.start_time_unix_nano > 0 && span.start_time_unix_nano <= span.end_time_unix_nano);
    }
    let all = format!("{:?}", spans.values().flatten().map(|received| &received.span).collect::<Vec<_>>());
    assert!(!all.contains("secret") && !all.contains(&key), "{all}");
    assert!(!all.contains("/nodes/"), "the requests of nodes are no spans: {all}");
    Ok(())
}

#[tokio::test]
async fn failures_are_told_apart_and_an_unsampled_trace_has_no_spans() -> TestResult {
    let collector = Collector::start();
    let bench = Bench::around(Service::start(collector.config().with_controls()).await?).await?;
    bench.publish("echo").await?;
    let node = bench.register(&["echo"]).await?;
    let unsampled = format!("00-{TRACE}-{CALLER}-00");
    let mut lease = None;
    for trace in [Some(&*unsampled), None] {
        create(&bench, trace).await?;
        let leased = node.lease(0.0).await?.ok_or("there is no task")?;
        let failure = json!({ "error": { "message": "secret" } });
        assert_eq!(node.of_lease(&leased, "/finish", &failure).await?.0, 200);
        if trace.is_some() {
            assert_eq!(leased.data["traceparent"], unsampled);
        }
        lease = Some(leased);
    }
    let lease = lease.ok_or("there is no task")?;
    assert_eq!(bench.status("/api-key/task/none/detail").await?, 404);
    let fault = inferstore_service::Fault::status(503).on(inferstore_api::operations::GET_BALANCE);
    bench.service.controls()?.add_fault(fault.once())?;
    assert_eq!(bench.status("/api-key/balance").await?, 503);
    bench.service.shutdown().await;

    let spans = collector.by_name()?;
    let [created] = &spans[CREATE][..] else { return Err("the sampled create alone is a span".into()) };
    let [attempt] = &spans["run echo"][..] else { return Err("the sampled attempt alone is a span".into()) };
    assert_eq!(created.span.parent_span_id, b"");
    assert_eq!(attempt.span.trace_id, created.span.trace_id);
    assert_eq!(attempt.span.parent_span_id, created.span.span_id);
    assert_eq!(attempt.attributes()["inferstore.task.id"], lease.task);
    assert_eq!(attempt.attributes()["inferstore.task.outcome"], "failure");
    assert_eq!((attempt.status(), &*attempt.attributes()["error.type"]), (SpanStatus::Error, "failure"));
    let refused = &spans["GET /api/v1/api-key/task/{id}/detail"][0];
    assert_eq!(refused.attributes()["http.response.status_code"], "404");
    assert_eq!((refused.status(), refused.attributes().get("error.type")), (SpanStatus::Unset, None));
    let failed = &spans["GET /api/v1/api-key/balance"][0];
    assert_eq!(failed.attributes()["http.response.status_code"], "503");
    assert_eq!((failed.status(), &*failed.attributes()["error.type"]), (SpanStatus::Error, "503"));
    Ok(())
}

#[tokio::test]
async fn spans_arrive_while_the_service_runs() -> TestResult {
    let collector = Collector::start();
    let bench = Bench::around(Service::start(collector.config()).await?).await?;
    assert_eq!(bench.status("/api-key/balance").await?, 200);
    until("the span of the request has arrived", async || {
        collector.by_name().is_ok_and(|spans| spans.contains_key("GET /api/v1/api-key/balance"))
    })
    .await;
    bench.service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn requests_are_served_while_the_collector_is_away() -> TestResult {
    let closed = TcpListener::bind(("127.0.0.1", 0)).await?.local_addr()?;
    let mut config = Config::ephemeral();
    config.otlp_endpoint = Some(format!("http://{closed}"));
    let bench = Bench::around(Service::start(config).await?).await?;
    for _ in 0..10 {
        assert_eq!(bench.status("/api-key/balance").await?, 200);
    }
    bench.service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_hanging_collector_delays_no_request_and_dropped_spans_are_counted() -> TestResult {
    let hanging = TcpListener::bind(("127.0.0.1", 0)).await?;
    let mut config = Config::ephemeral();
    config.otlp_endpoint = Some(format!("http://{}", hanging.local_addr()?));
    config.operations = Some(([127, 0, 0, 1], 0).into());
    let bench = Bench::around(Service::start(config).await?).await?;
    for _ in 0..MAX_QUEUE + MAX_BATCH + 10 {
        assert_eq!(bench.status("/health").await?, 404);
    }
    let metrics = format!("{}/metrics", bench.service.operations_url().ok_or("there are no metrics")?);
    let metrics = bench.http.get(metrics).send().await?.error_for_status()?.text().await?;
    let dropped = metrics.lines().find_map(|line| line.strip_prefix("inferstore_dropped_spans_total "));
    let dropped: usize = dropped.ok_or("dropped spans are not counted")?.parse()?;
    assert!((10..10 + MAX_BATCH).contains(&dropped), "{dropped}");
    bench.service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn traces_are_below_the_endpoint() -> TestResult {
    for path in ["/otlp", "/otlp/"] {
        let collector = Collector::start();
        let mut config = collector.config();
        config.otlp_endpoint = Some(format!("{}{path}", collector.0.origin()));
        let bench = Bench::around(Service::start(config).await?).await?;
        assert_eq!(bench.status("/api-key/balance").await?, 200);
        bench.service.shutdown().await;
        let lines: Vec<String> = collector.0.requests().iter().map(|request| request.line()).collect();
        assert_eq!(lines, ["POST /otlp/v1/traces"]);
    }
    Ok(())
}

#[tokio::test]
async fn an_endpoint_is_a_base_url_without_secrets() -> TestResult {
    for refused in
        ["collector", "ftp://host", "http://user:hidden@host", "http://host/?key=hidden", "unix:/run/otel"]
    {
        let mut config = Config::ephemeral();
        config.otlp_endpoint = Some(refused.to_owned());
        let Err(error) = Service::start(config).await else { return Err(refused.into()) };
        assert!(error.is_setting() && !error.to_string().contains("hidden"), "{error}");
    }
    Ok(())
}
