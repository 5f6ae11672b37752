//! Trace context of a create: sent to the node of its task, and written to the log.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tracing_subscriber::fmt::MakeWriter;

use super::support::{Bench, TestResult};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines_with(&self, text: &str) -> Vec<String> {
        let log = self.0.lock();
        let log = String::from_utf8_lossy(&log).into_owned();
        log.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

async fn create(bench: &Bench, traces: &[&str]) -> TestResult {
    let url = format!("{}/api-key/model/echo/task", bench.service.base_url());
    let mut request = bench.http.post(url).header("x-api-key", &bench.key);
    for trace in traces {
        request = request.header("traceparent", *trace);
    }
    let body = json!({ "say": "hello" }).to_string();
    request.header(CONTENT_TYPE, "application/json").body(body).send().await?.error_for_status()?;
    Ok(())
}

#[tokio::test]
async fn the_trace_of_a_create_goes_to_its_node_and_into_the_log() -> TestResult {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // With a single subscriber, tracing caches the interest of the first thread that reaches an event, perhaps of a
    // test without a subscriber. A second dispatch prevents this.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let bench = Bench::start().await?;
    bench.publish("echo").await?;
    let node = bench.register(&["echo"]).await?;
    create(&bench, &[TRACE]).await?;
    let lease = node.lease(0.0).await?.ok_or("there is no task")?;
    assert_eq!(lease.data["traceparent"], TRACE);
    let ended = node.of_lease(&lease, "/finish", &json!({ "error": { "message": "none" } })).await?;
    assert_eq!(ended.0, 200);
    for line in ["a node has leased a task", "a task has ended", "/api-key/model/{id}/task"] {
        let lines = log.lines_with(line);
        assert!(lines.len() == 1 && lines[0].contains(TRACE), "{line}: {lines:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_trace_that_is_not_valid_is_ignored() -> TestResult {
    let bench = Bench::start().await?;
    bench.publish("echo").await?;
    let node = bench.register(&["echo"]).await?;
    let upper = TRACE.to_uppercase();
    let zero = TRACE.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32));
    let without_parent = TRACE.replace("b7ad6b7169203331", &"0".repeat(16));
    let unknown = TRACE.replacen("00", "ff", 1);
    let longer = format!("{TRACE}-00");
    let short = &TRACE[..54];
    for invalid in ["", "trace", &upper, &zero, &without_parent, &unknown, &longer, short] {
        create(&bench, &[invalid]).await?;
    }
    create(&bench, &[TRACE, TRACE]).await?;
    create(&bench, &[]).await?;
    for _ in 0..10 {
        let lease = node.lease(0.0).await?.ok_or("there is no task")?;
        assert_eq!(lease.data["traceparent"], Value::Null);
    }
    Ok(())
}
