//! CORS: calls of web pages in a browser.

use inferstore_service::Service;
use reqwest::Method;
use reqwest::header::HeaderMap;

use super::support::{TestResult, client, config};

const PAGE: &str = "https://app.example";

async fn preflight(service: &Service, origin: &str) -> TestResult<(u16, HeaderMap)> {
    let url = format!("{}/api-key/model/list", service.base_url());
    let request = client()?.request(Method::OPTIONS, url).header("origin", origin);
    let request = request.header("access-control-request-method", "POST");
    let request = request.header("access-control-request-headers", "x-api-key,content-type");
    let response = request.send().await?;
    Ok((response.status().as_u16(), response.headers().clone()))
}

#[tokio::test]
async fn pages_of_the_configured_origins_call_the_api_and_no_others() -> TestResult {
    let mut config = config();
    config.cors_origins = vec![PAGE.parse()?, "https://second.example".parse()?];
    let service = Service::start(config).await?;
    let (status, headers) = preflight(&service, PAGE).await?;
    assert_eq!(status, 200, "a preflight has no key");
    assert_eq!(headers["access-control-allow-origin"], PAGE);
    let allowed = headers["access-control-allow-headers"].to_str()?;
    assert!(
        ["x-api-key", "idempotency-key", "traceparent"].iter().all(|header| allowed.contains(header)),
        "{allowed}"
    );
    let (_, headers) = preflight(&service, "https://evil.example").await?;
    assert!(!headers.contains_key("access-control-allow-origin"));
    let url = format!("{}/api-key/balance", service.base_url());
    let refused = client()?.get(&url).header("origin", PAGE).send().await?;
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.headers()["access-control-allow-origin"], PAGE);
    let exposed = refused.headers()["access-control-expose-headers"].to_str()?.to_owned();
    for header in ["x-request-id", "retry-after", "idempotency-key-retention"] {
        assert!(exposed.contains(header), "{exposed}");
    }
    Ok(())
}

#[tokio::test]
async fn without_origins_there_are_no_cors_headers() -> TestResult {
    let service = Service::start(config()).await?;
    let (status, headers) = preflight(&service, PAGE).await?;
    assert_eq!(status, 405);
    assert!(!headers.contains_key("access-control-allow-origin"));
    Ok(())
}
