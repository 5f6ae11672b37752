//! Errors of failure responses.

#![expect(clippy::panic, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Body, Request, Response};
use inferstore::{CallContext, Client, Error, File, Inputs, Result, Retry};
use inferstore_testing::ScriptedService;

/// Responds to everything with this status, these headers and this body.
struct Refusal(u16, &'static [(&'static str, &'static str)], String);

impl Middleware for Refusal {
    fn handle<'a>(&'a self, _: Request, _: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        let mut response = http::Response::builder().status(self.0);
        for (name, value) in self.1 {
            response = response.header(*name, *value);
        }
        let Ok(response) = response.body(Body::from(self.2.clone())) else { panic!("no such response") };
        Box::pin(async move { Ok(response.into()) })
    }
}

/// Returns the error of a call without retries.
async fn refused(refusal: Refusal) -> Result<Error> {
    let client = Client::builder("http://127.0.0.1:9/api/v1", "the-key");
    let client = client.settings(|settings| settings.retry = Retry::none()).middleware(refusal).build()?;
    match client.balance().await {
        Ok(_) => panic!("it is no success"),
        Err(error) => Ok(error),
    }
}

fn context(error: &Error) -> &CallContext {
    let Some(context) = error.context() else { panic!("an error of a call: {error:?}") };
    context
}

#[tokio::test]
async fn a_rate_limit_says_how_long_to_wait_and_why() -> Result<()> {
    let body = r#"{"status": "fail", "message": "slow down"}"#.to_owned();
    let error = refused(Refusal(429, &[("retry-after", "7"), ("x-request-id", "r-1")], body)).await?;
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert!(error.is_retryable() && !error.is_not_found() && !error.is_insufficient_balance(), "{error:?}");
    let context = context(&error);
    assert_eq!((context.status, context.message.as_deref()), (Some(429), Some("slow down")));
    assert_eq!(context.request_id.as_deref(), Some("r-1"));
    Ok(())
}

#[tokio::test]
async fn what_is_not_there_or_not_paid_can_be_told_apart() -> Result<()> {
    let missing =
        refused(Refusal(404, &[], r#"{"status": "fail", "message": "no such account"}"#.to_owned())).await?;
    assert!(missing.is_not_found() && !missing.is_insufficient_balance() && !missing.is_retryable());
    let unpaid = refused(Refusal(402, &[], String::new())).await?;
    assert!(unpaid.is_insufficient_balance() && !unpaid.is_not_found() && !unpaid.is_retryable());
    assert_eq!(context(&unpaid).message, None);
    assert!(unpaid.hint().contains("balance") && missing.hint().contains("base URL"));
    let busy = Error::Api(Box::new(CallContext::new("createTask", Some(503))));
    assert!(busy.hint().contains("if the service promises"), "{}", busy.hint());
    Ok(())
}

#[tokio::test]
async fn a_page_of_a_gateway_is_quoted() -> Result<()> {
    let error = refused(Refusal(502, &[], "<h1>Bad gateway</h1>".to_owned())).await?;
    assert_eq!(context(&error).excerpt.as_deref(), Some("<h1>Bad gateway</h1>"));
    assert!(error.to_string().contains("502: <h1>Bad gateway</h1>"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_failure_in_a_success_is_a_refusal_and_other_bodies_are_foreign() -> Result<()> {
    for body in [
        r#"{"status": "fail", "message": "closed"}"#,
        r#"{"status": "fail", "message": "closed", "data": {}}"#,
    ] {
        let error = refused(Refusal(200, &[], body.to_owned())).await?;
        assert!(matches!(error, Error::Api(_)) && !error.is_retryable(), "{error:?}");
        assert_eq!((error.status(), context(&error).message.as_deref()), (Some(200), Some("closed")));
    }
    let page = refused(Refusal(200, &[("content-type", "text/html")], "<p>Sign in</p>".to_owned())).await?;
    assert!(matches!(page, Error::Decode(_)), "{page:?}");
    assert_eq!(context(&page).message, None);
    Ok(())
}

#[tokio::test]
async fn a_failure_in_a_success_is_found_whatever_else_the_body_holds() -> Result<()> {
    // Deeper than the recursion limit of a parser of the whole body.
    let detail = "[".repeat(200) + &"]".repeat(200);
    let body = format!(r#"{{"status": "fail", "data": {detail}, "message": "closed"}}"#);
    let error = refused(Refusal(200, &[], body)).await?;
    assert!(matches!(error, Error::Api(_)), "{error:?}");
    assert_eq!(context(&error).message.as_deref(), Some("closed"));
    Ok(())
}

#[tokio::test]
async fn the_message_of_a_refusal_is_found_in_a_bounded_body() -> Result<()> {
    for (length, message) in [(60_000, Some("no")), (100_000, None)] {
        let padding = "x".repeat(length);
        let body = format!(r#"{{"status": "fail", "padding": "{padding}", "message": "no"}}"#);
        let error = refused(Refusal(403, &[], body)).await?;
        assert_eq!(context(&error).message.as_deref(), message, "{length} bytes");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_message_of_a_store_is_found_in_a_response_of_some_length() -> Result<()> {
    let service = ScriptedService::new();
    let _ = service.model("m");
    let client = service.client_builder().settings(|settings| settings.retry = Retry::none()).build()?;
    for (length, is_found) in [(60_000, true), (70_000, false)] {
        let padding = "x".repeat(length);
        let message = "<Message>it has more than 5 GiB</Message>";
        let body = format!("<Error><!-- {padding} --><Code>EntityTooLarge</Code>{message}</Error>");
        service.responds("upload", 400, body);
        let file = File::bytes("a.png", b"pixels".to_vec());
        let run = client.model("m").run(Inputs::new().file("input", file));
        let Err(error) = run.await else { panic!("the store refuses it") };
        assert_eq!(error.to_string().contains("it has more than 5 GiB"), is_found, "{error}");
    }
    Ok(())
}

/// Responds with a failure in these pieces, and counts the read ones.
struct Pieces(Vec<String>, Arc<AtomicU32>);

impl Middleware for Pieces {
    fn handle<'a>(&'a self, _: Request, _: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        let read = Arc::clone(&self.1);
        let pieces = stream::iter(self.0.clone()).map(move |piece| {
            read.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(piece)
        });
        let mut response = http::Response::new(Body::wrap_stream(pieces));
        *response.status_mut() = http::StatusCode::BAD_REQUEST;
        Box::pin(async move { Ok(response.into()) })
    }
}

#[tokio::test]
async fn a_refusal_is_read_up_to_a_limit_however_its_pieces_come() -> Result<()> {
    let padding = "x".repeat(40_000);
    let mut pieces =
        vec![format!(r#"{{"padding": "{padding}"#), format!(r#"{padding}", "message": "late"}}"#)];
    pieces.extend(std::iter::repeat_n(" ".to_owned(), 10));
    let read = Arc::new(AtomicU32::new(0));
    let client = Client::builder("http://127.0.0.1:9/api/v1", "the-key")
        .settings(|settings| settings.retry = Retry::none());
    let client = client.middleware(Pieces(pieces, Arc::clone(&read))).build()?;
    let Err(error) = client.balance().await else { panic!("it is no success") };
    assert_eq!(context(&error).message, None, "its end was not read");
    assert_eq!(read.load(Ordering::Relaxed), 2);
    Ok(())
}

#[tokio::test]
async fn a_failure_in_a_success_names_its_request() -> Result<()> {
    let body = r#"{"status": "fail", "message": "closed", "data": {}}"#.to_owned();
    let error = refused(Refusal(200, &[("x-request-id", "r-1")], body)).await?;
    assert_eq!(context(&error).request_id.as_deref(), Some("r-1"));
    Ok(())
}

/// Replaces each request by an invalid one.
struct Unbuildable;

impl Middleware for Unbuildable {
    fn handle<'a>(&'a self, _: Request, _: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async {
            let http = inferstore_api::http_client_builder_for("http://127.0.0.1:1/").build()?;
            let request = http.get("http://").build()?;
            panic!("no request: {request:?}")
        })
    }
}

#[tokio::test]
async fn a_request_that_middleware_cannot_build_is_no_failure_of_the_network() -> Result<()> {
    let client = ScriptedService::new().client_builder().middleware(Unbuildable).build()?;
    let Err(error) = client.balance().await else { panic!("it is no success") };
    assert!(
        matches!(&error, Error::InvalidArgument(problem) if problem.contains("cannot be built")),
        "{error:?}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_proxy_page_is_retried_and_any_request_counts() -> Result<()> {
    let service = ScriptedService::new();
    let client = service.client()?;
    service.responds("getBalance", 503, "");
    client.request(reqwest::Method::GET, "/api-key/balance", None).await?;
    service.responds("getBalance", 200, "<p>Back in a moment</p>");
    client.balance().await?;
    Ok(())
}
