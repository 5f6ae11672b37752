//! Uploads and downloads that go straight to a bucket: targets and URLs that are signed with the key of the
//! bucket. The store does not report uploads; its listing tells them.

use std::time::Duration;

use rusty_s3::Method;

use super::bucket::Bucket;
use super::s3::blob_key;
use crate::Result;
use crate::object_storage::s3_api::{Presigned, Upload};
use crate::object_storage::{Object, Target};

/// How long the URL of a download can be used. A download that has begun goes on.
const DOWNLOAD_LIFE: Duration = Duration::from_mins(5);

impl Bucket {
    /// Signs a target for so long. Its object has the identifier of the target as its name.
    pub(in crate::object_storage) fn presign(&self, target: &Target, life: Duration) -> Result<Presigned> {
        let Target { id, mime, size, .. } = target;
        let blob = blob_key(id);
        let key = format!("{}{blob}", self.config.prefix);
        let upload = Upload { bucket: &self.config.bucket, key: &key, mime, size: *size, target: None };
        let address = &self.config.public_address;
        let forms = self.url(address, "").into();
        self.config.signer.presign(&upload, forms, self.url(address, &blob), life, self.clock.signing_time())
    }

    /// Signs the URL of a download, or of its head, with the type that our row has.
    pub(in crate::object_storage) fn download_url(
        &self,
        object: &Object,
        method: &axum::http::Method,
        is_attachment: bool,
    ) -> String {
        let method = if *method == axum::http::Method::HEAD { Method::Head } else { Method::Get };
        let url = self.url(&self.config.public_address, &blob_key(&object.blob));
        let mut query = vec![("response-content-type", object.mime.as_str())];
        if is_attachment {
            query.insert(0, ("response-content-disposition", "attachment"));
        }
        self.sign(method, url, DOWNLOAD_LIFE, &query).into()
    }
}
