//! Interrupted uploads.

use std::time::Duration;

use inferstore_service::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{Bench, Target, TestResult};

async fn begin(target: &Target, sent: usize) -> TestResult<TcpStream> {
    let rest = target.endpoint.strip_prefix("http://").ok_or("not http")?;
    let (host, path) = rest.split_once('/').ok_or("no path")?;
    let mut stream = TcpStream::connect(host).await?;
    let mime = target.field("Content-Type");
    let head = format!(
        "PUT /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: {mime}\r\ncontent-length: 10000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&vec![7; sent]).await?;
    Ok(stream)
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_nothing_behind() -> TestResult {
    let bench = Bench::start().await?;
    let target = bench.presign("broken.bin", "x/y", 10_000_000).await?;
    let stream = begin(&target, 4_000_000).await?;
    bench.until_incoming(1).await?;
    assert_eq!(bench.get("/api-key/storage/upload/documents").await?["total"], 0);
    assert_eq!(bench.http.get(&target.download_url).send().await?.status(), 404);
    drop(stream);
    bench.until_incoming(0).await?;
    assert_eq!(bench.count().await?, 0);
    assert!(bench.put(&target, vec![7; 10_000_000]).await?.is_success());
    assert_eq!(bench.count().await?, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_however_early_a_connection_breaks() -> TestResult {
    let bench = Bench::start().await?;
    let target = bench.presign("broken.bin", "x/y", 10_000_000).await?;
    // A full batch is handed to a writer thread, perhaps after the interruption.
    for sent in [131_072, 131_073, 200_000, 262_144].repeat(50) {
        drop(begin(&target, sent).await?);
    }
    bench.until_incoming(0).await?;
    assert!(bench.put(&target, vec![7; 10_000_000]).await?.is_success());
    bench.until_incoming(0).await?;
    assert_eq!(bench.count().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_repeated_upload_does_not_bring_a_deleted_file_back() -> TestResult {
    let bench = Bench::start().await?;
    let target = bench.presign("deleted.bin", "x/y", 10_000_000).await?;
    assert!(bench.put(&target, vec![7; 10_000_000]).await?.is_success());
    let mut repeat = begin(&target, 9_000_000).await?;
    bench.until_incoming(1).await?;
    assert_eq!(bench.delete(&target.download_url).await?.0, 200);
    repeat.write_all(&vec![7; 1_000_000]).await?;
    let mut response = vec![0; 4_096];
    let read = repeat.read(&mut response).await?;
    let response = String::from_utf8_lossy(&response[..read]).into_owned();
    assert!(response.starts_with("HTTP/1.1 403"), "{response}");
    assert_eq!(bench.count().await?, 0);
    Ok(())
}

#[tokio::test]
async fn uploads_that_are_too_many_are_asked_to_come_back() -> TestResult {
    let mut config = Config::ephemeral();
    config.limits.max_requests = 1;
    let bench = Bench::with(config).await?;
    let target = bench.presign("first.bin", "x/y", 10_000_000).await?;
    let first = begin(&target, 1_000_000).await?;
    bench.until_incoming(1).await?;
    let verdict = bench.put(&target, vec![7; 10_000_000]).await?;
    assert_eq!((verdict.status, verdict.code.as_str()), (503, "SlowDown"));
    drop(first);
    bench.until_incoming(0).await?;
    assert!(bench.put(&target, vec![7; 10_000_000]).await?.is_success());
    Ok(())
}

#[tokio::test]
async fn a_client_that_falls_silent_is_let_go() -> TestResult {
    let mut config = Config::ephemeral();
    config.limits.upload_idle = Duration::from_millis(200);
    let bench = Bench::with(config).await?;
    let target = bench.presign("silent.bin", "x/y", 10_000_000).await?;
    let mut stream = begin(&target, 1_000_000).await?;
    let mut response = vec![0; 4_096];
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut response)).await??;
    let response = String::from_utf8_lossy(&response[..read]).into_owned();
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
    bench.until_incoming(0).await?;
    assert_eq!(bench.count().await?, 0);
    Ok(())
}
