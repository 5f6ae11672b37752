//! Download URLs: a public base URL, and an unguessable token.

use std::time::Duration;

use inferstore_service::{Config, CorsOrigin, Service};
use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{Bench, Target, TestResult, bucket, client, free_address};

#[tokio::test]
async fn who_knows_the_url_of_one_file_cannot_guess_that_of_another() -> TestResult {
    let bench = Bench::start().await?;
    let avatar = bench.store("avatar.png", "image/png", b"avatar").await?;
    let passport = bench.store("passport.png", "image/png", b"passport").await?;
    let (front, _) = avatar.split_once("/documents/").ok_or("no folder in the URL")?;
    let (bucket, _) = front.rsplit_once('/').ok_or("no bucket in the URL")?;
    for guess in [format!("{front}/documents/passport.png"), format!("{bucket}/documents/passport.png")] {
        for method in [Method::GET, Method::HEAD] {
            assert_eq!(bench.http.request(method, &guess).send().await?.status(), 404, "{guess}");
        }
        assert_eq!(bench.delete(&guess).await?.0, 404, "{guess}");
    }
    assert!(passport.ends_with("/documents/passport.png"));
    assert_eq!(bench.http.get(&passport).send().await?.text().await?, "passport");
    // The URL is known before the upload, and is the same for every upload of the name.
    assert_eq!(bench.presign("passport.png", "image/png", 9).await?.download_url, passport);
    let listed = bench.get("/api-key/storage/upload/documents").await?;
    assert_eq!(listed["files"][1]["key"], "documents/passport.png");
    assert_eq!(listed["files"][1]["download_url"], passport);
    Ok(())
}

#[tokio::test]
async fn a_url_from_before_the_service_had_another_address_still_names_its_file() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut config = Config::folder(folder.path());
    config.first_account.api_key = Some("isk_storage_of_the_test".to_owned());
    config.objects = bucket()?;
    config.storage_url = Some("http://files.example:81".to_owned());
    config.storage = free_address()?;
    let here = format!("http://{}", config.storage);
    let local = |url: &str| url.replace("http://files.example:81", &here);
    let bench = Bench::with(config.clone()).await?;
    let body = serde_json::json!({"folder": "documents", "mime": "text/plain", "name": "a.txt", "size": 1});
    let target = bench.presign_with(body).await?;
    let reached = Target { endpoint: local(&target.endpoint), ..target.clone() };
    assert!(bench.upload(&reached, b"a".to_vec()).await?.is_success());
    assert!(target.download_url.starts_with("http://files.example:81/"));
    bench.service.shutdown().await;

    config.storage_url = Some("https://new.example/storage/".to_owned());
    let bench = Bench::with(config).await?;
    let listed = bench.get("/api-key/storage/upload/documents").await?;
    let url = listed["files"][0]["download_url"].as_str().unwrap_or_default().to_owned();
    assert!(url.starts_with("https://new.example/storage/files-"), "{url}");
    assert_eq!(bench.http.get(local(&target.download_url)).send().await?.status(), 200);
    let elsewhere = target.download_url.replace("files.example", "other.example");
    assert_eq!(bench.delete(&elsewhere).await?.0, 404);
    assert_eq!(bench.delete(&target.download_url).await?.0, 200);
    assert_eq!(bench.count().await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_storage_url_that_cannot_be_used_is_refused_at_the_start() -> TestResult {
    for url in
        ["not a url", "", "ftp://x", "http://", "http://x/?a=b", "http://x/#a", "http://u:p@x/", "x:80"]
    {
        let mut config = Config::ephemeral();
        config.storage_url = Some(url.to_owned());
        let message = Service::start(config).await.err().ok_or(format!("{url:?} is taken"))?.to_string();
        assert!(message.contains("storage URL"), "{url:?}: {message}");
    }
    for address in ["0.0.0.0:0", "[::]:0"] {
        let mut config = Config::ephemeral();
        config.storage = address.parse()?;
        let refused = Service::start(config.clone()).await;
        let message = refused.err().ok_or(format!("{address} is taken"))?.to_string();
        assert!(message.contains("storage URL"), "{message}");
        config.storage_url = Some("http://files.example".to_owned());
        Service::start(config).await?.shutdown().await;
    }
    Ok(())
}

#[tokio::test]
async fn pages_of_other_sites_read_and_upload_only_where_that_is_allowed() -> TestResult {
    let header = |response: &reqwest::Response, name: &str| {
        response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let allowed: CorsOrigin = "https://app.example".parse()?;
    for (origins, origin, expected) in [
        (vec![CorsOrigin::any()], "https://any.example", Some("*")),
        (vec![allowed.clone()], "https://app.example", Some("https://app.example")),
        (vec![allowed], "https://any.example", None),
        (vec![], "https://any.example", None),
    ] {
        let mut config = Config::ephemeral();
        config.storage_origins.clone_from(&origins);
        let bench = Bench::with(config).await?;
        let url = bench.store("page.txt", "text/plain", b"page").await?;
        let read = client()?.get(&url).header("origin", origin).send().await?;
        assert_eq!(header(&read, "access-control-allow-origin").as_deref(), expected, "{origins:?}");
        assert_eq!(read.text().await?, "page");
        let asked = client()?.request(Method::OPTIONS, &url).header("origin", origin);
        let asked = asked
            .header("access-control-request-method", "PUT")
            .header("access-control-request-headers", "content-type");
        let asked = asked.send().await?;
        assert_eq!(header(&asked, "access-control-allow-origin").as_deref(), expected, "{origins:?}");
        if expected.is_some() {
            let methods = header(&asked, "access-control-allow-methods").unwrap_or_default();
            assert!(
                ["GET", "HEAD", "POST", "PUT"].iter().all(|method| methods.contains(method)),
                "{methods}"
            );
            assert_eq!(header(&asked, "access-control-allow-headers").as_deref(), Some("content-type"));
        }
    }
    Ok(())
}

async fn unsigned_forms(target: &Target, count: usize, body: &str) -> TestResult<Vec<TcpStream>> {
    let host = target.endpoint.split('/').nth(2).unwrap_or_default();
    let mut forms = Vec::new();
    for _ in 0..count {
        let mut form = TcpStream::connect(host).await?;
        let head = "POST /files-x HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data; boundary=b\r\n\
                    content-length: 1000000\r\nexpect: 100-continue\r\n\r\n";
        form.write_all(format!("{head}{body}").as_bytes()).await?;
        forms.push(form);
    }
    Ok(forms)
}

async fn goes_on(form: &mut TcpStream) -> TestResult {
    let mut head = vec![0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    form.read_exact(&mut head).await?;
    Ok(())
}

async fn status(form: &mut TcpStream) -> TestResult<String> {
    let mut line = vec![0; "HTTP/1.1 503".len()];
    form.read_exact(&mut line).await?;
    Ok(String::from_utf8(line)?)
}

#[tokio::test]
async fn a_form_without_a_verified_signature_makes_way_when_there_are_many() -> TestResult {
    let mut config = Config::ephemeral();
    config.limits.unsigned_forms = 2;
    let bench = Bench::with(config).await?;
    let target = bench.presign("form.txt", "text/plain", 4).await?;
    let field = "--b\r\ncontent-disposition: form-data; name=\"key\"\r\n\r\n";
    let mut strangers = unsigned_forms(&target, 2, field).await?;
    for stranger in &mut strangers {
        goes_on(stranger).await?;
    }
    let verdict = bench.upload(&target, b"form".to_vec()).await?;
    assert!(verdict.is_success(), "{verdict:?}");
    let [one, other] = &mut strangers[..] else { return Err("two strangers".into()) };
    let (ended, rest) = tokio::select! {
        ended = status(one) => (ended?, other),
        ended = status(other) => (ended?, one),
    };
    assert_eq!(ended, "HTTP/1.1 503", "one makes way");
    let goes_on = tokio::time::timeout(Duration::from_millis(100), status(rest)).await;
    assert!(goes_on.is_err(), "and the other one goes on: {goes_on:?}");
    Ok(())
}

#[tokio::test]
async fn a_form_has_a_few_seconds_for_the_fields_before_its_file() -> TestResult {
    let bench = Bench::start().await?;
    let target = bench.presign("form.txt", "text/plain", 4).await?;
    let mut silent = unsigned_forms(&target, 1, "").await?;
    goes_on(&mut silent[0]).await?;
    let ended = tokio::time::timeout(Duration::from_secs(20), status(&mut silent[0])).await??;
    assert_eq!(ended, "HTTP/1.1 400");
    Ok(())
}

#[tokio::test]
async fn silent_forms_leave_connections_to_others() -> TestResult {
    let mut config = Config::ephemeral();
    (config.limits.unsigned_forms, config.limits.max_connections) = (1, 8);
    let bench = Bench::with(config).await?;
    let target = bench.presign("form.txt", "text/plain", 4).await?;
    let mut silent = unsigned_forms(&target, 8, "").await?;
    goes_on(&mut silent[0]).await?;
    let other = tokio::time::timeout(Duration::from_secs(20), bench.presign("other.txt", "text/plain", 4));
    other.await??;
    Ok(())
}

#[tokio::test]
async fn a_process_that_serves_no_files_writes_the_same_urls_as_those_that_do() -> TestResult {
    let (folder, fresh) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let mut serving = Config::folder(folder.path());
    serving.storage_url = Some("https://files.example/storage/".to_owned());
    Service::start(serving.clone()).await?.shutdown().await;
    for url in [None, serving.storage_url] {
        let mut running = Config::folder(folder.path());
        running.roles = "nodes".parse()?;
        running.storage_url = url;
        let service = Service::start(running).await?;
        assert_eq!(service.storage_url(), "https://files.example/storage");
        service.shutdown().await;
    }
    for current in ["https://new.example", "https://files.example/storage"] {
        let mut moved = Config::folder(folder.path());
        moved.storage_url = Some(current.to_owned());
        Service::start(moved).await?.shutdown().await;
        let mut running = Config::folder(folder.path());
        running.roles = "nodes".parse()?;
        let service = Service::start(running).await?;
        assert_eq!(service.storage_url(), current);
        service.shutdown().await;
    }
    for (url, folder) in [(Some("ftp://files.example".to_owned()), folder.path()), (None, fresh.path())] {
        let mut refused = Config::folder(folder);
        refused.roles = "nodes".parse()?;
        refused.storage_url = url;
        let message = Service::start(refused).await.err().ok_or("it starts")?.to_string();
        assert!(message.contains("storage URL"), "{message}");
    }
    Ok(())
}
