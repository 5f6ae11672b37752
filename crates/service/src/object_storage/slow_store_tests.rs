//! Tests with a scripted slow store: number of requests, names in memory, and responses to callers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use inferstore_wire::until;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use url::form_urlencoded;

use super::remote_tests::{SIZE, TestResult, target};
use crate::clock::Moment;
use crate::files::{Target, TargetsOf};
use crate::{Config, Error, S3Config, Service};

const PAGE: usize = 1_000;

const XMLNS: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

#[derive(Clone)]
struct Stored {
    size: u64,
    modified: Timestamp,
    text: String,
}

#[derive(Default)]
pub(crate) struct Store {
    objects: Mutex<BTreeMap<String, Stored>>,
    pages: AtomicUsize,
    heads: AtomicUsize,
    /// Number of scripted blobs in the listing beside the stored ones; one in a thousand is old.
    scripted: AtomicUsize,
    is_away: AtomicBool,
    responds: watch::Sender<bool>,
}

impl Store {
    fn put(&self, name: &str, size: u64, seconds_ago: i64) {
        let modified = Timestamp::now() - jiff::SignedDuration::from_secs(seconds_ago);
        let stored = Stored { size, modified, text: String::new() };
        self.objects.lock().insert(format!("blobs/{name}"), stored);
    }

    fn upload(&self, target: &Target) {
        self.put(&target.id, target.size, 0);
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let objects = self.objects.lock();
        objects.keys().filter_map(|key| key.strip_prefix(folder)).map(str::to_owned).collect()
    }

    fn script(&self, token: &str) -> String {
        let first: usize = token.parse().unwrap_or(0);
        let next = (first + PAGE).min(self.scripted.load(Ordering::SeqCst));
        let entry = |number: usize| {
            let year = if number.is_multiple_of(PAGE) { 2020 } else { 2120 };
            format!(
                "<Contents><Key>blobs/{number:08}aaaaaaaaaaaaaaaaaa</Key>\
                 <LastModified>{year}-01-01T00:00:00.000Z</LastModified><Size>1</Size></Contents>"
            )
        };
        let token = format!("<NextContinuationToken>{next}</NextContinuationToken>");
        let token = if next < self.scripted.load(Ordering::SeqCst) { token } else { String::new() };
        format!(
            "<ListBucketResult xmlns=\"{XMLNS}\">{}{token}</ListBucketResult>",
            (first..next).map(entry).collect::<String>()
        )
    }

    fn list(&self, query: &HashMap<String, String>) -> String {
        let text = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
        if self.scripted.load(Ordering::SeqCst) > 0 && text("prefix") == "blobs/" {
            return self.script(text("continuation-token"));
        }
        let after = text("continuation-token").max(text("start-after")).to_owned();
        let objects = self.objects.lock();
        let of_prefix = objects.iter().filter(|(key, _)| key.starts_with(text("prefix")) && **key > after);
        let mut page: Vec<_> = of_prefix.take(PAGE + 1).collect();
        let is_truncated = page.len() > PAGE;
        page.truncate(PAGE);
        let entry = |(key, stored): &(&String, &Stored)| {
            let Stored { size, modified, .. } = stored;
            format!(
                "<Contents><Key>{key}</Key><LastModified>{modified:.3}</LastModified>\
                 <ETag>&quot;etag&quot;</ETag><Size>{size}</Size></Contents>"
            )
        };
        let token = page.last().filter(|_| is_truncated).map(|(key, _)| {
            format!("<NextContinuationToken>{key}</NextContinuationToken><IsTruncated>true</IsTruncated>")
        });
        format!(
            "<ListBucketResult xmlns=\"{XMLNS}\">{}{}</ListBucketResult>",
            page.iter().map(entry).collect::<String>(),
            token.unwrap_or_default()
        )
    }
}

async fn respond(State(store): State<Arc<Store>>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let query: HashMap<String, String> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let key = request.uri().path().strip_prefix("/bucket").unwrap_or_default();
    let key = key.trim_start_matches('/').to_owned();
    let found = store.objects.lock().get(&key).cloned();
    if query.contains_key("list-type") {
        store.pages.fetch_add(1, Ordering::SeqCst);
        // The listing is computed before the wait, so that later uploads are missing.
        let list = store.list(&query);
        let _ = store.responds.subscribe().wait_for(|responds| *responds).await;
        return match store.is_away.load(Ordering::SeqCst) {
            true => StatusCode::FORBIDDEN.into_response(),
            false => list.into_response(),
        };
    }
    match (request.method().clone(), found) {
        (_, _) if key.is_empty() => StatusCode::OK.into_response(),
        (Method::PUT, _) => {
            let body = to_bytes(request.into_body(), 8 << 20).await.unwrap_or_default();
            let text = String::from_utf8_lossy(&body).into_owned();
            let stored = Stored { size: body.len() as u64, modified: Timestamp::now(), text };
            store.objects.lock().insert(key, stored);
            StatusCode::OK.into_response()
        }
        (Method::DELETE, _) => {
            store.objects.lock().remove(&key);
            StatusCode::NO_CONTENT.into_response()
        }
        (Method::HEAD, found) => {
            store.heads.fetch_add(1, Ordering::SeqCst);
            found.map_or(StatusCode::NOT_FOUND, |_| StatusCode::OK).into_response()
        }
        (_, Some(found)) => found.text.into_response(),
        (_, None) => StatusCode::NOT_FOUND.into_response(),
    }
}

pub(crate) async fn start_store(is_direct: bool, responds: bool) -> TestResult<(Arc<Store>, S3Config)> {
    let store = Arc::new(Store { responds: watch::Sender::new(responds), ..Store::default() });
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("s3://bucket?endpoint=http://{}&direct={is_direct}", listener.local_addr()?);
    let router = Router::new().fallback(respond).with_state(Arc::clone(&store));
    tokio::spawn(axum::serve(listener, router).into_future());
    Ok((store, S3Config::new(&url, "key", "secret")?))
}

struct Bench {
    store: Arc<Store>,
    service: Service,
    client: reqwest::Client,
}

impl Bench {
    async fn start(max_connections: usize) -> TestResult<Self> {
        Self::with(max_connections, true).await
    }

    async fn with(max_connections: usize, is_direct: bool) -> TestResult<Self> {
        let (store, objects) = start_store(is_direct, false).await?;
        let mut config = Config::ephemeral();
        config.objects = Some(objects);
        config.limits.max_connections = max_connections;
        config.roles.jobs = false;
        let client = inferstore_fetch::over_ring(reqwest::Client::builder()).no_proxy();
        let client = client.redirect(reqwest::redirect::Policy::none()).build()?;
        Ok(Self { store, service: Service::start(config).await?, client })
    }

    async fn ready() -> TestResult<Self> {
        let bench = Self::start(1_000).await?;
        bench.store.responds.send_replace(true);
        Ok(bench)
    }

    async fn url(&self, name: &str) -> TestResult<String> {
        let (target, _) = target(&self.service, name).await?;
        Ok(self.url_of(&target))
    }

    fn url_of(&self, target: &Target) -> String {
        self.service.objects.locations.url(&target.bucket, &target.key)
    }

    fn pages(&self) -> usize {
        self.store.pages.load(Ordering::SeqCst)
    }

    async fn until_pages(&self, pages: usize) {
        until("the store lists pages", || async { self.pages() >= pages }).await;
    }

    async fn files(&self) -> TestResult<u64> {
        let service = &self.service;
        let owner = service.database.account("demo").await?.ok_or("no account")?;
        Ok(service.database.usage(owner.id).await?.files)
    }

    async fn sweep(&self) -> TestResult {
        let service = &self.service;
        Ok(service.objects.sweep(SystemTime::now() + Duration::from_hours(1)).await?)
    }
}

fn open(bench: &Bench, urls: impl IntoIterator<Item = String>) -> JoinSet<reqwest::Result<u16>> {
    let open = |url: String| {
        let sent = bench.client.get(url).send();
        async { Ok(sent.await?.status().as_u16()) }
    };
    urls.into_iter().map(open).collect()
}

#[tokio::test]
async fn all_requests_share_a_listing_that_began_after_they_came() -> TestResult {
    let bench = Bench::start(1_000).await?;
    let (first, second) = (target(&bench.service, "first").await?.0, target(&bench.service, "2").await?.0);
    let early = open(&bench, [bench.url_of(&first)]);
    bench.until_pages(1).await;
    bench.store.upload(&first);
    bench.store.upload(&second);
    let urls = [bench.url_of(&first), bench.url_of(&second)];
    let late = open(&bench, urls.into_iter().cycle().take(20));
    tokio::time::sleep(Duration::from_millis(300)).await;
    bench.store.responds.send_replace(true);
    for status in early.join_all().await {
        assert_eq!(status?, 404);
    }
    for status in late.join_all().await {
        assert_eq!(status?, 302);
    }
    assert_eq!((bench.pages(), bench.store.heads.load(Ordering::SeqCst)), (2, 0));
    Ok(())
}

#[tokio::test]
async fn unused_targets_cost_the_store_nothing() -> TestResult {
    let bench = Bench::ready().await?;
    let service = &bench.service;
    let mut targets = Vec::new();
    for number in 0..1_200 {
        targets.push(target(service, &number.to_string()).await?.0);
    }
    for number in 0..2_000 {
        bench.store.put(&format!("{number:08}-0000-7000-8000-000000000000"), 1, 9_000);
        bench.store.put(&format!("z{number:04}aaaaaaaaaaaaaaaaaaaaa"), 1, 9_000);
    }
    for number in [7, 1_007] {
        bench.store.upload(&targets[number]);
    }
    let owner = targets[0].owner;
    service.objects.reconcile(TargetsOf::Folder(owner, "samples")).await?;
    assert_eq!((bench.files().await?, bench.pages()), (2, 1));
    service.objects.reconcile(TargetsOf::Folder(owner, "covers")).await?;
    let stored = &targets[7];
    service.objects.reconcile(TargetsOf::Object { bucket: &stored.bucket, key: &stored.key }).await?;
    assert_eq!(bench.pages(), 1, "nothing is awaited there");
    Ok(())
}

#[tokio::test]
async fn unused_targets_are_forgotten_although_the_store_is_away() -> TestResult {
    forgets(20_000).await
}

#[tokio::test]
#[ignore = "takes minutes: a million targets"]
async fn a_million_unused_targets_are_forgotten_in_little_memory() -> TestResult {
    forgets(1_000_000).await
}

async fn forgets(targets: u32) -> TestResult {
    let bench = Bench::ready().await?;
    let service = &bench.service;
    let (last, _) = target(service, "last").await?;
    let fill = format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {targets}) \
         INSERT INTO upload_targets (id, owner, payer, bucket, folder, key, mime, size, expires_at) \
         SELECT printf('%08x', n), {0}, {0}, 'bucket', 'samples', 'samples/unused', 'text/plain', 1, {1} \
         FROM numbers",
        last.owner.0, last.expires_at.0
    );
    let file = bench.service.data_folder().join("inferstore.db");
    rusqlite::Connection::open(file)?.execute_batch(&fill)?;
    bench.store.is_away.store(true, Ordering::SeqCst);
    service.clock.advance(Duration::from_mins(14));
    assert!(service.objects.reconcile_and_forget().await.is_err());
    assert!(service.database.awaits_upload(TargetsOf::Everyone).await?);
    service.clock.advance(Duration::from_mins(61) + Duration::from_secs(1));
    let before = resident_kib()?;
    assert!(service.objects.reconcile_and_forget().await.is_err());
    let grown = resident_kib()?.saturating_sub(before);
    assert!(!service.database.awaits_upload(TargetsOf::Everyone).await?);
    assert!(grown < 64 << 10, "the job took {grown} KiB");
    assert_eq!(bench.pages(), 2);
    Ok(())
}

fn resident_kib() -> TestResult<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no size")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

#[tokio::test]
async fn thousands_of_uploads_are_reconciled_by_page_at_the_stores_time() -> TestResult {
    let bench = Bench::ready().await?;
    let service = &bench.service;
    let mut targets = Vec::new();
    for number in 0..2_100 {
        targets.push(target(service, &number.to_string()).await?.0);
    }
    service.clock.advance(Duration::from_mins(10));
    for target in &targets {
        bench.store.upload(target);
    }
    service.objects.reconcile_and_forget().await?;
    assert_eq!((bench.files().await?, bench.pages()), (2_100, 3));
    let [early, late] = [target(service, "early").await?.0, target(service, "late").await?.0];
    bench.store.put(&early.id, SIZE, 3_600);
    bench.store.put(&late.id, SIZE, -3_600);
    service.objects.reconcile_and_forget().await?;
    let created = async |target: &Target| {
        Ok::<_, Error>(
            service.database.object(&target.bucket, &target.key).await?.map(|object| object.created_at),
        )
    };
    let issued = early.expires_at.before(service.objects.target_life);
    assert_eq!(created(&early).await?, Some(issued));
    let now = service.clock.now();
    assert!(created(&late).await?.is_some_and(|at| at > issued && at <= now));
    Ok(())
}

#[tokio::test]
async fn created_at_is_the_time_of_the_upload_though_it_is_found_later() -> TestResult {
    let bench = Bench::ready().await?;
    let service = &bench.service;
    let (target, _) = target(service, "file").await?;
    service.clock.advance(Duration::from_mins(10));
    bench.store.put(&target.id, SIZE, 5 * 60);
    service.objects.reconcile_and_forget().await?;
    let object = service.database.object(&target.bucket, &target.key).await?.ok_or("no file")?;
    let five_minutes_ago = service.clock.now().before(Duration::from_mins(5));
    let Moment(apart) = Moment(five_minutes_ago.0 - object.created_at.0);
    assert!((0..10_000).contains(&apart), "{apart} ms");
    Ok(())
}

#[tokio::test]
async fn uploads_to_void_or_unsigned_targets_are_removed_at_the_next_look() -> TestResult {
    let bench = Bench::ready().await?;
    let service = &bench.service;
    let (stored, _) = target(service, "stored").await?;
    bench.store.upload(&stored);
    service.objects.reconcile_and_forget().await?;
    service
        .database
        .delete_file(Some(stored.owner), &stored.bucket, &stored.key, service.clock.now())
        .await?;
    let (wrong, _) = target(service, "wrong").await?;
    bench.store.upload(&stored);
    bench.store.put(&wrong.id, 7, 0);
    service.objects.reconcile_and_forget().await?;
    until("both blobs are deleted", || async { bench.store.names("blobs/").is_empty() }).await;
    assert_eq!(bench.files().await?, 0);
    Ok(())
}

#[tokio::test]
async fn of_two_uploads_of_a_name_the_later_one_stays_in_any_order() -> TestResult {
    let bench = Bench::ready().await?;
    let service = &bench.service;
    let mut targets = Vec::new();
    for _ in 0..3 {
        targets.push(target(service, "same").await?.0);
    }
    let [first, second, third] = &targets[..] else { return Err("there are three".into()) };
    service.clock.advance(Duration::from_mins(1));
    let stored = async || {
        service.objects.reconcile_and_forget().await?;
        let object = service.database.object(&first.bucket, &first.key).await?;
        Ok::<_, Error>(object.map(|object| object.blob))
    };
    bench.store.put(&first.id, SIZE, 20);
    bench.store.put(&second.id, SIZE, 30);
    assert_eq!(stored().await?.as_ref(), Some(&first.id));
    bench.store.put(&third.id, SIZE, 25);
    assert_eq!(stored().await?.as_ref(), Some(&first.id), "it is found later and came before");
    assert!(service.database.target(&third.id).await?.is_some_and(|target| target.is_void));
    let (late, _) = target(service, "same").await?;
    bench.store.put(&late.id, SIZE, 60);
    assert_eq!(stored().await?, Some(late.id), "no upload is older than its target");
    Ok(())
}

#[tokio::test]
async fn with_direct_false_no_request_asks_the_store() -> TestResult {
    let bench = Bench::with(1_000, false).await?;
    bench.store.responds.send_replace(true);
    let service = &bench.service;
    let (target, _) = target(service, "file").await?;
    assert_eq!(bench.client.get(bench.url_of(&target)).send().await?.status(), 404);
    service.objects.reconcile(TargetsOf::Owner(target.owner)).await?;
    service.objects.reconcile_and_forget().await?;
    assert_eq!((bench.pages(), bench.store.heads.load(Ordering::SeqCst)), (0, 0));
    bench.store.upload(&target);
    bench.sweep().await?;
    assert_eq!(bench.files().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_bucket_of_any_size_is_swept_page_by_page() -> TestResult {
    const BLOBS: usize = 10_500;
    const OLD: usize = BLOBS / 10;
    let bench = Bench::ready().await?;
    for number in 0..BLOBS {
        // Names of an earlier version are not ordered by time.
        let seconds_ago = if number.is_multiple_of(10) { 9_000 } else { -9_000 };
        bench.store.put(&format!("{number:05}aaaaaaaaaaaaaaaaaaaaa"), 1, seconds_ago);
    }
    let orphans = || bench.store.names("orphans/").len();
    let mut sweep = Box::pin(bench.sweep());
    let has_begun = async {
        while orphans() < 50 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        _ = &mut sweep => return Err("it ended at once".into()),
        () = has_begun => {}
    }
    // The service handles the first page, and marks its orphans, before it requests the second: so far there was one
    // listing of orphans, one of blobs, and one of the markers among its names.
    assert_eq!(bench.pages(), 3);
    sweep.await?;
    assert_eq!(orphans(), OLD);
    let pages = bench.pages();
    bench.sweep().await?;
    assert_eq!(orphans(), OLD, "a mark is written once");
    let pages = bench.pages() - pages;
    assert!(
        (24..=35).contains(&pages),
        "2 of orphans, 11 of blobs, and one or two of marks for each: {pages}"
    );
    let service = &bench.service;
    service.clock.advance(service.objects.orphan_retention + Duration::from_hours(2 * 24));
    bench.sweep().await?;
    assert_eq!((orphans(), bench.store.names("blobs/").len()), (0, BLOBS - OLD));
    Ok(())
}

#[tokio::test]
#[ignore = "takes minutes: ten million blobs"]
async fn ten_million_blobs_are_swept_in_the_memory_of_a_page() -> TestResult {
    let bench = Bench::ready().await?;
    bench.store.scripted.store(10_000_000, Ordering::SeqCst);
    let before = resident_kib()?;
    bench.sweep().await?;
    let grown = resident_kib()?.saturating_sub(before);
    assert_eq!(bench.store.names("orphans/").len(), 10_000);
    assert!(grown < 64 << 10, "{grown} KiB");
    Ok(())
}

#[tokio::test]
async fn an_orphan_mark_of_an_earlier_version_goes_with_its_blob_or_row() -> TestResult {
    let bench = Bench::ready().await?;
    let service = &bench.service;
    let mark = |name: &str| {
        let stored = Stored { size: 0, modified: Timestamp::now(), text: String::new() };
        bench.store.objects.lock().insert(format!("orphans/2020-01-01/{name}"), stored);
    };
    let (unknown, known) = ("a".repeat(26), target(service, "known").await?.0);
    bench.store.put(&unknown, 1, 9_000);
    bench.store.upload(&known);
    mark(&unknown);
    mark(&known.id);
    bench.sweep().await?;
    assert_eq!(bench.store.names("orphans/"), [""; 0]);
    assert_eq!(bench.store.names("blobs/"), [known.id]);
    Ok(())
}

#[tokio::test]
async fn requests_that_wait_for_the_store_leave_most_connections_to_others() -> TestResult {
    let bench = Bench::start(8).await?;
    let waiting = open(&bench, [bench.url("first").await?, bench.url("second").await?]);
    bench.until_pages(1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let other = bench.client.get(bench.url("third").await?).send();
    let other = tokio::time::timeout(Duration::from_secs(3), other).await??;
    assert_eq!((other.status().as_u16(), &other.headers()["retry-after"]), (503, &"1".parse()?));
    bench.store.responds.send_replace(true);
    for status in waiting.join_all().await {
        assert_eq!(status?, 404);
    }
    Ok(())
}

#[tokio::test]
async fn an_upload_is_found_although_the_clock_was_set_back() -> TestResult {
    let bench = Bench::ready().await?;
    let service = &bench.service;
    service.clock.advance(Duration::from_hours(24));
    service.objects.reconcile_and_forget().await?;
    service.clock.set_ahead(0);
    let (target, _) = target(service, "unseen").await?;
    bench.store.upload(&target);
    service.objects.reconcile_and_forget().await?;
    assert_eq!(bench.files().await?, 1);
    Ok(())
}

#[tokio::test]
async fn an_object_that_is_gone_before_its_bytes_are_read_is_read_again() -> TestResult {
    let bench = Bench::ready().await?;
    let service = &bench.service;
    let (target, _) = target(service, "file").await?;
    bench.store.upload(&target);
    let opened = service.objects.read(&target.bucket, &target.key).await?.ok_or("the upload is not found")?;
    bench.store.objects.lock().clear();
    let read = opened.bytes().await;
    assert!(read.as_ref().is_err_and(Error::is_unavailable), "a task would fail for it: {read:?}");
    Ok(())
}

#[tokio::test]
async fn a_service_with_direct_uploads_takes_no_bytes_and_redirects_downloads() -> TestResult {
    let bench = Bench::ready().await?;
    let (target, _) = target(&bench.service, "file").await?;
    bench.store.upload(&target);
    let url = bench.url_of(&target);
    for method in [Method::PUT, Method::POST, Method::PATCH] {
        let refusal = bench.client.request(method, &url).body("bytes").send().await?;
        assert_eq!((refusal.status().as_u16(), &refusal.headers()["allow"]), (405, &"GET, HEAD".parse()?));
    }
    let location = async |method: Method| {
        let request = bench.client.request(method, &url).header("if-none-match", "*");
        let found = request.send().await?;
        assert_eq!(found.status(), 302);
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(found.headers()["location"].to_str()?.to_owned())
    };
    let (get, head) = (location(Method::GET).await?, location(Method::HEAD).await?);
    assert!(get.contains("response-content-type=text%2Fplain"), "{get}");
    assert!(!get.contains("attachment"), "a browser may show a text: {get}");
    let signature = |url: &str| url.split("X-Amz-Signature=").nth(1).map(str::to_owned);
    assert_ne!(signature(&get), signature(&head), "the method is signed");
    Ok(())
}
