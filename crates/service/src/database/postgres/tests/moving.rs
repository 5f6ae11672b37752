//! A service moves from one machine to PostgreSQL and a bucket, and back.

use super::server::Empty;
use crate::object_storage::slow_store_tests::start_store;
use crate::transfer::DataLocation;
use crate::transfer::tests::{Caller, TestResult, start};
use crate::{Config, Service};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_service_moves_from_one_machine_to_many_and_back() -> TestResult {
    let (empty, folder) = (Empty::new(), tempfile::tempdir()?);
    let path = |name: &str| folder.path().join(name);
    let service = start(Config::folder(path("one"))).await?;
    let caller = Caller::new(&service).await?;
    service.shutdown().await;
    let one = DataLocation::new(path("one"), None, None);
    let exported = one.export(&path("export")).await?;

    let (url, bucket) = (Some(empty.url().await.parse()?), start_store(false, true).await?.1);
    let many = DataLocation::new(path("unused"), url.clone(), Some(bucket.clone()));
    assert_eq!(many.import(&path("export")).await?, exported);
    assert!(!path("unused").exists(), "nothing is kept in a folder");
    assert!(many.import(&path("export")).await?.is_repeated, "an import that is done changes nothing");
    let process = |name: &str| Config {
        database: url.clone(),
        objects: Some(bucket.clone()),
        ..Config::folder(path(name))
    };
    let (first, second): (Service, Service) = (start(process("a")).await?, start(process("b")).await?);
    caller.check(&first).await?;
    caller.check(&second).await?;
    first.shutdown().await;
    second.shutdown().await;

    let exported = many.export(&path("export-2")).await?;
    let back = DataLocation::new(path("back"), None, None);
    assert_eq!(back.import(&path("export-2")).await?, exported);
    let service = start(Config::folder(path("back"))).await?;
    caller.check(&service).await?;
    caller.go_on(&service).await?;
    service.shutdown().await;
    Ok(())
}
