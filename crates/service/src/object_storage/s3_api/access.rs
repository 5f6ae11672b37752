//! Who may do what at the object store: everybody may read an object whose URL they know, a signed
//! target may store one, and nobody may do anything else.

use async_trait::async_trait;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Result, s3_error};

use crate::object_storage::s3_api::sign::ACCESS_KEY;

/// Knows the secret of the one access key.
pub(crate) struct Auth {
    pub(crate) secret: SecretKey,
}

#[async_trait]
impl S3Auth for Auth {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        if access_key == ACCESS_KEY {
            Ok(self.secret.clone())
        } else {
            Err(s3_error!(InvalidAccessKeyId, "The access key is not known."))
        }
    }
}

/// The rules.
pub(crate) struct Access;

#[async_trait]
impl S3Access for Access {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        match (cx.s3_op().name(), cx.credentials()) {
            ("GetObject" | "HeadObject", _) | ("PutObject", Some(_)) => Ok(()),
            _ => Err(s3_error!(AccessDenied, "Access Denied")),
        }
    }
}
