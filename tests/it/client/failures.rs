//! Every failure keeps its status, its operation and the beginning of its body, in every format.

use inferstore::{Client, Error, Retry};

use super::built;
use inferstore_wire::{Server, response};

const STATUSES: [u16; 12] = [301, 400, 401, 402, 403, 404, 409, 422, 429, 500, 502, 503];

const BODIES: [(&str, &str, &str); 6] = [
    ("application/json", r#"{"status":"fail","message":"the reason"}"#, "the reason"),
    ("application/json", r#"{"detail":["off schema"]}"#, "off schema"),
    ("application/json", r#"{"status":"fail","mess"#, "mess"),
    ("application/json", "", ""),
    ("text/html", "<html><body>Bad gateway</body></html>", "Bad gateway"),
    ("text/plain", "plain words", "plain words"),
];

#[tokio::test]
async fn twelve_statuses_with_six_bodies_keep_status_and_excerpt() {
    for status in STATUSES {
        for (content_type, body, part) in BODIES {
            let server = Server::answering(response(&format!("{status} Reason"), content_type, body));
            let error = impatient(&server.base_url()).balance().await.expect_err("it is a failure");
            let context = error.context().unwrap_or_else(|| panic!("{status} {body:?}: {error:?}"));
            assert_eq!((context.status, context.operation), (Some(status), "getBalance"), "{body:?}");
            assert!(context.excerpt.as_deref().unwrap_or_default().contains(part), "{context:?}");
            assert_eq!(
                error.kind() == inferstore::ErrorKind::Unauthorized,
                status == 401,
                "only 401 has a meaning"
            );
            let text = error.to_string();
            assert!(text.contains("getBalance") && text.contains(&status.to_string()), "{text}");
        }
    }
}

fn impatient(base_url: &str) -> Client {
    built(Client::builder(base_url, "key").settings(|settings| settings.retry = Retry::none()))
}

#[tokio::test]
async fn something_that_is_no_answer_of_the_service_is_reported_as_that() {
    let server = Server::answering(response("200 OK", "text/html", "<html>welcome</html>"));
    let error = impatient(&server.base_url()).balance().await.expect_err("it is no balance");
    let Error::Decode(context) = &error else { panic!("{error:?}") };
    assert_eq!(context.excerpt.as_deref(), Some("<html>welcome</html>"));
    assert!(error.hint().contains("base URL"), "{}", error.hint());
}

#[tokio::test]
async fn a_large_error_body_is_cut_at_2000_characters_and_its_message_found() {
    let body = format!(r#"{{"status":"fail","padding":"{}é","message":"the reason"}}"#, "x".repeat(10_000));
    let server = Server::answering(response("400 Bad Request", "application/json", &body));
    let error = impatient(&server.base_url()).balance().await.expect_err("it is a failure");
    let context = error.context().expect("it has a context");
    let excerpt = context.excerpt.as_deref().unwrap_or_default();
    assert_eq!((excerpt.chars().count(), excerpt.ends_with('…')), (2_001, true));
    assert_eq!(context.message.as_deref(), Some("the reason"));
}

#[tokio::test]
async fn an_identifier_that_leads_to_another_path_is_refused_before_sending() {
    let server = Server::answering(response("200 OK", "application/json", "{}"));
    let client = impatient(&server.base_url());
    for id in ["", " ", ".", ".."] {
        for error in [
            client.model(id).get().await.map(drop).expect_err("it is no identifier"),
            client.task(id).get().await.map(drop).expect_err("it is no identifier"),
            client.folder(id).page(Default::default(), 1).await.map(drop).expect_err("it is no folder"),
        ] {
            assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
        }
    }
    let error = client.folder("statistics").page(Default::default(), 1).await.expect_err("the path is taken");
    assert!(error.to_string().contains("another operation"), "{error}");
    assert_eq!(server.texts(), Vec::<String>::new(), "nothing was sent");
}

#[tokio::test]
async fn the_identifier_of_a_request_is_kept_however_it_fails() {
    let body = r#"{"status":"fail","message":"no","data":{}}"#;
    for status in ["500 Oops", "200 OK"] {
        let head = format!("HTTP/1.1 {status}\r\nx-request-id: r-1\r\ncontent-type: application/json\r\n");
        let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        let server = Server::answering(answer);
        let error = impatient(&server.base_url()).balance().await.expect_err("it is a failure");
        let known =
            error.context().map(|context| (context.request_id.as_deref(), context.message.as_deref()));
        assert_eq!(known, Some((Some("r-1"), Some("no"))), "{error:?}");
    }
}
