//! Spans and events of a run. Alone in its program: tests on other threads, which have no subscriber, would
//! disable the spans for all.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use inferstore::testing::ScriptedService;
use inferstore::{File, Inputs, Result};
use serde_json::json;
use tracing_subscriber::fmt::format::FmtSpan;

/// What a subscriber writes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn spans_name_the_operation_the_attempts_and_the_status_and_no_secret() -> Result<()> {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(move || writer.clone());
    let _guard = tracing::subscriber::set_default(subscriber.finish());
    let service = ScriptedService::new();
    let inputs = Inputs::new().file("input_image", File::bytes("a.png", b"secret content".to_vec()));
    service.model("m").succeeds(json!(1));
    service.responds("getTask", 503, "maintenance").loses_response("upload");
    service.client()?.model("m").run(inputs).await?;
    let text = String::from_utf8_lossy(&log.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
    for expected in [
        r#"inferstore{operation="createTask" attempts=1 status=200}"#,
        // The subscriber writes every value that was recorded, the last one last.
        r#"inferstore{operation="getTask" attempts=1 status=503 attempts=2 status=200}"#,
        "inferstore_upload{size=14}",
        "the call failed attempt=1 status=503",
    ] {
        assert!(text.contains(expected), "no {expected} in {text}");
    }
    for secret in ["isk_test", "X-Amz", "secret content"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    Ok(())
}
