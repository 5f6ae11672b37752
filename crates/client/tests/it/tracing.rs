//! Spans and events of a run.

use std::cell::RefCell;
use std::io::Write;
use std::time::Duration;

use inferstore::{Abandon, File, Inputs, Result};
use inferstore_testing::ScriptedService;
use serde_json::json;
use tokio::time::{sleep, timeout};
use tracing::Instrument as _;
use tracing_subscriber::fmt::format::FmtSpan;

thread_local! {
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Log of the test's thread. Global, because a thread's own subscriber would miss spans that other threads
/// have disabled.
struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.with_borrow_mut(|log| log.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn spans_name_the_operation_the_attempts_and_the_status_and_no_secret() -> Result<()> {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(|| Log);
    assert!(subscriber.try_init().is_ok(), "no other test has a subscriber");
    let service = ScriptedService::new();
    let inputs = Inputs::new().file("input_image", File::bytes("a.png", b"secret content".to_vec()));
    service.model("m").succeeds(json!(1));
    service.responds("getTask", 503, "maintenance").loses_response("upload");
    service.client()?.model("m").run(inputs.clone()).await?;
    let job = tracing::info_span!("job");
    service.client()?.model("m").run(Inputs::new()).into_future().instrument(job).await?;
    // A failed run returns no list of stored inputs.
    let _ = service.model("failing").fails("no");
    service.responds("deleteFile", 500, "busy");
    let failed = service
        .client()?
        .model("failing")
        .run(inputs.clone())
        .options(|options| options.delete_inputs_after = true)
        .await;
    assert!(failed.is_err());
    let _ = service.model("slow").stays_queued();
    let slow =
        service.client()?.model("slow").run(inputs).options(|options| options.delete_inputs_after = true);
    assert!(slow.deadline(Duration::from_secs(9)).await.is_err());
    // The cancel of a dropped run takes effect, and its response is lost.
    let _ = service.model("queued").stays_queued();
    service.loses_response("cancelTask");
    let dropped = service.client()?.model("queued").run(Inputs::new()).on_abandon(Abandon::Cancel);
    assert!(timeout(Duration::from_secs(5), dropped).await.is_err());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(crate::count(&service.requests(), "cancelTask"), 2);
    let text = LOG.with_borrow(|log| String::from_utf8_lossy(log).into_owned());
    for expected in [
        r#"inferstore_run{otel.kind="internal" model="m"}:inferstore{otel.name="createTask" otel.kind="client" operation="createTask" attempts=1 status=200}"#,
        // An instrumented future, like a spawned one, is in the trace of its caller.
        r#"job:inferstore_run{otel.kind="internal" model="m"}:inferstore{otel.name="createTask""#,
        // A run that may be dropped has a Tokio task of its own, and stays in the trace.
        r#"inferstore_run{otel.kind="internal" model="queued"}:inferstore{otel.name="createTask""#,
        r#"inferstore_run{otel.kind="internal" model="queued"}:inferstore{otel.name="cancelTask""#,
        // The subscriber writes every recorded value, the last one last.
        r#"operation="getTask" attempts=1 status=503 attempts=2 status=200}"#,
        r#"operation="upload" size=14}"#,
        "the call failed attempt=1 status=503",
        "uploaded inputs are still stored count=1 names=",
    ] {
        assert!(text.contains(expected), "no {expected} in {text}");
    }
    assert!(!text.contains("could not be canceled"), "{text}");
    assert_eq!(text.matches("uploaded inputs are still stored").count(), 2, "{text}");
    for secret in ["isk_test", "X-Amz", "secret content", "http://storage.localhost/"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    Ok(())
}
