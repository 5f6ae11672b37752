//! Client over a socket: bounded responses, redirects, proxies, and custom transports.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::error::Error as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use inferstore_api::{ApiKey, BodyTooLarge, Client, Error, Transport};
use inferstore_wire::{Reaction, Request, Server};

const BALANCE: &str = r#"{"status":"success","data":{"balance":"12.50"}}"#;

/// Environment variable of the base URL in the child process.
const CHILD_BASE_URL: &str = "INFERSTORE_TEST_BASE_URL";

/// Starts a server that responds to each request by its head.
fn serve(respond: impl Fn(&str) -> String + Send + 'static) -> Server {
    Server::start(move |request| Reaction::Raw(respond(&request.head).into_bytes()))
}

fn client(server: &Server) -> Client {
    Client::new(&server.base_url(), ApiKey::new("key")).unwrap()
}

fn lines(server: &Server) -> Vec<String> {
    server.requests().iter().map(Request::line).collect()
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn chunked(body: &str) -> String {
    let chunks: String = body
        .as_bytes()
        .chunks(7)
        .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk)))
        .collect();
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
}

fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} R\r\nconnection: close\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
}

fn limit_in(error: &(dyn std::error::Error + 'static)) -> Option<u64> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<BodyTooLarge>() {
            assert!(error.to_string().contains(&error.limit().to_string()), "{error}");
            return Some(error.limit());
        }
        cause = error.source();
    }
    None
}

#[tokio::test]
async fn a_response_body_up_to_the_limit_is_read() {
    for response in [ok(BALANCE), chunked(BALANCE)] {
        let server = serve(move |_| response.clone());
        let client = client(&server).with_max_response_body(BALANCE.len() as u64);
        let balance = client.get_balance().await;
        assert_eq!(balance.unwrap().into_inner().data.balance, Some("12.50".parse().unwrap()));
    }
}

#[tokio::test]
async fn the_failure_of_a_service_is_read_and_a_page_is_none() {
    let refusal = |body: &str| ok(body).replace("200 OK", "402 R");
    let failed = refusal(r#"{"status":"error","message":"no balance"}"#);
    for (response, message) in [(failed, Some("no balance")), (refusal("<html>"), None)] {
        let server = serve(move |_| response.clone());
        let error = client(&server).get_balance().await.unwrap_err();
        assert_eq!(inferstore_api::failure(error).await.map(|failure| failure.message).as_deref(), message);
    }
}

#[tokio::test]
async fn a_response_body_beyond_the_limit_fails_the_call_and_names_the_limit() {
    let limit = BALANCE.len() as u64 - 1;
    for response in [ok(BALANCE), chunked(BALANCE)] {
        let server = serve(move |_| response.clone());
        let client = client(&server).with_max_response_body(limit);
        let error = client.get_balance().await.unwrap_err();
        assert_eq!(limit_in(error.source().unwrap()), Some(limit), "{error:?}");
    }
}

#[tokio::test]
async fn a_body_that_declares_too_much_is_not_read() {
    // The body never arrives: reading it would fail in another way.
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n{";
    let server = serve(move |_| head.to_owned());
    let error = client(&server).get_balance().await.unwrap_err();
    assert_eq!(limit_in(error.source().unwrap()), Some(inferstore_api::MAX_RESPONSE_BODY), "{error:?}");
}

#[tokio::test]
async fn a_get_follows_redirects_within_the_origin_and_keeps_the_key() {
    let server = serve(|request| match request {
        text if text.starts_with("GET /moved/again") => ok(BALANCE),
        text if text.starts_with("GET /moved") => redirect(308, "/moved/again"),
        _ => redirect(302, "/moved"),
    });
    client(&server).get_balance().await.unwrap();
    assert_eq!(lines(&server), ["GET /api/v1/api-key/balance", "GET /moved", "GET /moved/again"]);
    let requests = server.texts();
    assert!(requests.iter().all(|text| text.contains("x-api-key: key")), "{requests:?}");
    // The generator adds a header that the document does not declare.
    assert!(requests.iter().all(|text| !text.contains("api-version")), "{requests:?}");
}

#[tokio::test]
async fn a_redirect_of_anything_but_a_get_is_an_unexpected_response() {
    for status in [301, 302, 303, 307, 308] {
        let server = serve(move |_| redirect(status, "/moved"));
        let error = client(&server).cancel_task(&"t-1".parse().unwrap()).await.unwrap_err();
        assert_eq!(error.status().map(|status| status.as_u16()), Some(status));
        assert_eq!(lines(&server).len(), 1, "{:?}", lines(&server));
    }
}

#[tokio::test]
async fn redirects_to_another_origin_and_loops_end() {
    let elsewhere = serve(|_| ok(BALANCE));
    let target = format!("{}/api/v1/api-key/balance", elsewhere.origin());
    let server = serve(move |_| redirect(302, &target));
    let error = client(&server).get_balance().await.unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(302));
    assert_eq!(lines(&elsewhere), Vec::<String>::new());

    let endless = serve(|_| redirect(302, "/again"));
    let error = client(&endless).get_balance().await.unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(302));
    assert_eq!(lines(&endless).len(), 11);
}

#[tokio::test]
async fn a_transport_sees_every_request_with_the_key_and_may_add_headers() {
    struct WithHeader(reqwest::Client);
    impl Transport for WithHeader {
        fn execute(
            &self,
            mut request: reqwest::Request,
        ) -> Pin<Box<dyn Future<Output = reqwest::Result<reqwest::Response>> + Send + '_>> {
            assert!(request.headers().contains_key("x-api-key"));
            request.headers_mut().insert("x-tenant", reqwest::header::HeaderValue::from_static("blue"));
            Box::pin(self.0.execute(request))
        }
    }
    let server = serve(|_| ok(BALANCE));
    let http = inferstore_api::http_client_builder_for(&server.origin()).build().unwrap();
    let base_url = format!("{}/api/v1/", server.origin());
    for transport in [Arc::new(WithHeader(http.clone())) as Arc<dyn Transport>, Arc::new(http)] {
        let client = Client::new(&base_url, ApiKey::new("key")).unwrap().with_transport(transport);
        client.get_balance().await.unwrap();
    }
    let requests = server.texts();
    let with_header: Vec<_> = requests.iter().map(|text| text.contains("x-tenant: blue")).collect();
    assert_eq!(with_header, [true, false]);
}

/// Transport whose responses have no URL: a redirect, then the balance.
struct Made(Mutex<Vec<String>>);

impl Transport for Made {
    fn execute(
        &self,
        request: reqwest::Request,
    ) -> Pin<Box<dyn Future<Output = reqwest::Result<reqwest::Response>> + Send + '_>> {
        let url = request.url().to_string();
        let response = http::Response::builder();
        let response = match url.ends_with("/balance") {
            true => response.status(302).header("location", "/moved").body(""),
            false => response.body(BALANCE),
        };
        self.0.lock().unwrap().push(url);
        Box::pin(std::future::ready(Ok(response.unwrap().into())))
    }
}

#[tokio::test]
async fn a_redirect_made_by_a_transport_stays_in_the_origin() {
    let transport = Arc::new(Made(Mutex::default()));
    let client = Client::new("http://127.0.0.1:9/api/v1", ApiKey::new("key")).unwrap();
    client.with_transport(Arc::clone(&transport) as Arc<dyn Transport>).get_balance().await.unwrap();
    let urls = transport.0.lock().unwrap();
    assert_eq!(urls[..], ["http://127.0.0.1:9/api/v1/api-key/balance", "http://127.0.0.1:9/moved"]);
}

struct Bytes(&'static [u8]);

impl Transport for Bytes {
    fn execute(
        &self,
        _: reqwest::Request,
    ) -> Pin<Box<dyn Future<Output = reqwest::Result<reqwest::Response>> + Send + '_>> {
        Box::pin(std::future::ready(Ok(http::Response::new(self.0).into())))
    }
}

#[tokio::test]
async fn a_body_that_is_no_text_is_in_the_error_with_the_place() {
    const BODY: &[u8] = b"{\"status\":\"success\",\"data\":{\"balance\":\"\xff\"}}";
    let client = Client::new("http://127.0.0.1:9/api/v1", ApiKey::new("key")).unwrap();
    let read = client.with_transport(Arc::new(Bytes(BODY))).get_balance().await;
    let Err(Error::InvalidResponsePayload(body, error)) = read else { panic!("{read:?}") };
    assert!(body == BODY && error.column() == 40, "{error}");
}

#[tokio::test]
async fn plain_http_to_this_machine_goes_through_no_proxy_from_the_environment() {
    if let Ok(base_url) = std::env::var(CHILD_BASE_URL) {
        Client::new(&base_url, ApiKey::new("key")).unwrap().get_balance().await.unwrap();
        return;
    }
    let proxy = serve(|_| ok(BALANCE));
    let server = serve(|_| ok(BALANCE));
    let reads_balance = |base_url: String| {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        // Runs this test again, with the proxy in its environment.
        child.args(["--exact", std::thread::current().name().unwrap()]);
        child
            .env(CHILD_BASE_URL, base_url)
            .env("HTTP_PROXY", proxy.origin())
            .env("http_proxy", proxy.origin());
        child.env_remove("NO_PROXY").env_remove("no_proxy").env_remove("REQUEST_METHOD");
        async move { tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap() }
    };
    let output = reads_balance(format!("{}/api/v1", server.origin())).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!((lines(&proxy).len(), lines(&server).len()), (0, 1));
    // Other hosts still use the proxy.
    let output = reads_balance("http://service.invalid/api/v1".to_owned()).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(lines(&proxy), ["GET http://service.invalid/api/v1/api-key/balance"]);
}
