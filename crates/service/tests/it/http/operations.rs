//! Operations for the operator: metrics, health, the API document.

use std::collections::BTreeSet;
use std::time::Duration;

use inferstore_service::{Config, Service};

use super::support::{TestResult, api, client, config, exchange, host, metrics};

fn request(method: &str) -> String {
    format!("{method} /api/v1/api-key/balance HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
}

#[tokio::test]
async fn made_up_methods_are_one_label_and_no_series_appears_twice() -> TestResult {
    let service = Service::start(config()).await?;
    let storage = host(service.storage_url());
    for number in 0..40 {
        let method = format!("{}-{number}", "M".repeat(50_000));
        exchange(api(&service), request(&method).as_bytes()).await?;
        exchange(storage, request(&method).as_bytes()).await?;
    }
    for method in ["FOO-1", "FOO-2", "GET!"] {
        exchange(api(&service), request(method).as_bytes()).await?;
    }
    let text = metrics(&service).await?;
    assert!(text.len() < 100_000, "{} bytes of metrics", text.len());
    let route = "/api/v1/api-key/balance";
    let other = text.lines().find(|line| {
        line.starts_with("inferstore_requests_total{") && line.contains("other") && line.contains(route)
    });
    assert!(other.is_some_and(|line| line.ends_with(" 43")), "{other:?}");
    let series: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let names: BTreeSet<_> = series.iter().filter_map(|line| line.rsplit_once(' ')).collect();
    let names: BTreeSet<_> = names.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), series.len(), "a series appears twice");
    Ok(())
}

#[tokio::test]
async fn latencies_are_a_histogram_by_route_and_two_services_count_apart() -> TestResult {
    let service = Service::start(config()).await?;
    let other = Service::start(config()).await?;
    client()?.get(format!("{}/api-key/balance", service.base_url())).send().await?;
    let text = metrics(&service).await?;
    let bucket = text.lines().find(|line| {
        line.starts_with("inferstore_request_duration_seconds_bucket{")
            && line.contains("route=\"/api/v1/api-key/balance\"")
            && line.contains("le=\"+Inf\"")
    });
    assert!(bucket.is_some_and(|line| line.ends_with(" 1")), "{text}");
    // Names, types and help are an interface for operators.
    let families: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
    insta::assert_snapshot!(families.join("\n"));
    assert!(!metrics(&other).await?.contains("api-key/balance"), "metrics are shared");
    Ok(())
}

#[tokio::test]
async fn health_is_ok_while_the_database_commits() -> TestResult {
    let service = Service::start(config()).await?;
    let url = format!("{}/health", service.operations_url().ok_or("no operations listener")?);
    let health = client()?.get(&url).timeout(Duration::from_secs(20)).send().await?;
    assert_eq!(health.status(), 200);
    assert_eq!(health.text().await?, "ok\n");
    Ok(())
}

#[tokio::test]
async fn health_says_that_the_database_does_not_commit() -> TestResult {
    let parent = tempfile::tempdir()?;
    let mut config = Config::folder(parent.path().join("data"));
    config.operations = Some(([127, 0, 0, 1], 0).into());
    config.limits.health_timeout = Duration::from_millis(200);
    let service = Service::start(config).await?;
    let other = rusqlite::Connection::open(service.data_folder().join("inferstore.db"))?;
    other.execute_batch("BEGIN IMMEDIATE")?;
    let url = format!("{}/health", service.operations_url().ok_or("no operations listener")?);
    let health = client()?.get(&url).send().await?;
    assert_eq!(health.status(), 503);
    assert_eq!(health.text().await?, "the database does not commit\n");
    other.execute_batch("ROLLBACK")?;
    let healthy = async {
        while client()?.get(&url).send().await?.status() != 200 {}
        TestResult::Ok(())
    };
    tokio::time::timeout(Duration::from_secs(30), healthy).await??;
    Ok(())
}

#[tokio::test]
async fn the_age_of_the_queue_is_that_of_the_task_that_waits_longest() -> TestResult {
    let mut config = config().with_controls();
    config.workers = 0;
    let service = Service::start(config).await?;
    assert!(metrics(&service).await?.contains("\ninferstore_queue_age_seconds 0\n"));
    let url = format!("{}/api-key/model/color-extraction/task", service.base_url());
    for _ in 0..2 {
        let request = client()?.post(&url).header("x-api-key", service.api_key().ok_or("no key")?);
        let request = request.header("content-type", "application/json");
        request.body(r#"{"input":"https://files.example/a.png"}"#).send().await?.error_for_status()?;
        service.controls()?.advance_clock(Duration::from_secs(100)).await?;
    }
    let text = metrics(&service).await?;
    let age = text.lines().find_map(|line| line.strip_prefix("inferstore_queue_age_seconds "));
    let age: i64 = age.ok_or("no age")?.parse()?;
    assert!((200..230).contains(&age), "{age}");

    // The tasks date from the future, because the clock was set back.
    let database = rusqlite::Connection::open(service.data_folder().join("inferstore.db"))?;
    database.execute("UPDATE tasks SET created_at = created_at + 1000000", [])?;
    assert!(metrics(&service).await?.contains("\ninferstore_queue_age_seconds 0\n"));
    Ok(())
}

#[tokio::test]
async fn metrics_of_the_process_are_served_while_the_database_fails() -> TestResult {
    let service = Service::start(config()).await?;
    client()?.get(format!("{}/api-key/balance", service.base_url())).send().await?;
    let of_database = ["inferstore_queue_age_seconds ", "inferstore_stored_bytes ", "inferstore_tasks{"];
    let text = metrics(&service).await?;
    assert!(of_database.iter().all(|name| text.contains(name)), "{text}");
    assert_eq!(value(&text, "inferstore_database_up", &[]), Some(1.0));

    let database = rusqlite::Connection::open(service.data_folder().join("inferstore.db"))?;
    database.execute_batch("ALTER TABLE turns RENAME TO gone")?;
    let text = metrics(&service).await?;
    assert!(!of_database.iter().any(|name| text.contains(name)), "{text}");
    assert_eq!(value(&text, "inferstore_database_up", &[]), Some(0.0));
    let balance = value(&text, "inferstore_requests_total", &["/api-key/balance", "401"]);
    assert_eq!((balance, text.ends_with("# EOF\n")), (Some(1.0), true));
    database.execute_batch("ALTER TABLE gone RENAME TO turns")?;
    Ok(())
}

#[tokio::test]
async fn the_journal_of_the_controls_keeps_the_beginning_of_long_requests() -> TestResult {
    let service = Service::start(config().with_controls()).await?;
    let long = "x".repeat(30_000);
    let request = format!("{long} /{long} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    exchange(api(&service), request.as_bytes()).await?;
    let journal = service.controls()?.journal();
    let entry = journal.last().ok_or("an empty journal")?;
    assert!(entry.method.len() <= 1_000 && entry.path.len() <= 1_000, "{entry:?}");
    Ok(())
}

#[tokio::test]
async fn the_document_is_served_without_a_key() -> TestResult {
    let service = Service::start(config()).await?;
    let response = client()?.get(format!("http://{}/openapi.yaml", api(&service))).send().await?;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/yaml");
    assert!(response.text().await?.contains("\nopenapi: "));
    Ok(())
}

fn value(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let is_it = |line: &&str| line.starts_with(name) && labels.iter().all(|label| line.contains(label));
    text.lines().find(is_it).and_then(|line| line.rsplit_once(' ')?.1.parse().ok())
}

#[tokio::test]
async fn metrics_tell_of_each_model_what_waits_and_runs_and_who_serves_it() -> TestResult {
    const MODEL: &str = "model=\"color-extraction\"";
    let mut config = config().with_controls();
    config.workers = 1;
    let service = Service::start(config).await?;
    let controls = service.controls()?;
    let key = service.api_key().ok_or("no key")?;
    let url = format!("{}/api-key/model/color-extraction/task", service.base_url());
    let create = async || {
        let request =
            client()?.post(&url).header("x-api-key", key).header("content-type", "application/json");
        request.body(r#"{"input":"https://127.0.0.1/a.png"}"#).send().await?.error_for_status()?;
        TestResult::Ok(())
    };
    create().await?;
    let ended = async {
        loop {
            let text = metrics(&service).await?;
            let labels = [MODEL, "outcome=\"failure\""];
            let job = ["job_name=\"totals\""];
            let has_run = value(&text, "inferstore_job_last_success_timestamp_seconds", &job).is_some();
            if has_run && value(&text, "inferstore_task_run_seconds_count", &labels) == Some(1.0) {
                return TestResult::Ok(text);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let text = tokio::time::timeout(Duration::from_secs(30), ended).await??;
    assert_eq!(value(&text, "inferstore_task_wait_seconds_count", &[MODEL]), Some(1.0));
    assert_eq!(value(&text, "inferstore_model_nodes", &[MODEL]), Some(1.0));

    controls.take_node_down().await?;
    for _ in 0..2 {
        create().await?;
    }
    controls.advance_clock(Duration::from_secs(100)).await?;
    let text = metrics(&service).await?;
    assert_eq!(value(&text, "inferstore_model_tasks", &[MODEL, "in_queue"]), Some(2.0));
    assert!(value(&text, "inferstore_model_queue_age_seconds", &[MODEL]) >= Some(100.0));
    assert_eq!(value(&text, "inferstore_model_nodes", &[MODEL]), Some(0.0));
    Ok(())
}
