//! Uploads and downloads that go straight to a bucket, against a real object store, which `.ci/cluster` starts and
//! names in `INFERSTORE_TEST_OBJECTS`. They are ignored elsewhere, and fail without that variable.

mod files;
mod outage;
mod refused;

use inferstore_service::Config;

use super::storage::support::{Bench, Outcome, bucket};

/// A service whose callers use the bucket.
async fn start() -> Outcome<Bench> {
    let mut config = Config::ephemeral();
    config.objects = Some(bucket()?.ok_or("INFERSTORE_TEST_OBJECTS is not set")?);
    Bench::with(config).await
}
