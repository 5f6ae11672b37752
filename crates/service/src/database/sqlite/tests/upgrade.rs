//! Migrations of databases that older versions have written.

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request};
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::super::{SCHEMA, SqliteDatabase};
use super::{Durability, Folder};
use crate::accounts::{AccountId, Accounts as _};
use crate::files::{FilePages as _, Replaces, Target};
use crate::ledger::MovementSums as _;
use crate::queue::Queue as _;
use crate::{Config, DataLocation, Service};

#[tokio::test]
async fn a_database_of_any_older_version_keeps_its_rows() {
    for version in 1..SCHEMA.len() {
        let folder = Folder::new();
        let old = Connection::open(folder.file()).unwrap();
        for sql in &SCHEMA[..version] {
            old.execute_batch(sql).unwrap();
        }
        old.pragma_update(None, "user_version", i64::try_from(version).unwrap()).unwrap();
        old.execute_batch(
            "INSERT INTO accounts (id, username, scope, wallet_address, bucket, created_at, metered_at, \
             stored_bytes) VALUES (1, 'anna', 'personal', '0x', 'files', 0, 0, 7); \
             INSERT INTO objects (id, bucket, key, owner, folder, category, mime, size, etag, blob, created_at) \
             VALUES ('i', 'files', 'covers/a.png', 1, 'covers', 'image', 'image/png', 7, 'e', 'b', 0);",
        )
        .unwrap();
        // The counters of versions before the ninth included deleted tasks.
        if version < 9 {
            old.execute_batch("UPDATE task_counts SET tasks = 7 WHERE status = 'success'").unwrap();
        }
        if version >= 4 {
            old.execute_batch("UPDATE objects SET payer = owner").unwrap();
        }
        drop(old);
        let database = folder.sqlite().await;
        assert_eq!(database.account("anna").await.unwrap().unwrap().id, AccountId(1));
        let (files, total) = database.files(AccountId(1), "covers", None, 1, 10).await.unwrap();
        assert_eq!((files[0].key.as_str(), total), ("covers/a.png", 1));
        assert_eq!(database.audit().await.unwrap().faults, Vec::<String>::new());
        assert!(database.depths().await.unwrap().iter().all(|(_, tasks)| *tasks == 0));
    }
}

/// File that the first versions served as `http://files.example/files-demo/samples/a.png`.
const PICTURE: &[u8] = include_bytes!("../../../../../models/tests/golden/color-extraction.png");
const OLD_URLS_LISTED: usize = 13;
const OLD_TASK: &str = "00000000-0000-4000-8000-000000000001";

fn write_data_folder(folder: &Path, version: usize) {
    let old = Connection::open(folder.join("inferstore.db")).unwrap();
    for sql in &SCHEMA[..version] {
        old.execute_batch(sql).unwrap();
    }
    old.pragma_update(None, "user_version", i64::try_from(version).unwrap()).unwrap();
    old.execute_batch(
        "INSERT INTO settings VALUES ('first account', 'demo'); \
         INSERT INTO accounts (id, username, scope, wallet_address, bucket, created_at, metered_at, tasks) VALUES \
         (1, 'inferstore', 'organization', '0x', 'files-inferstore', 0, 0, 0), \
         (2, 'demo', 'personal', '0y', 'files-demo', 0, 0, 1); \
         INSERT INTO models (id, sequence, name, owner, description, is_official, is_verified, is_public, \
         is_playground, price, metadata, likes, downloads, created_at, updated_at, folded_name, folded_description) \
         VALUES ('low-light-enhancement', 1, 'Old', 1, '', 1, 1, 1, 0, 0, '{}', 0, 0, 0, 0, 'old', ''); \
         INSERT INTO versions (id, model, commit_hash, is_active, input_format, output_format, created_at) \
         VALUES (1, 'low-light-enhancement', 'old', 1, '{}', '{}', 0)",
    )
    .unwrap();
    let task = "INSERT INTO tasks (sequence, id, account, place, model, version, publisher, status, price, held_free, \
         held_balance, cost, input, output, created_at, updated_at) VALUES \
         (1, ?, 2, 0, 'low-light-enhancement', 1, 1, 'success', 0, 0, 0, 0, ?, '{}', 0, 0)";
    let input = json!({"input_image": "http://files.example/files-demo/samples/a.png"});
    old.execute(task, params![OLD_TASK, input.to_string()]).unwrap();
    let blob = "abcdefghijkmnpqrstuvwxyz23";
    let object = "INSERT INTO objects (id, bucket, key, owner, folder, category, mime, size, etag, blob, created_at) \
         VALUES ('i', 'files-demo', 'samples/a.png', 2, 'samples', 'image', 'image/png', ?, 'e', ?, 0)";
    old.execute(object, params![PICTURE.len(), blob]).unwrap();
    old.execute("UPDATE accounts SET stored_bytes = ? WHERE id = 2", [PICTURE.len()]).unwrap();
    if version >= 4 {
        old.execute_batch("UPDATE objects SET payer = owner").unwrap();
    }
    let blobs = folder.join("objects/blobs/ab");
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::write(blobs.join(blob), PICTURE).unwrap();
}

async fn call(service: &Service, key: &str, method: Method, path: &str, body: Value) -> (u16, Value) {
    let request =
        Request::builder().method(method).uri(format!("/api/v1/api-key{path}")).header("x-api-key", key);
    let request =
        request.header("content-type", "application/json").body(Body::from(body.to_string())).unwrap();
    let response = service.routers.api.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

async fn open(service: &Service, path: &str) -> (u16, Vec<u8>) {
    let request = Request::builder().uri(path).body(Body::empty()).unwrap();
    let response = service.routers.storage.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    (status, to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec())
}

async fn rerun(service: &Service, key: &str) {
    let (_, old) = call(service, key, Method::GET, &format!("/task/{OLD_TASK}/detail"), Value::Null).await;
    let input = old["data"]["input_data"]["input_image"].clone();
    assert!(input.is_string(), "{old}");
    let create = "/model/low-light-enhancement/task";
    let (status, created) = call(service, key, Method::POST, create, json!({"input_image": input})).await;
    assert_eq!(status, 200, "{created}");
    let path = format!("/task/{}/detail", created["data"]["data"].as_str().unwrap());
    loop {
        let (_, task) = call(service, key, Method::GET, &path, Value::Null).await;
        match task["data"]["status"].as_str() {
            Some("in_queue" | "computing") => tokio::time::sleep(Duration::from_millis(20)).await,
            status => break assert_eq!(status, Some("success"), "{task}"),
        }
    }
}

async fn moved(folder: &Path, data: PathBuf) -> PathBuf {
    let (export, new) = (folder.join("export"), folder.join("new"));
    let exported = DataLocation::new(data, None, None).export(&export).await.unwrap();
    let imported = DataLocation::new(&new, None, None).import(&export).await.unwrap();
    assert_eq!((exported.objects, exported.missing, &exported), (1, 0, &imported));
    new
}

#[tokio::test]
async fn urls_of_an_older_version_are_opened_read_by_tasks_and_deleted() {
    for version in 1..OLD_URLS_LISTED {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        write_data_folder(&data, version);
        let data = if version.is_multiple_of(2) { moved(folder.path(), data).await } else { data };
        let config = Config { storage_url: Some("http://files.example".to_owned()), ..Config::folder(data) };
        let service = Service::start(config).await.unwrap();
        let key = service.add_key("demo").await.unwrap();
        let (status, bytes) = open(&service, "/files-demo/samples/a.png").await;
        assert!(status == 200 && bytes == PICTURE, "version {version}: {status}");
        if matches!(version, 3 | 4) {
            rerun(&service, &key).await;
        }

        let database = &service.database;
        let owner = (AccountId(2), "files-demo");
        let target = Target::of_owner("new".to_owned(), owner, "b.png", 1, service.clock.now());
        assert!(database.add_target(&target, 1).await.unwrap());
        let object = target.object("b".repeat(26), String::new(), service.clock.now());
        database.store_upload("new", "new", &object, Replaces::Any).await.unwrap();
        assert_eq!(open(&service, "/files-demo/samples/b.png").await.0, 404, "version {version}");

        let url = json!({"url": "http://files.example/files-demo/samples/a.png"});
        for status in [200, 404] {
            let deleted = call(&service, &key, Method::DELETE, "/storage/store/url", url.clone()).await;
            assert_eq!(deleted.0, status, "version {version}: {}", deleted.1);
        }
        assert_eq!(open(&service, "/files-demo/samples/a.png").await.0, 404, "version {version}");
        service.shutdown().await;
    }
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused() {
    let folder = Folder::new();
    let file = folder.file();
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let refused = SqliteDatabase::open(&file, Durability::None).await.err().unwrap().to_string();
    assert!(refused.contains("newer version of the service (schema 99"), "{refused}");
}
