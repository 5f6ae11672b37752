//! Direct uploads and downloads with a real object store, which `.ci/cluster` starts and sets in
//! `INFERSTORE_TEST_OBJECTS`. The tests are ignored by default, and fail without that variable.

mod files;
mod outage;
mod refused;

use inferstore_service::Config;

use super::storage::support::{Bench, TestResult, bucket};

async fn start() -> TestResult<Bench> {
    let mut config = Config::ephemeral();
    config.objects = Some(bucket()?.ok_or("INFERSTORE_TEST_OBJECTS is not set")?);
    Bench::with(config).await
}
