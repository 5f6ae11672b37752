//! Uploads and downloads that go straight to a bucket: targets and URLs that are signed with the key of the
//! bucket. The store does not report uploads; a look finds them.

use std::sync::Arc;
use std::time::Duration;

use rusty_s3::Method;

use super::bucket::Bucket;
use super::s3::blob_key;
use crate::Result;
use crate::object_storage::s3_api::{Form, FormSigner, MAX_LIFE, Presigned, fields};
use crate::object_storage::{MAX_FORM_FILE, Object, Target};

/// How long the URL of a download can be used. A download that has begun goes on.
const DOWNLOAD_LIFE: Duration = Duration::from_mins(5);

/// Signs for callers of a bucket.
pub(in crate::object_storage) struct Direct {
    bucket: Arc<Bucket>,
}

impl Direct {
    pub(super) fn new(bucket: Arc<Bucket>) -> Self {
        Self { bucket }
    }

    /// Signs a target for so long. Its object has the identifier of the target as its name.
    pub(in crate::object_storage) fn presign(&self, target: &Target, life: Duration) -> Result<Presigned> {
        let life = life.clamp(Duration::from_secs(1), MAX_LIFE);
        let config = &self.bucket.config;
        let key = blob_key(&target.id);
        if target.size <= MAX_FORM_FILE {
            let key = format!("{}{key}", config.prefix);
            let endpoint = self.bucket.url(&config.public_address, "");
            let form = Form {
                bucket: &config.bucket,
                key: &key,
                mime: &target.mime,
                size: target.size,
                target: None,
            };
            let signer = FormSigner {
                access_key: &config.access_key,
                secret: &config.secret_key,
                region: &config.region,
            };
            return signer.presign(endpoint.into(), &form, life, self.bucket.clock.signing_time());
        }
        let url = self.bucket.url(&config.public_address, &key);
        let size = target.size.to_string();
        // Without these two in the signature, any size and any type would be stored.
        let headers = [("content-length", size.as_str()), ("content-type", target.mime.as_str())];
        let url = self.bucket.sign(Method::Put, url, life, &[], &headers);
        Ok(Presigned { endpoint: url.into(), fields: fields(&[("Content-Type", &target.mime)])? })
    }

    /// Signs the URL of a download, with the type that our row has.
    pub(in crate::object_storage) fn download_url(&self, object: &Object, is_attachment: bool) -> String {
        let url = self.bucket.url(&self.bucket.config.public_address, &blob_key(&object.blob));
        let mut query = vec![("response-content-type", object.mime.as_str())];
        if is_attachment {
            query.insert(0, ("response-content-disposition", "attachment"));
        }
        self.bucket.sign(Method::Get, url, DOWNLOAD_LIFE, &query, &[]).into()
    }
}
