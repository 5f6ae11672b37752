//! Uploads with a valid signature, by PUT or form: checks the target, receives the bytes, and writes the file's row.

use std::sync::Arc;

use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::Stream;

use super::blobs::{Blob, BlobWriter};
use super::s3_api::{Code, ObjectApi, S3Error};
use crate::files::{Replaces, Stored, Target};
use crate::hex::hex;
use crate::http::slow_clients::MinThroughput;

pub(super) async fn admit(api: &ObjectApi, target: &str, bucket: &str) -> Result<Target, S3Error> {
    let no_target = || S3Error::denied("this upload has no target that still stands.");
    let target = api.objects.database.target(target).await?.filter(|target| target.bucket == bucket);
    let target = target.ok_or_else(no_target)?;
    // Checked before `is_void`, for a specific message: the end of a membership voids its targets.
    if target.is_of_member() && !api.objects.database.is_member(target.owner, target.payer).await? {
        return Err(S3Error::denied("the account is not a member of the organization."));
    }
    if target.is_void {
        return Err(void(&target));
    }
    if target.expires_at <= api.objects.clock.now() {
        return Err(S3Error::new(Code::AccessDenied, "Request has expired"));
    }
    if !api.objects.database.purses(target.payer).await?.spendable().is_positive() {
        return Err(S3Error::denied("the balance of the account is not positive."));
    }
    Ok(target)
}

fn void(target: &Target) -> S3Error {
    S3Error::denied(if target.is_of_member() {
        "this target is void: its file was deleted, replaced or uploaded by another account, or the membership \
         has ended since; ask for a new one."
    } else {
        "this target is void: its file was deleted or replaced, the account was suspended, or the upload ended \
         more than an hour after the target expired; ask for a new one."
    })
}

const TAKEN: &str = "the organization has a file of this name that another account has uploaded.";

/// Receives the bytes of an upload, whose number must match the target, and makes them a file. Returns the ETag.
pub(super) async fn receive(
    api: &Arc<ObjectApi>,
    target: Target,
    content_md5: Option<&str>,
    mut body: impl Stream<Item = Result<Bytes, S3Error>> + Unpin,
) -> Result<String, S3Error> {
    let _permit = api.uploads.try_acquire(target.payer).ok_or_else(S3Error::slow_down)?;
    let mut incoming = api.objects.blobs.begin()?;
    let mut throughput = MinThroughput::new(api.objects.upload_idle);
    while let Some(chunk) = throughput.next(&mut body).await? {
        incoming.write(chunk?).await?;
        if incoming.size() > target.size {
            let message = "Your proposed upload exceeds the maximum allowed size";
            return Err(S3Error::new(Code::EntityTooLarge, format!("{message}: {} bytes.", target.size)));
        }
    }
    if incoming.size() < target.size {
        let message = "Your proposed upload is smaller than the minimum allowed size";
        return Err(S3Error::new(Code::EntityTooSmall, format!("{message}: {} bytes.", target.size)));
    }
    let (shared, md5) = (Arc::clone(api), content_md5.map(str::to_owned));
    // The storing completes even if the client disconnects now.
    let store = async move { store(&shared, &target, md5.as_deref(), incoming).await };
    api.background.run_to_end("storing an upload", store).await?
}

/// Makes received bytes a file. The blob is synced before its row is written, so that no row refers to missing bytes;
/// after a crash in between, the sweeper finds the blob. The row's transaction decides which upload counts. Then the
/// blob of the replaced file, or of a repeated or refused upload, has no row; this function deletes that blob.
async fn store(
    api: &ObjectApi,
    target: &Target,
    content_md5: Option<&str>,
    incoming: Box<dyn BlobWriter>,
) -> Result<String, S3Error> {
    let blob = incoming.commit().await?;
    debug_assert_eq!(blob.size, target.size, "the committed blob has another size than the target");
    if content_md5.is_some_and(|md5| !is_md5_of(md5, &blob)) {
        api.objects.delete_blob(&blob.name).await;
        let message = "The Content-MD5 you specified did not match what we received.";
        return Err(S3Error::new(Code::BadDigest, message));
    }
    let object = target.object(blob.name.clone(), blob.etag.clone(), api.objects.clock.now());
    // If this fails, the row may have been committed: the blob stays for the sweeper.
    let stored = api
        .objects
        .database
        .store_upload(&target.id, &api.objects.random.uuid()?, &object, Replaces::Any)
        .await?;
    let (unneeded, response) = match stored {
        Stored::Done { replaced } => (replaced, Ok(blob.etag)),
        Stored::Again => (Some(blob.name), Ok(blob.etag)),
        Stored::Different => {
            let refusal = S3Error::denied("this target has stored other bytes already; ask for a new one.");
            (Some(blob.name), Err(refusal))
        }
        Stored::Void => (Some(blob.name), Err(void(target))),
        Stored::Taken => (Some(blob.name), Err(S3Error::denied(TAKEN))),
    };
    if let Some(unneeded) = unneeded {
        api.objects.delete_blob(&unneeded).await;
    }
    response
}

fn is_md5_of(header: &str, blob: &Blob) -> bool {
    STANDARD.decode(header.trim()).is_ok_and(|bytes| hex(&bytes) == blob.etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_md5_of_a_header_is_compared_with_that_of_the_bytes() {
        let etag = "d41d8cd98f00b204e9800998ecf8427e".to_owned();
        let empty = Blob { name: String::new(), size: 0, etag };
        assert!(is_md5_of(" 1B2M2Y8AsgTpgAmY7PhCfg== ", &empty));
        assert!(!is_md5_of("1B2M2Y8AsgTpgAmY7PhCfw==", &empty));
        assert!(!is_md5_of("no base64", &empty));
    }
}
