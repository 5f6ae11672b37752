//! Error responses: messages that help a caller, and that a client can read even while sending.

use std::time::Duration;

use inferstore_service::Service;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::support::{TestResult, api, ask, client, config, exchange, host};

#[tokio::test]
async fn a_request_without_exactly_one_host_is_refused_on_every_listener() -> TestResult {
    let service = Service::start(config()).await?;
    let operations = service.operations_url().ok_or("no operations listener")?;
    for host in [api(&service), host(service.storage_url()), host(operations)] {
        for hosts in ["", "host: a\r\nhost: a\r\n", "host: a\r\nhost: b\r\n"] {
            let request = format!("GET /nothing HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
            let response = exchange(host, request.as_bytes()).await?;
            assert!(response.starts_with("HTTP/1.1 400 "), "{hosts:?}: {response}");
            // Without it, a client would conclude that the service knows no idempotency keys.
            assert!(response.contains("\r\nidempotency-key-retention: "), "{response}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn stacked_transfer_codings_are_refused_and_the_connection_is_closed() -> TestResult {
    let service = Service::start(config()).await?;
    for codings in [
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: chunked, chunked\r\n",
        "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
    ] {
        let request = format!("POST /nothing HTTP/1.1\r\nhost: x\r\n{codings}\r\n0\r\n\r\n");
        let response = exchange(api(&service), request.as_bytes()).await?;
        assert!(response.starts_with("HTTP/1.1 400 "), "{codings:?}: {response}");
    }
    Ok(())
}

#[tokio::test]
async fn a_large_body_that_is_refused_does_not_cost_the_client_the_response() -> TestResult {
    let service = Service::start(config()).await?;
    for path in ["model/color-extraction/task", "nothing"] {
        let size = 20_000_000;
        let head = format!(
            "POST /api/v1/api-key/{path} HTTP/1.1\r\nhost: x\r\nx-api-key: wrong\r\n\
             content-type: application/json\r\ncontent-length: {size}\r\n\r\n"
        );
        let mut stream = TcpStream::connect(api(&service)).await?;
        stream.write_all(&[head.as_bytes(), &vec![b' '; size]].concat()).await?;
        let response = ask(&mut stream, "").await?;
        assert!(response.starts_with("HTTP/1.1 40"), "{response}");
        ask(&mut stream, "GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_invited() -> TestResult {
    let service = Service::start(config()).await?;
    let key = service.api_key().ok_or("no key")?;
    let request = format!(
        "POST /api/v1/api-key/model/list HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n\
         content-type: application/json\r\ncontent-length: 20000000\r\nexpect: 100-continue\r\n\r\n"
    );
    let response = exchange(api(&service), request.as_bytes()).await?;
    assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
    Ok(())
}

#[tokio::test]
async fn a_client_that_closes_its_sending_side_gets_its_response() -> TestResult {
    let service = Service::start(config()).await?;
    let key = service.api_key().ok_or("no key")?;
    for path in ["balance", "model/color-extraction"] {
        let head = format!("GET /api/v1/api-key/{path} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n\r\n");
        let mut stream = TcpStream::connect(api(&service)).await?;
        stream.write_all(head.as_bytes()).await?;
        stream.shutdown().await?;
        let response = ask(&mut stream, "").await?;
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    }
    Ok(())
}

#[tokio::test]
async fn a_refused_body_too_large_to_drain_closes_the_connection() -> TestResult {
    let mut config = config();
    config.limits.head_timeout = Duration::from_millis(300);
    let service = Service::start(config).await?;
    let request = "POST /api/v1/nothing HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n";
    let response = exchange(api(&service), request.as_bytes()).await?;
    assert!(response.contains("\r\nconnection: close\r\n"), "{response}");
    Ok(())
}

#[tokio::test]
async fn refusals_name_the_path_as_it_was_sent() -> TestResult {
    let service = Service::start(config()).await?;
    let client = client()?;
    let wrong_method = client.post(format!("{}/api-key/balance", service.base_url())).send().await?;
    assert_eq!(wrong_method.status(), 405);
    let body: Value = serde_json::from_str(&wrong_method.text().await?)?;
    assert!(body["message"].as_str().is_some_and(|it| it.contains("/api/v1/api-key/balance")), "{body}");
    let no_path = "GET example.com:80 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let response = exchange(api(&service), no_path.as_bytes()).await?;
    assert!(!response.contains("nothing at ;"), "{response}");
    Ok(())
}

#[tokio::test]
async fn head_is_accepted_where_get_is() -> TestResult {
    let service = Service::start(config()).await?;
    let url = format!("{}/api-key/balance", service.base_url());
    let key = service.api_key().ok_or("no key")?;
    let response = client()?.head(&url).header("x-api-key", key).send().await?;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["cache-control"], "no-store", "no cache keeps what an account has");
    assert_eq!(client()?.head(&url).send().await?.status(), 401);
    Ok(())
}

#[tokio::test]
async fn a_compressed_body_is_refused_by_name() -> TestResult {
    let service = Service::start(config()).await?;
    let request = client()?.post(format!("{}/api-key/model/list", service.base_url()));
    let request = request.header("x-api-key", service.api_key().ok_or("no key")?);
    let request = request.header("content-type", "application/json").header("content-encoding", "gzip");
    assert_eq!(request.body("{}").send().await?.status(), 415);
    Ok(())
}
