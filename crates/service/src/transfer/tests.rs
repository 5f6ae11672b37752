//! A service moves between folders and buckets, and its callers notice nothing.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::manifest::MANIFEST;
use super::{DataLocation, Transferred};
use crate::files::MAX_FORM_FILE;
use crate::object_storage::slow_store_tests::start_store;
use crate::object_storage::tests::Painter;
use crate::{AccountOverview, Config, Service};

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const STORAGE_URL: &str = "http://files.example";
const LARGE: u64 = MAX_FORM_FILE + 1;

pub(crate) struct Caller {
    key: String,
    urls: Vec<(String, Vec<u8>)>,
    history: Value,
    target: (String, String),
    accounts: Vec<AccountOverview>,
}

pub(crate) async fn start(mut config: Config) -> TestResult<Service> {
    config.storage_url = Some(STORAGE_URL.to_owned());
    config.workers = 1;
    Ok(Service::start_with_models(config, vec![Arc::new(Painter)]).await?)
}

async fn send(router: Router, request: Request<Body>) -> TestResult<(u16, Vec<u8>)> {
    let response = router.oneshot(request).await?;
    let status = response.status().as_u16();
    Ok((status, to_bytes(response.into_body(), usize::MAX).await?.to_vec()))
}

async fn storage(service: &Service, method: &str, url: &str, body: Vec<u8>) -> TestResult<(u16, Vec<u8>)> {
    let path = url.strip_prefix(STORAGE_URL).ok_or("not a URL of object storage")?;
    let request = Request::builder().method(method).uri(path).header("content-type", "text/plain");
    let request = request.header("content-length", body.len()).body(Body::from(body))?;
    send(service.routers.storage.clone(), request).await
}

impl Caller {
    async fn call(
        &self,
        service: &Service,
        method: &str,
        path: &str,
        body: Value,
    ) -> TestResult<(u16, Value)> {
        let request = Request::builder().method(method).uri(format!("/api/v1/api-key{path}"));
        let request = request.header("x-api-key", &self.key).header("content-type", "application/json");
        let request = request.body(Body::from(body.to_string()))?;
        let (status, text) = send(service.routers.api.clone(), request).await?;
        Ok((status, serde_json::from_slice(&text)?))
    }

    async fn presign(&self, service: &Service, name: &str) -> TestResult<(String, String)> {
        let body = json!({ "folder": "samples", "mime": "text/plain", "name": name, "size": LARGE });
        let (_, target) = self.call(service, "POST", "/storage/upload/create-presigned-url", body).await?;
        let text = |name: &str| target["data"][name].as_str().map(str::to_owned);
        let missing = || target.to_string();
        Ok((text("endpoint").ok_or_else(missing)?, text("download_url").ok_or_else(missing)?))
    }

    async fn paint(&self, service: &Service, input: &str) -> TestResult<String> {
        let create = "/model/low-light-enhancement/task";
        let (_, created) = self.call(service, "POST", create, json!({ "input_image": input })).await?;
        let task = created["data"]["data"].as_str().ok_or_else(|| created.to_string())?.to_owned();
        loop {
            let path = format!("/task/{task}/detail");
            let (_, task) = self.call(service, "GET", &path, Value::Null).await?;
            if let Some(url) = task["data"]["result"]["result"]["output_image"].as_str() {
                return Ok(url.to_owned());
            }
            if task["data"]["status"] == "failed" {
                return Err(task.to_string().into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn history(&self, service: &Service) -> TestResult<Value> {
        Ok(self.call(service, "GET", "/task/histories?limit=10", Value::Null).await?.1)
    }

    pub(crate) async fn new(service: &Service) -> TestResult<Self> {
        let mut caller = Self {
            key: service.add_key("demo").await?,
            urls: Vec::new(),
            history: Value::Null,
            target: Default::default(),
            accounts: Vec::new(),
        };
        let (endpoint, url) = caller.presign(service, "file").await?;
        let bytes = vec![5; LARGE as usize];
        assert_eq!(storage(service, "PUT", &endpoint, bytes.clone()).await?.0, 200);
        let output = caller.paint(service, &url).await?;
        caller.urls = vec![(url, bytes), (output, b"picture".to_vec())];
        caller.target = caller.presign(service, "later").await?;
        caller.history = caller.history(service).await?;
        caller.accounts = service.accounts().await?;
        assert!(service.audit().await?.faults.is_empty());
        Ok(caller)
    }

    pub(crate) async fn check(&self, service: &Service) -> TestResult {
        assert_eq!(service.accounts().await?, self.accounts);
        assert_eq!(self.history(service).await?, self.history);
        assert_eq!(service.audit().await?.faults, [""; 0]);
        for (url, bytes) in &self.urls {
            let (status, found) = storage(service, "GET", url, Vec::new()).await?;
            assert!(status == 200 && found == *bytes, "{url}: {status}");
        }
        Ok(())
    }

    pub(crate) async fn go_on(&self, service: &Service) -> TestResult {
        let (endpoint, later) = &self.target;
        assert_eq!(storage(service, "PUT", endpoint, vec![6; LARGE as usize]).await?.0, 200);
        assert_eq!(storage(service, "GET", later, Vec::new()).await?.1, vec![6; LARGE as usize]);
        let file = &self.urls[0].0;
        let output = self.paint(service, file).await?;
        assert_eq!(storage(service, "GET", &output, Vec::new()).await?.1, b"picture");
        for status in [200, 404] {
            let url = json!({ "url": file });
            assert_eq!(self.call(service, "DELETE", "/storage/store/url", url).await?.0, status);
        }
        assert_eq!(storage(service, "GET", file, Vec::new()).await?.0, 404);
        assert_eq!(service.audit().await?.faults, [""; 0]);
        Ok(())
    }
}

async fn filled(folder: &Path) -> TestResult<Caller> {
    let service = start(Config::folder(folder)).await?;
    let caller = Caller::new(&service).await?;
    service.shutdown().await;
    Ok(caller)
}

fn file_names(export: &Path) -> TestResult<Vec<String>> {
    let files = fs::read_to_string(export.join("files.jsonl"))?;
    let name = |line| Ok(serde_json::from_str::<Value>(line)?["name"].as_str().ok_or("no name")?.to_owned());
    files.lines().map(name).collect()
}

fn refusal<T, E: ToString>(result: Result<T, E>) -> String {
    result.err().map(|refused| refused.to_string()).unwrap_or_default()
}

#[tokio::test]
async fn a_service_moves_from_a_folder_to_a_bucket_and_back() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let caller = filled(&path("first")).await?;
    let first = DataLocation::new(path("first"), None, None);
    let exported = first.export(&path("export")).await?;
    assert_eq!((exported.objects, exported.missing, exported.tasks), (2, 0, 1));
    assert_eq!(exported.bytes, LARGE + 7);

    let bucket = start_store(false, true).await?.1;
    let second = DataLocation::new(path("second"), None, Some(bucket.clone()));
    assert_eq!(second.import(&path("export")).await?, exported);
    let in_bucket = Config { objects: Some(bucket), ..Config::folder(path("second")) };
    let service = start(in_bucket).await?;
    caller.check(&service).await?;
    service.shutdown().await;

    let exported = second.export(&path("export-2")).await?;
    let third = DataLocation::new(path("third"), None, None);
    assert_eq!(third.import(&path("export-2")).await?, exported);
    let service = start(Config::folder(path("third"))).await?;
    caller.check(&service).await?;
    caller.go_on(&service).await?;
    service.shutdown().await;

    let service = start(Config::folder(path("first"))).await?;
    caller.check(&service).await?;
    service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn an_export_or_an_import_that_was_interrupted_is_run_again() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let caller = filled(&path("data")).await?;
    let data = DataLocation::new(path("data"), None, None);
    fs::create_dir_all(path("export/tables/objects.jsonl"))?;
    fs::write(path("export/unfinished"), "")?;
    assert!(refusal(data.export(&path("export")).await).contains("objects.jsonl"));
    let target = DataLocation::new(path("new"), None, None);
    assert!(refusal(target.import(&path("export")).await).contains(MANIFEST));
    fs::remove_dir(path("export/tables/objects.jsonl"))?;
    let exported = data.export(&path("export")).await?;
    assert!(refusal(data.export(&path("export")).await).contains("not empty"));

    let names = file_names(&path("export"))?;
    let at = |name: &str| Path::new(&name[..2]).join(name);
    let file = path("export/files").join(at(&names[1]));
    fs::rename(&file, path("away"))?;
    assert!(refusal(target.import(&path("export")).await).contains(&names[1]));
    let stored = path("new/objects/blobs").join(at(&names[0]));
    fs::create_dir_all(stored.parent().ok_or("no folder")?)?;
    fs::copy(path("export/files").join(at(&names[0])), stored)?;
    let half = start(Config::folder(path("new"))).await;
    assert!(refusal(half).contains("has not ended"), "nothing starts on a half");

    fs::rename(path("away"), &file)?;
    // As if a kill came before there was a database.
    fs::create_dir_all(path("killed/inferstore.db"))?;
    let killed = DataLocation::new(path("killed"), None, None);
    assert!(refusal(killed.import(&path("export")).await).contains("inferstore.db"));
    fs::remove_dir(path("killed/inferstore.db"))?;
    let fresh = start(Config::folder(path("killed"))).await;
    assert!(refusal(fresh).contains("has not ended"));
    assert_eq!(killed.import(&path("export")).await?, exported);

    assert_eq!(target.import(&path("export")).await?, exported);
    let service = start(Config::folder(path("new"))).await?;
    caller.check(&service).await?;
    caller.go_on(&service).await?;
    service.shutdown().await;
    // Also of a database that was used since.
    let repeated = target.import(&path("export")).await?;
    assert_eq!(repeated, Transferred { is_repeated: true, ..exported });
    fs::rename(path("new/objects"), path("away"))?;
    assert!(refusal(target.import(&path("export")).await).contains("its files are elsewhere"));
    fs::rename(path("away"), path("new/objects"))?;

    // As if another database imported the same export into the files that a database uses.
    for entry in ["inferstore.db", "inferstore.db-wal", "inferstore.db-shm"] {
        let _ = fs::remove_file(path("new").join(entry));
    }
    assert!(refusal(target.import(&path("export")).await).contains("another database uses"));
    Ok(())
}

#[tokio::test]
async fn a_file_that_was_changed_and_a_place_that_is_in_use_are_refused() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    filled(&path("data")).await?;
    let data = DataLocation::new(path("data"), None, None);
    data.export(&path("export")).await?;
    let target = || DataLocation::new(path("new"), None, None);

    for changed in ["tables/accounts.jsonl", "files.jsonl"] {
        let kept = fs::read(path("export").join(changed))?;
        fs::write(path("export").join(changed), [&kept[..], b"\n"].concat())?;
        assert!(refusal(target().import(&path("export")).await).contains("not the file"), "{changed}");
        fs::write(path("export").join(changed), kept)?;
    }
    let manifest = fs::read_to_string(path("export").join(MANIFEST))?;
    let other = manifest.replacen("\"format\": \"", "\"format\": \"0", 1);
    fs::write(path("export").join(MANIFEST), other)?;
    assert!(refusal(target().import(&path("export")).await).contains("other tables"));
    fs::write(path("export").join(MANIFEST), manifest)?;

    // A file of the same size: a link would change the original.
    let name = &file_names(&path("export"))?[0];
    let file = path("export/files").join(&name[..2]).join(name);
    let bytes = fs::read(&file)?;
    fs::remove_file(&file)?;
    fs::write(&file, vec![0; bytes.len()])?;
    assert!(refusal(target().import(&path("export")).await).contains("not the one that was exported"));
    fs::write(&file, bytes)?;

    assert!(refusal(data.import(&path("export")).await).contains("not empty"));
    filled(&path("other")).await?;
    for entry in ["inferstore.db", "inferstore.db-wal", "inferstore.db-shm"] {
        let _ = fs::remove_file(path("other").join(entry));
    }
    let other = DataLocation::new(path("other"), None, None);
    assert!(refusal(other.import(&path("export")).await).contains("not those of this export"));

    let service = start(Config::folder(path("data"))).await?;
    assert!(refusal(data.export(&path("export-2")).await).contains("another service uses it"));
    service.shutdown().await;
    assert!(
        refusal(DataLocation::new(path("none"), None, None).export(&path("x")).await).contains("no embedded")
    );
    Ok(())
}

/// Run it with `--release -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "takes a minute"]
async fn an_export_of_many_tasks_and_files_adds_up() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let caller = filled(&path("data")).await?;
    let database = rusqlite::Connection::open(path("data").join(crate::database::FILE))?;
    database.execute_batch(
        "CREATE TEMP TABLE numbers AS WITH RECURSIVE n (value) AS \
            (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 100000) SELECT value FROM n; \
         INSERT INTO tasks (id, account, place, model, version, publisher, status, price, held_free, held_balance, cost, \
            input, output, created_at, updated_at) \
         SELECT 'task-' || value, account, value, model, version, publisher, status, 5, 5, 0, 5, input, output, \
            created_at, updated_at FROM tasks, numbers WHERE sequence = 1; \
         INSERT INTO movements (at, amount, to_account, to_purse, reason) \
         SELECT created_at, 500000, account, 'free', 'credit' FROM tasks WHERE sequence = 1; \
         INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason, task) \
         SELECT created_at, 5, account, 'free', account, 'held', 'reserve', id FROM tasks WHERE sequence > 1; \
         INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason, task) \
         SELECT created_at, 5, account, 'held', publisher, 'earnings', 'charge', id FROM tasks WHERE sequence > 1; \
         INSERT INTO purses SELECT publisher, 'earnings', 500000 FROM tasks WHERE sequence = 1 \
            ON CONFLICT DO UPDATE SET amount = amount + 500000; \
         UPDATE accounts SET tasks = tasks + 100000 WHERE id = (SELECT account FROM tasks WHERE sequence = 1); \
         INSERT INTO objects (id, bucket, key, category, mime, size, etag, blob, created_at, output_of) \
         SELECT 'o' || value, bucket, 'many/' || value, category, mime, 4, etag, printf('%026d', value), created_at, \
            output_of FROM objects, numbers WHERE owner IS NULL AND value <= 1000",
    )?;
    drop(database);
    let blobs = path("data/objects/blobs/00");
    fs::create_dir_all(&blobs)?;
    for number in 1..=1000 {
        fs::write(blobs.join(format!("{number:026}")), "blob")?;
    }
    let begun = std::time::Instant::now();
    let exported = DataLocation::new(path("data"), None, None).export(&path("export")).await?;
    let export = begun.elapsed();
    assert_eq!((exported.tasks, exported.objects, exported.missing), (100_001, 1_002, 0));
    assert_eq!(exported.audit.faults, [""; 0]);
    let bucket = start_store(false, true).await?.1;
    let begun = std::time::Instant::now();
    let target = DataLocation::new(path("new"), None, Some(bucket.clone()));
    assert_eq!(target.import(&path("export")).await?, exported);
    #[expect(clippy::print_stderr, reason = "the result of a measurement")]
    {
        eprintln!("export {export:?}, import {:?}", begun.elapsed());
    }
    let service = start(Config { objects: Some(bucket), ..Config::folder(path("new")) }).await?;
    for (url, bytes) in &caller.urls {
        assert!(storage(&service, "GET", url, Vec::new()).await?.1 == *bytes);
    }
    service.shutdown().await;
    Ok(())
}
