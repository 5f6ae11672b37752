//! End of a lease: upload of output files, then the result of the task.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::output::{self, Outputs};
use super::{known, lost};
use crate::catalog::Format;
use crate::clock::elapsed;
use crate::http::mime::is_mime;
use crate::http::request::{ApiJson, ApiPath};
use crate::http::response::{Done, Failure, Success};
use crate::nodes::Nodes;
use crate::nodes::OUTPUTS;
use crate::queue::{Ending, LeaseState};
use crate::registry::NodeKey;
use crate::telemetry::outcome;

pub(super) const MAX_MESSAGE: usize = 4_000;
/// Maximum nesting depth of a failure detail. JSON parsers limit the whole response: serde_json to 128.
pub(super) const MAX_DETAIL_DEPTH: usize = 64;
/// Maximum size of a failure detail in bytes, because every read of the task returns the detail.
pub(super) const MAX_DETAIL: usize = 64 << 10;

#[derive(Serialize)]
pub(super) struct StoredFile {
    url: String,
}

/// Stores an output file of the task. The file's name is the name of its output with an extension: `output.png`.
pub(super) async fn put_file(
    State(nodes): State<Arc<Nodes>>,
    key: NodeKey,
    ApiPath((node, task, attempt, file)): ApiPath<(String, String, i64, String)>,
    request: Request,
) -> Done<StoredFile> {
    known(&nodes, &key, &node).await?;
    let LeaseState::Running { output_format, .. } = nodes.database.lease_state(&node, &task, attempt).await?
    else {
        return Err(lost());
    };
    let mime = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let mime = mime.filter(|mime| is_mime(mime)).map(str::to_owned).ok_or_else(|| {
        let message = "the header content-type must say the MIME type of the file";
        Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)
    })?;
    output::check_file(&Format::kept(&output_format)?, &file, &mime).map_err(Failure::unprocessable)?;
    let is_full =
        || Failure::too_many("too many files of this lease are arriving; send them one after another", 1);
    let _permit = nodes.files.try_acquire((task.clone(), attempt)).ok_or_else(is_full)?;
    let stored = (OUTPUTS, &*format!("{task}/{attempt}/{file}"), &*mime);
    let body = request.into_body().into_data_stream();
    let url = nodes.objects.receive_output(stored, body).await?;
    Ok(Success::data(StoredFile { url }))
}

/// Result of a run: exactly one of the two fields.
#[derive(Deserialize)]
pub(super) struct Finish {
    output: Option<Outputs>,
    error: Option<RunError>,
}

#[derive(Deserialize)]
struct RunError {
    message: String,
    #[serde(default)]
    kind: Kind,
    detail: Option<Box<RawValue>>,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Input,
    #[default]
    Model,
    Limit,
}

/// Ends a task. Idempotent: a retry by the same node after a lost response gets the same response.
pub(super) async fn finish(
    State(nodes): State<Arc<Nodes>>,
    key: NodeKey,
    ApiPath((node, task, attempt)): ApiPath<(String, String, i64)>,
    body: ApiJson<Finish>,
) -> Done {
    known(&nodes, &key, &node).await?;
    let (output_format, model, leased_at, traceparent) =
        match nodes.database.lease_state(&node, &task, attempt).await? {
            LeaseState::Running { output_format, model, leased_at, traceparent } => {
                (output_format, model, leased_at, traceparent)
            }
            LeaseState::Ended => return Ok(Success::done("finished already")),
            LeaseState::Lost => return Err(lost()),
        };
    let lease = format!("{task}/{attempt}");
    let mut files = Vec::new();
    let ending = match (body.value.output, body.value.error) {
        (Some(outputs), None) => {
            let declared = Format::kept(&output_format)?;
            let (output, named) = output::check(&nodes, &declared, &lease, &outputs).await?;
            files = named;
            Ending::Output(output)
        }
        (None, Some(error)) => {
            let message: String = error.message.chars().take(MAX_MESSAGE).collect();
            let mut detail = json!({ "kind": error.kind, "message": message });
            if let (Some(reported), Some(detail)) = (error.detail, detail.as_object_mut()) {
                detail.insert("detail".to_owned(), readable(&reported));
            }
            Ending::Error { detail: detail.to_string(), message }
        }
        _ => return Err(Failure::unprocessable("a run ends with an output or with an error")),
    };
    let succeeded = matches!(ending, Ending::Output(_));
    let now = nodes.clock.now();
    if nodes.database.finish(&node, &task, attempt, &ending, now).await? {
        let elapsed = elapsed(leased_at.unwrap_or(now), now);
        let outcome = if succeeded { outcome::SUCCESS } else { outcome::FAILURE };
        nodes.metrics.run_ended(&model, succeeded, elapsed);
        nodes.spans.attempt_ended(traceparent.as_deref(), (&task, attempt), &model, outcome, elapsed);
        tracing::info!(task, node, succeeded, traceparent, "a task has ended");
        // The task has ended, even if this deletion fails. Without a file output, the node has stored no files.
        if !files.is_empty()
            && let Err(cause) = remove_unnamed(&nodes, &lease, &files).await
        {
            tracing::warn!(%cause, task, "outputs that the result does not name stay until they are old");
        }
        return Ok(Success::done("finished"));
    }
    // Another request has ended the task since the read, perhaps a retry of the same node.
    match nodes.database.lease_state(&node, &task, attempt).await? {
        LeaseState::Ended => Ok(Success::done("finished already")),
        _ => Err(lost()),
    }
}

/// Returns the detail of a failure, or a note why it is left out, because every client must parse the response.
fn readable(detail: &RawValue) -> Value {
    if detail.get().len() > MAX_DETAIL {
        return json!(format!("left out: it is larger than {MAX_DETAIL} bytes"));
    }
    match serde_json::from_str(detail.get()) {
        Ok(detail) if depth(&detail) <= MAX_DETAIL_DEPTH => detail,
        Ok(_) => json!(format!("left out: it is nested deeper than {MAX_DETAIL_DEPTH} levels")),
        Err(cause) => json!(format!("left out: it cannot be read: {cause}")),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

async fn remove_unnamed(nodes: &Nodes, lease: &str, named: &[String]) -> crate::Result<()> {
    for blob in nodes.database.remove_unnamed_outputs(OUTPUTS, lease, named).await? {
        nodes.objects.delete_blob(&blob).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_detail_is_kept_unless_it_is_nested_too_deeply() -> Result<(), serde_json::Error> {
        let nested = |begin: &str, end: &str, depth| begin.repeat(depth) + "1" + &end.repeat(depth);
        for (begin, end) in [("[", "]"), ("{\"a\":", "}")] {
            let deepest = nested(begin, end, MAX_DETAIL_DEPTH);
            let detail = RawValue::from_string(deepest.clone())?;
            assert_eq!(readable(&detail).to_string(), deepest);
            let detail = RawValue::from_string(nested(begin, end, MAX_DETAIL_DEPTH + 1))?;
            assert!(readable(&detail).as_str().is_some_and(|said| said.contains("nested deeper")));
        }
        let detail = RawValue::from_string(format!("\"{}\"", "x".repeat(MAX_DETAIL)))?;
        assert!(readable(&detail).as_str().is_some_and(|said| said.contains("larger than")));
        Ok(())
    }
}
