//! The jobs of a service whose files are in a bucket, against a real object store, which `.ci/cluster` starts and
//! names in `INFERSTORE_TEST_OBJECTS`: uploads that no one looks at, late uploads, orphans.

use std::error::Error;
use std::time::{Duration, SystemTime};

use super::{Target, TargetsOf};
use crate::accounts::AccountId;
use crate::lifecycle::app::App;
use crate::{Config, S3Config, Service};

pub(super) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// A prefix of its own in the bucket of the environment.
pub(super) fn bucket() -> Outcome<S3Config> {
    let variable = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let url = variable("INFERSTORE_TEST_OBJECTS")?;
    let (bucket, parameters) = url.split_once('?').ok_or("the bucket has no parameters")?;
    let url = format!("{bucket}/{:016x}?{parameters}", fastrand::u64(..));
    Ok(S3Config::new(&url, &variable("AWS_ACCESS_KEY_ID")?, &variable("AWS_SECRET_ACCESS_KEY")?)?)
}

async fn start() -> Outcome<(Service, AccountId)> {
    let mut config = Config::ephemeral();
    config.objects = Some(bucket()?);
    let service = Service::start(config).await?;
    let account = service.app.database.account("demo").await?.ok_or("no account")?;
    Ok((service, account.id))
}

/// Issues a target for a large file.
pub(super) async fn target(app: &App, name: &str) -> Outcome<(Target, String)> {
    let owner = app.database.account("demo").await?.ok_or("no account")?;
    let expires_at = app.clock.now().after(Duration::from_mins(15));
    let target = Target::of_owner(app.random.uuid()?, (owner.id, &owner.bucket), name, 5_242_881, expires_at);
    app.database.add_target(&target).await?;
    let presigned = app.objects.presign(&target, Duration::from_mins(15))?;
    Ok((target, presigned.endpoint))
}

async fn put(endpoint: &str) -> Outcome {
    let client = inferstore_fetch::over_ring(reqwest::Client::builder()).no_proxy().build()?;
    let request = client.put(endpoint).header("content-type", "text/plain");
    let response = request.body(vec![1; 5_242_881]).send().await?;
    if response.status().is_success() { Ok(()) } else { Err(response.text().await?.into()) }
}

async fn files(app: &App, owner: AccountId) -> Outcome<u64> {
    Ok(app.database.usage(owner).await?.files)
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn what_no_one_looks_at_is_a_file_before_its_target_expires() -> Outcome {
    let (service, owner) = start().await?;
    let app = &service.app;
    let (_, endpoint) = target(app, "unseen").await?;
    put(&endpoint).await?;
    app.objects.settle_expiring(app).await?;
    assert_eq!(files(app, owner).await?, 0, "its target lives for a quarter of an hour");
    app.clock.advance(Duration::from_secs(15 * 60 - 20));
    app.objects.settle_expiring(app).await?;
    assert_eq!(files(app, owner).await?, 1);
    assert_eq!(service.audit().await?.faults, [""; 0]);
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn an_upload_that_ends_after_its_target_has_expired_is_a_file() -> Outcome {
    let (service, owner) = start().await?;
    let app = &service.app;
    let (_, endpoint) = target(app, "late").await?;
    app.clock.advance(Duration::from_mins(16));
    app.objects.settle_expiring(app).await?;
    // The store goes by its own clock, as for an upload that began in time.
    put(&endpoint).await?;
    app.objects.settle_expiring(app).await?;
    assert_eq!(files(app, owner).await?, 0);
    app.clock.advance(Duration::from_hours(1));
    app.objects.settle_expiring(app).await?;
    assert_eq!(files(app, owner).await?, 1);
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn an_upload_that_is_found_late_replaces_no_later_one() -> Outcome {
    let (service, owner) = start().await?;
    let app = &service.app;
    let (earlier, earlier_at) = target(app, "same").await?;
    app.clock.advance(Duration::from_secs(14 * 60 + 50));
    let (later, later_at) = target(app, "same").await?;
    app.objects.settle_expiring(app).await?;
    put(&earlier_at).await?;
    // Dates of the store are in whole seconds.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    put(&later_at).await?;
    let stored = || app.database.object(&later.bucket, &later.key);
    for wait in [Duration::from_mins(15), Duration::from_mins(55)] {
        app.clock.advance(wait);
        app.objects.settle_expiring(app).await?;
        assert_eq!(stored().await?.map(|object| object.blob), Some(later.id.clone()), "after {wait:?}");
    }
    assert!(app.database.target(&earlier.id).await?.is_some_and(|target| target.is_void));
    app.database.delete_file(owner, &later.bucket, &later.key, app.clock.now()).await?;
    app.objects.settle(app, TargetsOf::Owner(owner)).await?;
    assert!(stored().await?.is_none(), "the earlier file does not come back");
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn opening_a_url_looks_for_a_few_of_the_targets_of_its_name() -> Outcome {
    let (service, owner) = start().await?;
    let app = &service.app;
    let (first, endpoint) = target(app, "many").await?;
    put(&endpoint).await?;
    app.clock.advance(Duration::from_secs(1));
    for _ in 0..50 {
        target(app, "many").await?;
    }
    app.objects.settle(app, TargetsOf::Object { bucket: &first.bucket, key: &first.key }).await?;
    assert_eq!(files(app, owner).await?, 0);
    app.objects.settle(app, TargetsOf::Owner(owner)).await?;
    assert_eq!(files(app, owner).await?, 1, "the owner looks for all");
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn an_upload_is_a_file_though_no_job_ran_for_days() -> Outcome {
    let (service, owner) = start().await?;
    let app = &service.app;
    put(&target(app, "forgotten").await?.1).await?;
    app.clock.advance(Duration::from_hours(3 * 24));
    app.objects.sweep(app, app.objects.blobs.opened_at()).await?;
    assert_eq!(files(app, owner).await?, 1);
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn an_object_without_a_row_is_marked_and_removed_when_the_retention_is_over() -> Outcome {
    let (service, owner) = start().await?;
    let app = &service.app;
    let store = app.objects.blobs.remote().ok_or("there is no bucket")?;
    let (_, pending_at) = target(app, "pending").await?;
    let (deleted, deleted_at) = target(app, "deleted").await?;
    put(&pending_at).await?;
    put(&deleted_at).await?;
    app.objects.settle(app, TargetsOf::Object { bucket: &deleted.bucket, key: &deleted.key }).await?;
    app.database.delete_file(owner, &deleted.bucket, &deleted.key, app.clock.now()).await?;
    let soon = SystemTime::now() + Duration::from_hours(1);

    app.objects.sweep(app, app.objects.blobs.opened_at()).await?;
    assert!(app.objects.blobs.orphans().await?.is_empty(), "an upload may be that young");
    app.objects.sweep(app, soon).await?;
    app.objects.sweep(app, soon).await?;
    let orphans = app.objects.blobs.orphans().await?;
    assert_eq!(orphans.iter().map(|orphan| &orphan.name).collect::<Vec<_>>(), [&deleted.id]);
    assert!(store.look(&deleted.id).await?.is_some(), "it is only marked");

    app.clock.advance(app.config.orphan_retention + Duration::from_hours(2 * 24));
    app.objects.sweep(app, soon).await?;
    assert!(store.look(&deleted.id).await?.is_none());
    assert!(app.objects.blobs.orphans().await?.is_empty());
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn of_thousands_of_targets_every_upload_is_found() -> Outcome {
    let (service, owner) = start().await?;
    let app = &service.app;
    let mut endpoints = Vec::new();
    for number in 0..2_100 {
        endpoints.push(target(app, &number.to_string()).await?.1);
    }
    for number in [7, 1_007, 2_007] {
        put(&endpoints[number]).await?;
    }
    app.objects.settle(app, TargetsOf::Folder(owner, "samples")).await?;
    assert_eq!(files(app, owner).await?, 3, "a listing of the folder");
    put(&endpoints[8]).await?;
    app.clock.advance(Duration::from_mins(15));
    app.objects.settle_expiring(app).await?;
    assert_eq!(files(app, owner).await?, 4, "the job");
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn an_upload_straight_to_the_store_is_a_file_though_callers_use_the_service_from_now_on() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut config = Config { objects: Some(bucket()?), ..Config::folder(folder.path()) };
    let service = Service::start(config.clone()).await?;
    put(&target(&service.app, "listed").await?.1).await?;
    put(&target(&service.app, "unseen").await?.1).await?;
    service.shutdown().await;

    config.objects.as_mut().ok_or("no bucket")?.is_direct = false;
    let service = Service::start(config).await?;
    let app = &service.app;
    let owner = app.database.account("demo").await?.ok_or("no account")?;
    app.objects.settle(app, TargetsOf::Object { bucket: &owner.bucket, key: "samples/listed" }).await?;
    assert_eq!(files(app, owner.id).await?, 1, "whoever looks");
    app.clock.advance(Duration::from_mins(15));
    app.objects.settle_expiring(app).await?;
    assert_eq!(files(app, owner.id).await?, 2, "the job");
    let url = app.objects.locations.url(&owner.bucket, "samples/listed");
    let client = inferstore_fetch::over_ring(reqwest::Client::builder()).no_proxy().build()?;
    assert_eq!(client.get(url).send().await?.bytes().await?.len(), 5_242_881);
    assert_eq!(service.audit().await?.faults, [""; 0]);
    Ok(())
}
