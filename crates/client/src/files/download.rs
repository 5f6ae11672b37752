//! Downloading: from a URL into a file or a writer, resumed where it broke off.

mod exchange;
mod sink;

use std::path::Path;
use std::time::Duration;

use reqwest::Url;
use tokio::io::AsyncWrite;
use tokio::time::sleep;
use tracing::{Instrument, debug, debug_span};

use crate::client::{Client, Inner};
use crate::files::source::{TemporaryFile, trouble, trouble_from};
use crate::files::upload::fault::{Failed, Fault, Kind};
use crate::transport::deadline::Deadline;
use crate::transport::error::{Error, Result};
use exchange::{Exchange, Received};
use sink::Sink;

/// How something is downloaded.
#[derive(Clone, Debug, Default)]
pub struct DownloadOptions {
    /// Refuses more bytes than this, before they come if the server tells, else when they do.
    pub max_size: Option<u64>,
    /// How long the whole may take, from the call on. It bounds everything: every attempt, and the
    /// pauses between them.
    pub deadline: Option<Duration>,
    /// Replaces a file that is there already.
    pub overwrite: bool,
}

/// What was downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Download {
    /// The size in bytes.
    pub size: u64,
    /// The MIME type, if the server told one.
    pub mime: Option<String>,
}

/// How far a download is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DownloadProgress {
    /// How many bytes have come. It goes back to the beginning when the content has changed meanwhile.
    pub received: u64,
    /// Of how many, if the server tells.
    pub total: Option<u64>,
}

/// Who wants to know. Called between the pieces of a download, so it should be quick.
pub(crate) type OnProgress<'a> = &'a mut (dyn FnMut(DownloadProgress) + Send);

impl Client {
    /// Downloads a URL, such as an output of a model, to a file that is not there yet.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client, outcome: inferstore::Outcome) -> Result<(), inferstore::Error> {
    /// for (name, url) in outcome.urls() {
    ///     client.download(url, format!("{name}.png")).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The file appears when it is complete. The API key is not sent along.
    ///
    /// # Errors
    ///
    /// [`Error::File`] when the URL cannot be read, or the file cannot be written.
    pub async fn download(&self, url: &str, path: impl AsRef<Path>) -> Result<Download> {
        self.download_with(url, path, DownloadOptions::default(), |_| {}).await
    }

    /// Downloads a URL to a file as told, and tells how far it is.
    ///
    /// # Errors
    ///
    /// As [`download`](Self::download), and [`Error::DeadlineReached`].
    pub async fn download_with(
        &self,
        url: &str,
        path: impl AsRef<Path>,
        options: DownloadOptions,
        mut on_progress: impl FnMut(DownloadProgress) + Send,
    ) -> Result<Download> {
        let path = path.as_ref().to_owned();
        Box::pin(to_file(&self.inner, url, &path, &options, &mut on_progress)).await
    }

    /// Downloads a URL into a writer as told, and tells how far it is. After an error the writer has
    /// got a part of the content.
    ///
    /// # Errors
    ///
    /// As [`download_with`](Self::download_with); also when the content changes meanwhile, because a
    /// writer cannot begin anew.
    pub async fn download_into(
        &self,
        url: &str,
        writer: &mut (impl AsyncWrite + Send + Unpin),
        options: DownloadOptions,
        mut on_progress: impl FnMut(DownloadProgress) + Send,
    ) -> Result<Download> {
        Box::pin(to_writer(&self.inner, url, writer, &options, &mut on_progress)).await
    }
}

/// Downloads into a temporary file beside the target, which takes its place when it is complete.
pub(crate) async fn to_file(
    client: &Inner,
    url: &str,
    path: &Path,
    options: &DownloadOptions,
    on_progress: OnProgress<'_>,
) -> Result<Download> {
    let label = path.display().to_string();
    let unwritable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            trouble(&label, "it is there already; choose another name, or overwrite it")
        }
        _ => trouble_from(&label, format!("it cannot be written: {error}"), error),
    };
    match tokio::fs::metadata(path).await {
        Ok(metadata) if metadata.is_dir() => {
            return Err(trouble(&label, "it is a folder; name a file in it"));
        }
        // Known before anything is sent.
        Ok(_) if !options.overwrite => return Err(unwritable(std::io::ErrorKind::AlreadyExists.into())),
        _ => {}
    }
    let (temporary, file) = TemporaryFile::beside(path).await.map_err(unwritable)?;
    let mut sink = Sink::File(file);
    let downloaded = download(client, url, &label, &mut sink, options, on_progress).await?;
    sink.close().await.map_err(unwritable)?;
    temporary.keep_as(path, options.overwrite).await.map_err(unwritable)?;
    Ok(downloaded)
}

/// Downloads into a writer.
pub(crate) async fn to_writer(
    client: &Inner,
    url: &str,
    writer: &mut (dyn AsyncWrite + Send + Unpin),
    options: &DownloadOptions,
    on_progress: OnProgress<'_>,
) -> Result<Download> {
    const LABEL: &str = "the writer of a download";
    let mut sink = Sink::Writer(writer);
    let downloaded = download(client, url, LABEL, &mut sink, options, on_progress).await?;
    sink.close()
        .await
        .map_err(|error| trouble_from(LABEL, format!("it cannot be written: {error}"), error))?;
    Ok(downloaded)
}

async fn download(
    client: &Inner,
    url: &str,
    target: &str,
    sink: &mut Sink<'_>,
    options: &DownloadOptions,
    on_progress: OnProgress<'_>,
) -> Result<Download> {
    let deadline = Deadline::after(options.deadline);
    let exchange = Exchange { client, url: source(url)?, target, max_size: options.max_size };
    let span = debug_span!("inferstore_download", host = exchange.host());
    deadline.bound(repeatedly(exchange, sink, deadline, on_progress).instrument(span)).await
}

/// Begins where the last attempt broke off, as long as that gets anywhere.
async fn repeatedly(
    exchange: Exchange<'_>,
    sink: &mut Sink<'_>,
    deadline: Deadline,
    on_progress: OnProgress<'_>,
) -> Result<Download> {
    let client = exchange.client;
    let mut received = Received::default();
    let (mut attempts, mut furthest) = (0, 0);
    loop {
        attempts += 1;
        let fault = match exchange.once(&mut received, sink, on_progress).await {
            Ok(()) => {
                client.budget.earn();
                return Ok(Download { size: received.bytes, mime: received.mime });
            }
            Err(Failed::Here(error)) => return Err(error),
            Err(Failed::There(fault)) => fault,
        };
        debug!(attempt = attempts, kind = ?fault.kind, problem = fault.problem, "the download failed");
        if received.bytes > furthest {
            furthest = received.bytes;
            attempts = 1;
        }
        let pause = match fault.kind {
            Kind::Passing => fault.pause_before_repeat(client, attempts, deadline),
            Kind::Forbidden | Kind::Final => None,
        };
        let Some(pause) = pause else {
            let advice = advice(&fault);
            return Err(fault.about(exchange.host(), advice));
        };
        sleep(pause).await;
    }
}

fn source(url: &str) -> Result<Url> {
    let url = Url::parse(url.trim()).ok();
    url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host()).ok_or_else(|| {
        Error::InvalidArgument("what is to be downloaded is not a URL with http or https".to_owned())
    })
}

fn advice(fault: &Fault) -> &'static str {
    match fault.kind {
        Kind::Passing => "check the network and try again",
        Kind::Forbidden => "the URL may have expired; ask for a new one",
        Kind::Final => "check the URL",
    }
}

#[cfg(test)]
mod tests;
