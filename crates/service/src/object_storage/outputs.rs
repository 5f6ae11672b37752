//! Outputs of models: stored as they arrive and served by URL. They belong to the account of the task, which may
//! delete them; they are not listed, counted or billed, and they expire.

use std::time::Duration;

use axum::body::Bytes;
use futures_util::Stream;

use super::blobs::BlobWriter;
use super::{MAX_FILE, Object, Objects, OutputLimits, OutputStored};
use crate::Error;
use crate::http::slow_clients::{MinThroughput, TooSlow};
use crate::lifecycle::app::App;

/// Why an output is not stored.
#[derive(Debug)]
pub(crate) enum OutputError {
    /// It is larger than a file may be.
    TooLarge,
    /// Its lease has stored as many outputs, or bytes, as it may.
    TooMany,
    /// Too little came in within the timeout.
    TooSlow,
    /// The node closed the connection in the middle.
    CutOff,
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
        Self::TooSlow
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
    ) -> Result<String, Error> {
        let mut incoming = self.begin()?;
        incoming.write(bytes.into()).await?;
        let stored = self.commit_output(app, (bucket, key, mime), incoming).await;
        stored.map_err(|error| match error {
            OutputError::Failed(cause) => cause,
            _ => Error::new("storing an output", "the task has stored as much as it may"),
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
        let mut incoming = self.begin()?;
        let mut throughput = MinThroughput::new(timeout);
        while let Some(chunk) = throughput.next(&mut body).await? {
            incoming.write(chunk.map_err(|_| OutputError::CutOff)?).await?;
            if incoming.size() > MAX_FILE {
                return Err(OutputError::TooLarge);
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
                Ok(self.download_url(bucket, key))
            }
            OutputStored::TooMany => {
                self.delete_blob(&object.blob).await;
                Err(OutputError::TooMany)
            }
        }
    }
}
