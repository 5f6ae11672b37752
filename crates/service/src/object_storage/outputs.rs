//! Outputs of models: stored as they arrive and served by URL. They belong to the account of the task, which may
//! delete them; they are not listed, counted or billed, and they expire.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use futures_util::Stream;

use super::blobs::BlobWriter;
use super::{MAX_FILE, Object, Objects, OutputLimits, OutputStored};
use crate::http::slow_clients::{MinThroughput, TooSlow};
use crate::lifecycle::app::App;
use crate::{Error, Result};

/// Why an output is not stored.
#[derive(Debug)]
pub(crate) enum OutputError {
    /// It is the fault of the node: with the status and the message of the response.
    Refused(StatusCode, &'static str),
    /// The service failed.
    Failed(Error),
}

impl From<Error> for OutputError {
    fn from(cause: Error) -> Self {
        Self::Failed(cause)
    }
}

impl From<TooSlow> for OutputError {
    fn from(_: TooSlow) -> Self {
        Self::Refused(StatusCode::REQUEST_TIMEOUT, "the file took too long to arrive")
    }
}

impl Objects {
    /// Stores an output and returns its permanent URL.
    pub(crate) async fn store_output(
        &self,
        app: &App,
        bucket: &str,
        key: &str,
        mime: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<String> {
        let mut incoming = self.blobs.begin()?;
        incoming.write(bytes.into()).await?;
        let stored = self.commit_output(app, (bucket, key, mime), incoming).await;
        stored.map_err(|error| match error {
            OutputError::Failed(cause) => cause,
            OutputError::Refused(_, message) => Error::new("storing an output", message),
        })
    }

    /// Stores an output as it arrives and returns its permanent URL.
    pub(crate) async fn receive_output<E>(
        &self,
        app: &App,
        output: (&str, &str, &str),
        timeout: Duration,
        mut body: impl Stream<Item = Result<Bytes, E>> + Send + Unpin,
    ) -> Result<String, OutputError> {
        let mut incoming = self.blobs.begin()?;
        let mut throughput = MinThroughput::new(timeout);
        while let Some(chunk) = throughput.next(&mut body).await? {
            let cut_off = |_| OutputError::Refused(StatusCode::BAD_REQUEST, "the file was cut off");
            incoming.write(chunk.map_err(cut_off)?).await?;
            if incoming.size() > MAX_FILE {
                let message = "a file has at most 104857600 bytes";
                return Err(OutputError::Refused(StatusCode::PAYLOAD_TOO_LARGE, message));
            }
        }
        self.commit_output(app, output, incoming).await
    }

    /// Commits the bytes and the row of an output. It takes the place of an earlier one with the same key.
    async fn commit_output(
        &self,
        app: &App,
        (bucket, key, mime): (&str, &str, &str),
        incoming: Box<dyn BlobWriter>,
    ) -> Result<String, OutputError> {
        let blob = incoming.commit().await?;
        let object = Object {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            blob: blob.name,
            mime: mime.to_owned(),
            size: blob.size,
            etag: blob.etag,
            created_at: app.clock.now(),
        };
        let limits = app.config.limits;
        let limits = OutputLimits { count: limits.outputs, bytes: limits.output_bytes };
        match self.database.store_output(&app.random.uuid()?, &object, limits).await? {
            OutputStored::Kept { replaced } => {
                if let Some(replaced) = replaced {
                    self.delete_blob(&replaced).await;
                }
                Ok(self.locations.url(bucket, key))
            }
            OutputStored::TooMany => {
                self.delete_blob(&object.blob).await;
                let message = "this lease has stored as many outputs as it may";
                Err(OutputError::Refused(StatusCode::PAYLOAD_TOO_LARGE, message))
            }
            OutputStored::LeaseLost => {
                self.delete_blob(&object.blob).await;
                let message = "the lease is lost: the task has ended, or goes to another node";
                Err(OutputError::Refused(StatusCode::CONFLICT, message))
            }
        }
    }
}
