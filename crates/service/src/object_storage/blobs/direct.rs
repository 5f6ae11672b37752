//! Presigned uploads and downloads straight to and from a bucket. Only the store's listing reveals uploads.

use std::time::Duration;

use reqwest::Method;

use super::bucket::Bucket;
use super::s3::blob_key;
use crate::Result;
use crate::files::{Object, Target};
use crate::object_storage::s3_api::{Presigned, Upload};

/// Lifetime of a presigned download URL. A download in progress may continue beyond.
const DOWNLOAD_LIFE: Duration = Duration::from_mins(5);

impl Bucket {
    pub(in crate::object_storage) fn presign(&self, target: &Target, life: Duration) -> Result<Presigned> {
        let Target { id, mime, size, .. } = target;
        let blob = blob_key(id);
        let key = format!("{}{blob}", self.config.prefix);
        let upload = Upload { bucket: &self.config.bucket, key: &key, mime, size: *size, target: None };
        let address = &self.config.public_address;
        let forms = self.url(address, "").into();
        self.signer.presign(&upload, forms, self.url(address, &blob), life, self.clock.signing_time())
    }

    pub(in crate::object_storage) fn download_url(
        &self,
        object: &Object,
        method: &Method,
        is_attachment: bool,
    ) -> Result<String> {
        let url = self.url(&self.config.public_address, &blob_key(&object.blob));
        let mut query = vec![("response-content-type", object.mime.as_str())];
        if is_attachment {
            query.insert(0, ("response-content-disposition", "attachment"));
        }
        let method = if *method == Method::HEAD { &Method::HEAD } else { &Method::GET };
        self.sign(method, url, DOWNLOAD_LIFE, &query).map(String::from)
    }
}
