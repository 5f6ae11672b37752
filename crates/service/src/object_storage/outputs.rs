//! Outputs of models: served by URL, not listed, counted or billed, expiring; the account of the task may delete them.

use axum::body::Bytes;
use axum::http::StatusCode;
use futures_util::Stream;

use super::Objects;
use super::blobs::BlobWriter;
use crate::files::{MAX_FILE, Object, OutputStored};
use crate::http::response::Failure;
use crate::http::slow_clients::MinThroughput;
use crate::{Error, Result};

type Refusal = (StatusCode, &'static str);

impl Objects {
    pub(crate) async fn store_output(
        &self,
        bucket: &str,
        key: &str,
        mime: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<String> {
        let mut incoming = self.blobs.begin()?;
        incoming.write(bytes.into()).await?;
        let stored = self.commit_output((bucket, key, mime), incoming).await?;
        stored.map_err(|(_, message)| Error::new("storing an output", message))
    }

    pub(crate) async fn receive_output<E>(
        &self,
        output: (&str, &str, &str),
        mut body: impl Stream<Item = Result<Bytes, E>> + Send + Unpin,
    ) -> Result<String, Failure> {
        let too_slow = |_| Failure::new(StatusCode::REQUEST_TIMEOUT, "the file took too long to arrive");
        let cut_off = |_| Failure::new(StatusCode::BAD_REQUEST, "the file was cut off");
        let mut incoming = self.blobs.begin()?;
        let mut throughput = MinThroughput::new(self.upload_idle);
        while let Some(chunk) = throughput.next(&mut body).await.map_err(too_slow)? {
            incoming.write(chunk.map_err(cut_off)?).await?;
            if incoming.size() > MAX_FILE {
                let message = format!("a file has at most {MAX_FILE} bytes");
                return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, message));
            }
        }
        let stored = self.commit_output(output, incoming).await?;
        stored.map_err(|(status, message)| Failure::new(status, message))
    }

    async fn commit_output(
        &self,
        (bucket, key, mime): (&str, &str, &str),
        incoming: Box<dyn BlobWriter>,
    ) -> Result<Result<String, Refusal>> {
        let blob = incoming.commit().await?;
        let object = Object {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            blob: blob.name,
            mime: mime.to_owned(),
            size: blob.size,
            etag: blob.etag,
            created_at: self.clock.now(),
        };
        match self.database.store_output(&self.random.uuid()?, &object, self.output_limits).await? {
            OutputStored::Done { replaced } => {
                if let Some(replaced) = replaced {
                    self.delete_blob(&replaced).await;
                }
                Ok(Ok(self.locations.url(bucket, key)))
            }
            OutputStored::TooMany => {
                self.delete_blob(&object.blob).await;
                let message = "this lease has stored as many outputs as it may";
                Ok(Err((StatusCode::PAYLOAD_TOO_LARGE, message)))
            }
            OutputStored::LeaseLost => {
                self.delete_blob(&object.blob).await;
                let message = "the lease is lost: the task has ended, or goes to another node";
                Ok(Err((StatusCode::CONFLICT, message)))
            }
        }
    }
}
