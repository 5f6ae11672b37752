//! Object storage: upload targets, the objects that uploads become, and their listings. The store speaks the S3
//! protocol on its own address and never sees an API key: a target (presigned upload) carries a signature over the key,
//! the MIME type, the exact size and the target's identifier, so that only the announced file can be stored.
//!
//! The bytes are in a folder or a remote bucket. Unless `direct=false` is set, the bucket receives uploads and serves
//! downloads itself, and its listing reveals the uploads (`reconcile`).

mod blobs;
mod current_urls;
#[cfg(feature = "fuzzed")]
pub(crate) mod fuzzed;
mod location;
mod objects;
mod outputs;
mod reconcile;
#[cfg(test)]
mod remote_tests;
mod s3_api;
mod shared_listing;
#[cfg(test)]
pub(crate) mod slow_store_tests;
mod sweeper;
#[cfg(test)]
pub(crate) mod tests;
mod unsigned_forms;
mod uploads;

pub(crate) use blobs::{
    BlobCopy, Checksums, Destination, IN_BUCKET, SETTING as PAIRING, are_in_bucket, open as open_blobs,
};
pub(crate) use current_urls::with_current_urls;
pub(crate) use location::{Locations, address};
pub(crate) use objects::{Objects, outlast_outage};
pub(crate) use reconcile::RECONCILE_INTERVAL;
pub(crate) use s3_api::{Code, ObjectApi, S3Error, router};
