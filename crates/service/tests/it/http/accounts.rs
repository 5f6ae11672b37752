//! Limits of one account: concurrent requests and request rate.

use std::num::NonZeroU32;

use inferstore_service::{Scope, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{TestResult, api, client, config};

const GOES_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

#[tokio::test]
async fn one_account_has_a_quarter_of_the_requests_at_once_and_others_go_on() -> TestResult {
    let mut config = config();
    config.limits.max_requests = 8;
    let service = Service::start(config).await?;
    let key = service.api_key().ok_or("no key")?;
    service.add_account("second", Scope::Personal).await?;
    let second = service.add_key("second").await?;
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(api(&service)).await?;
        let request = format!(
            "POST /api/v1/api-key/model/list HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n\
             content-type: application/json\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        // Sent when the body is asked for, so the request is counted by then.
        let mut goes_on = [0; GOES_ON.len()];
        stream.read_exact(&mut goes_on).await?;
        assert_eq!(&goes_on, GOES_ON);
        slow.push(stream);
    }
    let url = format!("{}/api-key/balance", service.base_url());
    let refused = client()?.get(&url).header("x-api-key", key).send().await?;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    let other = client()?.get(&url).header("x-api-key", &second).send().await?;
    assert_eq!(other.status(), 200);
    for stream in &mut slow {
        stream.write_all(b"{}").await?;
        let mut response = [0; 12];
        stream.read_exact(&mut response).await?;
        assert_eq!(&response, b"HTTP/1.1 200");
    }
    let again = client()?.get(&url).header("x-api-key", key).send().await?;
    assert_eq!(again.status(), 200);
    Ok(())
}

#[tokio::test]
async fn requests_above_the_rate_of_an_account_are_refused_with_retry_after() -> TestResult {
    let mut config = config();
    config.request_rate = NonZeroU32::new(2);
    let service = Service::start(config).await?;
    let key = service.api_key().ok_or("no key")?;
    let url = format!("{}/api-key/balance", service.base_url());
    let mut statuses = Vec::new();
    for _ in 0..20 {
        let response = client()?.get(&url).header("x-api-key", key).send().await?;
        statuses.push(response.status().as_u16());
        if response.status() == 429 {
            assert_eq!(response.headers()["retry-after"], "1");
        }
    }
    assert_eq!(statuses[..2], [200, 200]);
    assert!(statuses.contains(&429), "{statuses:?}");
    Ok(())
}
