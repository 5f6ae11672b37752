//! Looks for uploads at a store that takes its time, behind URLs that anyone may open: how many requests it gets, and
//! what the callers are told.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, ETAG, IF_NONE_MATCH, LAST_MODIFIED};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::remote_tests::{Outcome, target};
use crate::{Config, Error, S3Config, Service};

/// An object store that responds to no look until it is told to.
#[derive(Default)]
struct Store {
    looks: AtomicUsize,
    in_progress: AtomicUsize,
    most_in_progress: AtomicUsize,
    has_objects: AtomicBool,
    /// How often its objects were replaced.
    replacements: AtomicUsize,
    /// The target whose object it refuses to look for.
    refused: OnceLock<String>,
    responds: watch::Sender<bool>,
}

async fn respond(State(store): State<Arc<Store>>, request: Request) -> Response {
    if request.method() == Method::GET {
        return StatusCode::NOT_FOUND.into_response();
    }
    if request.method() != Method::HEAD || !request.uri().path().contains("/blobs/") {
        return StatusCode::OK.into_response();
    }
    let has_objects = store.has_objects.load(Ordering::SeqCst);
    store.looks.fetch_add(1, Ordering::SeqCst);
    let in_progress = store.in_progress.fetch_add(1, Ordering::SeqCst) + 1;
    store.most_in_progress.fetch_max(in_progress, Ordering::SeqCst);
    let _ = store.responds.subscribe().wait_for(|responds| *responds).await;
    store.in_progress.fetch_sub(1, Ordering::SeqCst);
    if store.refused.get().is_some_and(|refused| request.uri().path().ends_with(refused)) {
        return StatusCode::FORBIDDEN.into_response();
    }
    if !has_objects {
        return StatusCode::NOT_FOUND.into_response();
    }
    let date = "Wed, 21 Oct 2015 07:28:00 GMT".to_owned();
    let size = "5242881".to_owned();
    let etag = format!("\"etag{}\"", store.replacements.load(Ordering::SeqCst));
    [(CONTENT_LENGTH, size), (LAST_MODIFIED, date), (ETAG, etag)].into_response()
}

struct Bench {
    store: Arc<Store>,
    service: Service,
    client: reqwest::Client,
}

impl Bench {
    async fn start(max_connections: usize) -> Outcome<Self> {
        let store = Arc::new(Store::default());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("s3://bucket?endpoint=http://{}", listener.local_addr()?);
        let router = Router::new().fallback(respond).with_state(Arc::clone(&store));
        tokio::spawn(axum::serve(listener, router).into_future());
        let mut config = Config::ephemeral();
        config.objects = Some(S3Config::new(&url, "key", "secret")?);
        config.limits.max_connections = max_connections;
        // They look for uploads too.
        config.roles.jobs = false;
        let client = inferstore_fetch::over_ring(reqwest::Client::builder()).no_proxy();
        let client = client.redirect(reqwest::redirect::Policy::none()).build()?;
        Ok(Self { store, service: Service::start(config).await?, client })
    }

    /// A store that responds at once, and has the object of every target.
    async fn with_objects() -> Outcome<Self> {
        let bench = Self::start(1_000).await?;
        bench.store.has_objects.store(true, Ordering::SeqCst);
        bench.store.responds.send_replace(true);
        Ok(bench)
    }

    /// The URL of a file that has so many targets without an upload.
    async fn url(&self, name: &str, targets: usize) -> Outcome<String> {
        let mut path = Default::default();
        for _ in 0..targets {
            let (target, _) = target(&self.service.app, name).await?;
            path = (target.bucket, target.key);
        }
        Ok(self.service.app.objects.locations.url(&path.0, &path.1))
    }

    /// Waits until the store has got so many requests.
    async fn until_looks(&self, looks: usize) -> Outcome {
        let are_there = async {
            while self.store.looks.load(Ordering::SeqCst) < looks {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        Ok(tokio::time::timeout(Duration::from_secs(3), are_there).await?)
    }
}

/// Opens URLs at once.
fn open(bench: &Bench, urls: impl IntoIterator<Item = String>) -> JoinSet<reqwest::Result<u16>> {
    let open = |url: String| {
        let sent = bench.client.get(url).send();
        async { Ok(sent.await?.status().as_u16()) }
    };
    urls.into_iter().map(open).collect()
}

#[tokio::test]
async fn all_requests_together_send_a_bounded_number_of_looks_at_once() -> Outcome {
    let bench = Bench::start(1_000).await?;
    let mut urls = Vec::new();
    for name in 0..8 {
        urls.push(bench.url(&name.to_string(), 20).await?);
    }
    let opened = open(&bench, urls);
    bench.until_looks(64).await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    bench.store.responds.send_replace(true);
    for status in opened.join_all().await {
        assert_eq!(status?, 404);
    }
    assert_eq!(bench.store.looks.load(Ordering::SeqCst), 8 * 20);
    assert_eq!(bench.store.most_in_progress.load(Ordering::SeqCst), 64);
    Ok(())
}

#[tokio::test]
async fn requests_for_one_file_share_a_look_that_began_after_they_came() -> Outcome {
    let bench = Bench::start(1_000).await?;
    let url = bench.url("shared", 3).await?;
    let early = open(&bench, [url.clone()]);
    bench.until_looks(3).await?;
    // What is uploaded now, the look in progress does not see.
    bench.store.has_objects.store(true, Ordering::SeqCst);
    let late = open(&bench, std::iter::repeat_n(url, 20));
    tokio::time::sleep(Duration::from_millis(300)).await;
    bench.store.responds.send_replace(true);
    for status in early.join_all().await {
        assert_eq!(status?, 404);
    }
    for status in late.join_all().await {
        assert_eq!(status?, 302);
    }
    // One more of each target, and those that tell which upload was the last one.
    assert!(bench.store.looks.load(Ordering::SeqCst) < 12, "{:?}", bench.store.looks);
    Ok(())
}

#[tokio::test]
async fn requests_that_wait_for_the_store_leave_most_connections_to_others() -> Outcome {
    let bench = Bench::start(8).await?;
    let waiting = open(&bench, [bench.url("first", 1).await?, bench.url("second", 1).await?]);
    bench.until_looks(2).await?;
    let other = bench.client.get(bench.url("third", 1).await?).send();
    let other = tokio::time::timeout(Duration::from_secs(3), other).await??;
    assert_eq!((other.status().as_u16(), &other.headers()["retry-after"]), (503, &"1".parse()?));
    bench.store.responds.send_replace(true);
    for status in waiting.join_all().await {
        assert_eq!(status?, 404);
    }
    Ok(())
}

#[tokio::test]
async fn an_upload_that_no_one_looks_at_is_a_file_also_after_the_clock_was_set_back() -> Outcome {
    let bench = Bench::with_objects().await?;
    let app = &bench.service.app;
    app.clock.advance(Duration::from_hours(24));
    app.objects.settle_expiring(app).await?;
    app.clock.set_ahead(0);
    let (target, _) = target(app, "unseen").await?;
    app.clock.advance(Duration::from_secs(15 * 60 - 20));
    app.objects.settle_expiring(app).await?;
    assert_eq!(app.database.usage(target.owner).await?.files, 1);
    Ok(())
}

#[tokio::test]
async fn an_upload_that_the_store_refuses_to_look_for_keeps_no_other_one_from_being_found() -> Outcome {
    let bench = Bench::with_objects().await?;
    let app = &bench.service.app;
    let (refused, _) = target(app, "refused").await?;
    bench.store.refused.get_or_init(|| refused.id);
    app.clock.advance(Duration::from_secs(15 * 60 - 20));
    // Perhaps it refuses all of them for a while.
    assert!(app.objects.settle_expiring(app).await.is_err());

    let (other, _) = target(app, "other").await?;
    app.clock.advance(Duration::from_secs(15 * 60 - 20));
    app.objects.settle_expiring(app).await?;
    assert_eq!(app.database.usage(other.owner).await?.files, 1);
    let looks = bench.store.looks.load(Ordering::SeqCst);
    app.objects.settle_expiring(app).await?;
    assert_eq!(bench.store.looks.load(Ordering::SeqCst), looks, "they are looked for once in each window");
    Ok(())
}

#[tokio::test]
async fn an_object_that_is_replaced_before_its_bytes_are_read_is_read_again() -> Outcome {
    let bench = Bench::with_objects().await?;
    let app = &bench.service.app;
    let (target, _) = target(app, "file").await?;
    let opened = app.objects.read(app, &target.bucket, &target.key).await?;
    // The store has the object when it is looked for, and no longer when it is read.
    let read = opened.ok_or("the upload is not found")?.bytes().await;
    assert!(read.as_ref().is_err_and(Error::is_unavailable), "a task would fail for it: {read:?}");
    Ok(())
}

#[tokio::test]
async fn a_cache_notices_that_the_store_has_taken_other_bytes_for_an_open_target() -> Outcome {
    let bench = Bench::with_objects().await?;
    let url = bench.url("file", 1).await?;
    let etag =
        async || Ok::<_, reqwest::Error>(bench.client.head(&url).send().await?.headers()[ETAG].clone());
    let first = etag().await?;
    let known = async || {
        let request = bench.client.get(&url).header(IF_NONE_MATCH, &first);
        Ok::<_, reqwest::Error>(request.send().await?.status().as_u16())
    };
    assert_eq!((&first, known().await?), (&"\"etag0\"".parse()?, 304));
    bench.store.replacements.store(1, Ordering::SeqCst);
    assert_eq!((etag().await?, known().await?), ("\"etag1\"".parse()?, 302));
    Ok(())
}

#[tokio::test]
async fn a_service_with_direct_uploads_takes_no_bytes_and_redirects_downloads() -> Outcome {
    let bench = Bench::with_objects().await?;
    let url = bench.url("file", 1).await?;
    for method in [Method::PUT, Method::POST, Method::PATCH] {
        let refusal = bench.client.request(method, &url).body("bytes").send().await?;
        assert_eq!((refusal.status().as_u16(), &refusal.headers()["allow"]), (405, &"GET, HEAD".parse()?));
    }
    let found = bench.client.get(&url).send().await?;
    let location = found.headers()["location"].to_str()?;
    assert!(location.contains("response-content-type=text%2Fplain"), "{location}");
    assert!(!location.contains("attachment"), "a browser may show a text: {location}");
    Ok(())
}

#[tokio::test]
async fn an_upload_that_lasts_for_hours_beyond_its_target_is_a_file_within_a_day() -> Outcome {
    let bench = Bench::start(1_000).await?;
    bench.store.responds.send_replace(true);
    let app = &bench.service.app;
    let (target, _) = target(app, "slow").await?;
    for hours in [1, 2] {
        app.clock.advance(Duration::from_hours(hours));
        app.objects.settle_expiring(app).await?;
    }
    bench.store.has_objects.store(true, Ordering::SeqCst);
    app.clock.advance(Duration::from_hours(21));
    app.objects.settle_expiring(app).await?;
    assert_eq!(app.database.usage(target.owner).await?.files, 1);
    Ok(())
}
