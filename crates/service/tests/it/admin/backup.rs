//! Backups of a running service.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use inferstore_service::AdminClient;
use serde_json::json;

use super::support::{Bench, Caller, TestResult, start};

#[tokio::test]
async fn a_backup_under_load_is_a_whole_service_again() -> TestResult {
    let mut bench = Bench::start().await?;
    for number in 0..20 {
        bench
            .caller
            .store(&format!("kept-{number}"), "text/plain", format!("content {number}").as_bytes())
            .await?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (caller, stop) = (bench.caller.clone(), Arc::clone(&stop));
            tokio::spawn(async move { churn(&caller, writer, &stop).await })
        })
        .collect();
    let copies = tempfile::tempdir()?;
    for number in 0..5 {
        let folder = copies.path().join(number.to_string());
        let backup =
            bench.admin.call("POST", &["backups"], Some(json!({"folder": folder}).to_string())).await?;
        assert_eq!(backup["missing"], 0, "{backup}");
    }
    stop.store(true, Ordering::SeqCst);
    let mut written = 0;
    for writer in writers {
        written += writer.await??;
    }
    assert!(written > 0, "there was load");
    let key = bench.caller.key.clone();
    bench.service.shutdown().await;
    for number in 0..5 {
        let service = start(&copies.path().join(number.to_string())).await?;
        assert_eq!(service.audit().await?.faults, Vec::<String>::new());
        let caller = Caller::new(&service, &key)?;
        let page = caller.get("/api-key/storage/upload/documents?pageSize=1000").await?;
        let files = page["files"].as_array().ok_or("there are files")?;
        assert!(files.len() >= 20, "{}", files.len());
        for file in files {
            let url = file["download_url"].as_str().unwrap_or_default();
            assert_eq!(caller.read(url).await?.0, 200, "{file}");
        }
        service.shutdown().await;
    }
    Ok(())
}

async fn churn(caller: &Caller, writer: usize, stop: &AtomicBool) -> TestResult<usize> {
    let mut rounds = 0;
    while !stop.load(Ordering::SeqCst) {
        let name = format!("churn-{writer}");
        caller.store(&name, "text/plain", "a".repeat(rounds % 100 + 1).as_bytes()).await?;
        let url = caller.store(&name, "text/plain", "b".repeat(rounds % 100 + 1).as_bytes()).await?;
        caller.delete(&url).await?;
        let input = json!({"input": "https://files.example/street.png"});
        caller.create("color-extraction", input).await?;
        rounds += 1;
    }
    Ok(rounds)
}

#[tokio::test]
async fn a_backup_overwrites_nothing_and_a_stopped_service_has_one_too() -> TestResult {
    let bench = Bench::start().await?;
    let data = bench.folder.path().to_owned();
    bench.caller.store("note", "text/plain", b"text").await?;
    bench.service.shutdown().await;
    let mut admin = AdminClient::open(&data).await?;
    let copies = tempfile::tempdir()?;
    let folder = copies.path().join("new");
    let backup = admin.call("POST", &["backups"], Some(json!({"folder": folder}).to_string())).await?;
    assert_eq!(backup, json!({"objects": 1, "missing": 0}));
    let again = admin.call("POST", &["backups"], Some(json!({"folder": folder}).to_string())).await;
    assert!(again.is_err_and(|error| error.to_string().contains("not empty")));
    let relative = admin.call("POST", &["backups"], Some(json!({"folder": "here"}).to_string())).await;
    assert!(relative.is_err_and(|error| error.to_string().contains("absolute")));
    Ok(())
}
