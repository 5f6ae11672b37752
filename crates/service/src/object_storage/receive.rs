//! Taking in an upload whose signature is right: whether its target still stands, then the bytes, then
//! the row that makes them a file. Both ways of uploading end here.

use std::sync::Arc;

use futures_util::Stream;
use s3s::{S3Error, s3_error};

use super::blobs::{Bytes, Whole};
use super::{Object, Objects, Stored, Target};
use crate::Error;
use crate::lifecycle::app::App;
use crate::object_storage::s3_api::pace::{Pace, TooSlow};

/// What an upload says about itself.
pub(super) struct Claim<'a> {
    /// The identifier of its target, from a place that is signed.
    pub(super) target: Option<&'a str>,
    pub(super) bucket: &'a str,
    pub(super) key: &'a str,
    pub(super) mime: &'a str,
}

/// Decides whether an upload may begin. Its signature says that we issued the target; this says that
/// it still stands.
pub(super) async fn admit(app: &App, claim: &Claim<'_>) -> Result<Target, S3Error> {
    let no_target = || s3_error!(AccessDenied, "Access Denied: this upload has no target that still stands.");
    let id = claim.target.ok_or_else(no_target)?;
    let target = app.database.target(id).await.map_err(internal)?.ok_or_else(no_target)?;
    if target.is_void {
        return Err(s3_error!(AccessDenied, "Access Denied: the file of this target was deleted."));
    }
    if target.expires_at <= app.clock.now() {
        return Err(s3_error!(AccessDenied, "Request has expired"));
    }
    // Signed already; a second look costs nothing.
    if target.bucket != claim.bucket || target.key != claim.key || target.mime != claim.mime {
        return Err(no_target());
    }
    let is_own = target.owner == target.payer;
    if !is_own && !app.database.is_member(target.owner, target.payer).await.map_err(internal)? {
        return Err(s3_error!(AccessDenied, "Access Denied: the uploader left the organization."));
    }
    if !app.database.purses(target.payer).await.map_err(internal)?.spendable().is_positive() {
        return Err(s3_error!(AccessDenied, "Access Denied: the balance of the account is not positive."));
    }
    Ok(target)
}

/// Why bytes stopped coming.
pub(super) enum Cut {
    /// The client said that there were more.
    Short,
    /// It sent nothing for too long, or too little.
    Idle,
}

impl From<TooSlow> for S3Error {
    fn from(_: TooSlow) -> Self {
        Cut::Idle.into()
    }
}

impl From<Cut> for S3Error {
    fn from(cut: Cut) -> Self {
        match cut {
            Cut::Short => {
                s3_error!(
                    IncompleteBody,
                    "You did not provide the number of bytes specified by the Content-Length HTTP header"
                )
            }
            Cut::Idle => s3_error!(
                RequestTimeout,
                "Your socket connection to the server was not read from or written to within the timeout period."
            ),
        }
    }
}

/// Takes in the bytes of an upload, which must be as many as its target says, and makes them a file.
/// Returns its etag.
pub(super) async fn receive(
    app: &Arc<App>,
    target: Target,
    content_md5: Option<&str>,
    mut body: impl Stream<Item = Result<Bytes, S3Error>> + Unpin,
) -> Result<String, S3Error> {
    let busy = || s3_error!(SlowDown, "Please reduce your request rate.");
    let _place = app.uploads.enter(target.payer).ok_or_else(busy)?;
    let mut incoming = app.objects.blobs().begin().map_err(internal)?;
    let mut pace = Pace::new(app.config.limits.upload_idle);
    while let Some(piece) = pace.next(&mut body).await? {
        incoming.write(piece?).await.map_err(internal)?;
        if incoming.size() > target.size {
            return Err(s3_error!(
                EntityTooLarge,
                "Your proposed upload exceeds the maximum allowed size: {} bytes were declared.",
                target.size
            ));
        }
    }
    if incoming.size() < target.size {
        return Err(s3_error!(
            EntityTooSmall,
            "Your proposed upload is smaller than the minimum allowed size: {} bytes were declared.",
            target.size
        ));
    }
    let whole = incoming.finish().await.map_err(internal)?;
    if content_md5.is_some_and(|md5| !is_md5_of(md5, &whole.etag)) {
        return Err(s3_error!(BadDigest, "The Content-MD5 you specified did not match what we received."));
    }
    let app = Arc::clone(app);
    // On a task of its own, because a client that hangs up now must not leave it half done.
    let ended = tokio::spawn(async move { store(&app, &target, whole).await });
    ended.await.map_err(|cause| internal(Error::new("storing an upload", cause)))?
}

/// Whether the header (base64) means the same as the etag (hex).
fn is_md5_of(header: &str, etag: &str) -> bool {
    use base64::Engine as _;
    let decoded = base64::engine::general_purpose::STANDARD.decode(header.trim());
    decoded.is_ok_and(|bytes| crate::object_storage::s3_api::sign::hex(&bytes) == etag)
}

/// Gives a whole blob its place and the row that makes it a file. Returns its etag.
pub(super) async fn store(app: &Arc<App>, target: &Target, whole: Whole) -> Result<String, S3Error> {
    let objects: &Objects = &app.objects;
    let object = Object {
        bucket: target.bucket.clone(),
        key: target.key.clone(),
        blob: whole.name.clone(),
        mime: target.mime.clone(),
        size: whole.size,
        etag: whole.etag.clone(),
        created_at: app.clock.now(),
    };
    let id = app.random.uuid().map_err(internal)?;
    let (app_of_blob, whole) = (Arc::clone(app), whole);
    let kept = tokio::task::spawn_blocking(move || app_of_blob.objects.blobs().keep(&whole)).await;
    kept.map_err(|cause| internal(Error::new("storing an upload", cause)))?.map_err(internal)?;
    let stored = app.database.store_upload(&target.id, &id, &object).await;
    let (unneeded, answer) = match stored {
        Ok(Stored::Kept { replaced }) => (replaced, Ok(object.etag)),
        Ok(Stored::Void) => {
            let refusal = s3_error!(AccessDenied, "Access Denied: the file of this target was deleted.");
            (Some(object.blob), Err(refusal))
        }
        // Whether the row was committed is not known, so the blob stays; the sweep will judge.
        Err(cause) => (None, Err(internal(cause))),
    };
    if let Some(blob) = unneeded {
        objects.delete_blob(&blob).await;
    }
    answer
}

/// A failure of ours: told in the log, and in one word to the client.
pub(super) fn internal(cause: Error) -> S3Error {
    tracing::error!(%cause, "a request failed inside the object store");
    s3_error!(InternalError, "We encountered an internal error. Please try again.")
}
