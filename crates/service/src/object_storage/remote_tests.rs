//! Tests of the jobs of a service with a bucket, with a real object store, which `.ci/cluster` starts and sets in
//! `INFERSTORE_TEST_OBJECTS`: uploads without a read, late uploads, orphans.

use std::error::Error;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt as _, TryStreamExt as _};

use super::blobs::Blobs as _;
use crate::accounts::AccountId;
use crate::files::{Target, TargetsOf};
use crate::random::Randomness;
use crate::{Config, S3Config, Service};

pub(super) type TestResult<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

pub(super) fn bucket() -> TestResult<S3Config> {
    let variable = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let url = variable("INFERSTORE_TEST_OBJECTS")?;
    let (bucket, parameters) = url.split_once('?').ok_or("the bucket has no parameters")?;
    let url = format!("{bucket}/{:016x}?{parameters}", fastrand::u64(..));
    Ok(S3Config::new(&url, &variable("AWS_ACCESS_KEY_ID")?, &variable("AWS_SECRET_ACCESS_KEY")?)?)
}

async fn start() -> TestResult<(Service, AccountId)> {
    let mut config = Config::ephemeral();
    config.objects = Some(bucket()?);
    let service = Service::start(config).await?;
    let account = service.database.account("demo").await?.ok_or("no account")?;
    Ok((service, account.id))
}

pub(super) const SIZE: u64 = 5_242_881;

pub(super) async fn target(service: &Service, name: &str) -> TestResult<(Target, String)> {
    let owner = service.database.account("demo").await?.ok_or("no account")?;
    let now = service.clock.now();
    let expires_at = now.after(Duration::from_mins(15));
    let id = service.objects.target_id(now)?;
    let target = Target::of_owner(id, (owner.id, &owner.bucket), name, SIZE, expires_at);
    service.database.add_target(&target, u32::MAX).await?;
    let presigned = service.objects.presign(&target)?;
    Ok((target, presigned.endpoint))
}

async fn put(endpoint: &str) -> TestResult {
    let client = inferstore_fetch::over_ring(reqwest::Client::builder()).no_proxy().build()?;
    let request = client.put(endpoint).header("content-type", "text/plain");
    let response = request.body(vec![1; 5_242_881]).send().await?;
    if response.status().is_success() { Ok(()) } else { Err(response.text().await?.into()) }
}

async fn files(service: &Service, owner: AccountId) -> TestResult<u64> {
    Ok(service.database.usage(owner).await?.files)
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn unobserved_and_late_uploads_become_files() -> TestResult {
    let (service, owner) = start().await?;
    put(&target(&service, "unseen").await?.1).await?;
    service.objects.reconcile_and_forget().await?;
    assert_eq!(files(&service, owner).await?, 1);
    // The store checks signatures by its own clock, so it accepts this upload as one that began in time.
    let (late, endpoint) = target(&service, "late").await?;
    service.clock.advance(Duration::from_mins(16));
    service.objects.reconcile_and_forget().await?;
    put(&endpoint).await?;
    service.clock.advance(Duration::from_mins(55));
    service.objects.reconcile_and_forget().await?;
    assert_eq!(files(&service, owner).await?, 2);
    let stored = service.database.object(&late.bucket, &late.key).await?.ok_or("no file")?;
    assert!(!stored.etag.is_empty() && !stored.etag.contains('"'), "{stored:?}");
    assert_eq!(service.audit().await?.faults, [""; 0]);
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn an_upload_that_is_found_late_replaces_no_later_one() -> TestResult {
    let (service, owner) = start().await?;
    let (earlier, earlier_at) = target(&service, "same").await?;
    service.clock.advance(Duration::from_secs(14 * 60 + 50));
    let (later, later_at) = target(&service, "same").await?;
    service.objects.reconcile_and_forget().await?;
    put(&earlier_at).await?;
    // Dates of the store may be in whole seconds.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    put(&later_at).await?;
    let stored = || service.database.object(&later.bucket, &later.key);
    for wait in [Duration::ZERO, Duration::from_mins(15)] {
        service.clock.advance(wait);
        service.objects.reconcile_and_forget().await?;
        assert_eq!(stored().await?.map(|object| object.blob), Some(later.id.clone()), "after {wait:?}");
    }
    assert!(service.database.target(&earlier.id).await?.is_some_and(|target| target.is_void));
    service.database.delete_file(Some(owner), &later.bucket, &later.key, service.clock.now()).await?;
    service.objects.reconcile_and_forget().await?;
    assert!(stored().await?.is_none(), "the earlier file does not come back");
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn an_upload_is_a_file_though_no_job_ran_for_an_hour() -> TestResult {
    let (service, owner) = start().await?;
    put(&target(&service, "forgotten").await?.1).await?;
    service.clock.advance(Duration::from_mins(74));
    service.objects.reconcile_and_forget().await?;
    assert_eq!(files(&service, owner).await?, 1);
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn an_object_without_a_row_is_marked_and_removed_after_the_retention() -> TestResult {
    let (service, owner) = start().await?;
    let store = service.objects.blobs.remote().ok_or("there is no bucket")?;
    let stray = store.begin()?.commit().await?.name;
    put(&target(&service, "unseen").await?.1).await?;
    let soon = SystemTime::now() + Duration::from_hours(1);
    let orphans = || service.objects.blobs.orphans().try_concat();

    service.objects.sweep(service.objects.blobs.opened_at()).await?;
    assert!(orphans().await?.is_empty(), "an upload may be that young");
    service.objects.sweep(soon).await?;
    service.objects.sweep(soon).await?;
    let marked = orphans().await?;
    assert_eq!(marked.iter().map(|orphan| &orphan.name).collect::<Vec<_>>(), [&stray]);
    assert_eq!(files(&service, owner).await?, 1);
    assert!(store.open(&stray).await?.is_some(), "it is only marked");

    service.clock.advance(service.objects.orphan_retention + Duration::from_hours(2 * 24));
    service.objects.sweep(soon).await?;
    assert!(store.open(&stray).await?.is_none());
    assert!(orphans().await?.is_empty());
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn a_listing_begins_with_the_oldest_target_and_goes_on_page_by_page() -> TestResult {
    let (service, owner) = start().await?;
    let store = service.objects.blobs.remote().ok_or("there is no bucket")?;
    let bucket = store.direct().ok_or("every byte passes the service")?;
    let put_blob = async |name: &str| bucket.put_text(&format!("blobs/{name}"), "").await;
    for name in ["00000000-0000-4000-8000-000000000000", &"z".repeat(26), &"2".repeat(26)] {
        put_blob(name).await?;
    }
    let day_ago = Randomness::new(None).uuid_by_time(service.clock.now().before(Duration::from_hours(24)))?;
    put_blob(&day_ago).await?;
    let since = service.clock.now().before(Duration::from_mins(1));
    let mut names = Vec::new();
    for _ in 0..1_003 {
        names.push(service.objects.target_id(service.clock.now())?);
    }
    names.sort();
    futures_util::stream::iter(&names)
        .map(|name| put_blob(name))
        .buffer_unordered(16)
        .try_collect::<Vec<_>>()
        .await?;
    let pages: Vec<Vec<_>> = store.uploads(since, service.clock.now()).try_collect().await?;
    let listed: Vec<_> = pages.iter().flatten().map(|blob| &blob.name).collect();
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [1_000, 3]);
    assert_eq!(listed, names.iter().collect::<Vec<_>>());
    let all: Vec<_> = store.blobs().try_concat().await?;
    assert_eq!(all.len(), 1_007);
    put(&target(&service, "among them").await?.1).await?;
    service.objects.reconcile(TargetsOf::Folder(owner, "samples")).await?;
    assert_eq!(files(&service, owner).await?, 1);
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn a_direct_upload_is_swept_after_a_change_to_indirect_uploads() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut config = Config { objects: Some(bucket()?), ..Config::folder(folder.path()) };
    let service = Service::start(config.clone()).await?;
    put(&target(&service, "listed").await?.1).await?;
    put(&target(&service, "unseen").await?.1).await?;
    service.shutdown().await;

    config.objects.as_mut().ok_or("no bucket")?.is_direct = false;
    let service = Service::start(config).await?;
    let owner = service.database.account("demo").await?.ok_or("no account")?;
    service.objects.run_sweeper().await?;
    assert_eq!(files(&service, owner.id).await?, 2);
    let url = service.objects.locations.url(&owner.bucket, "samples/listed");
    let client = inferstore_fetch::over_ring(reqwest::Client::builder()).no_proxy().build()?;
    assert_eq!(client.get(url).send().await?.bytes().await?.len(), 5_242_881);
    assert_eq!(service.audit().await?.faults, [""; 0]);
    Ok(())
}
