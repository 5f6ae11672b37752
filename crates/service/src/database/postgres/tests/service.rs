//! Whole services over one database: how they start beside each other.

use super::server::Empty;
use crate::lifecycle::cluster::Roles;
use crate::{Config, Service};

async fn config(empty: &Empty, folder: &std::path::Path) -> Config {
    let mut config = Config::folder(folder);
    config.database = Some(empty.url().await.parse().unwrap());
    config.workers = 1;
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_over_postgresql_starts_again_and_keeps_its_books() {
    let (empty, folder) = (Empty::new(), tempfile::tempdir().unwrap());
    let service = Service::start(config(&empty, folder.path()).await).await.unwrap();
    assert!(service.api_key().is_some());
    let mut admin = crate::AdminClient::open(folder.path()).await.unwrap();
    let credit = r#"{"free": "2"}"#.to_owned();
    admin.call("POST", &["accounts", "demo", "credits"], Some(credit)).await.unwrap();
    admin.close().await;
    let accounts = service.accounts().await.unwrap();
    service.shutdown().await;
    let stopped = crate::AdminClient::open(folder.path()).await.unwrap_err();
    assert!(stopped.hint().unwrap().contains("PostgreSQL has to run"), "{stopped}");

    let service = Service::start(config(&empty, folder.path()).await).await.unwrap();
    assert!(service.api_key().is_none(), "the first start has shown it");
    assert_eq!(service.accounts().await.unwrap(), accounts);
    assert_eq!(service.audit().await.unwrap().faults, [""; 0]);
    assert!(!folder.path().join("inferstore.db").exists(), "nothing is kept in SQLite beside it");
    service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_folder_of_files_over_one_database_is_refused() {
    let (empty, one, other) = (Empty::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let service = Service::start(config(&empty, one.path()).await).await.unwrap();
    let refused = Service::start(config(&empty, other.path()).await).await.err().unwrap();
    assert!(refused.hint().unwrap().contains("--objects"), "{refused}");
    service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_serves_what_its_roles_are() {
    let (empty, folder) = (Empty::new(), tempfile::tempdir().unwrap());
    let mut jobs = config(&empty, folder.path()).await;
    jobs.roles = "jobs".parse().unwrap();
    let service = Service::start(jobs).await.unwrap();
    assert_eq!((service.base_url(), service.api_key()), ("", None), "it serves no API and adds no account");
    service.shutdown().await;

    let mut api = config(&empty, folder.path()).await;
    api.roles = Roles { nodes: false, jobs: false, ..Roles::default() };
    let service = Service::start(api).await.unwrap();
    assert!(service.base_url().ends_with("/api/v1") && service.api_key().is_some());
    assert!(service.nodes_url().is_none());
    service.shutdown().await;
}
