//! Redaction: credentials cannot be printed by accident.

use inferstore_api::{ApiKey, Client, Envelope, types};

use inferstore_wire::{Server, response};

const KEY: &str = "planted-api-key";
const SIGNATURE: &str = "planted-signature";

fn upload() -> Envelope<types::PresignedUpload> {
    let json = format!(
        r#"{{"status":"success","data":{{"endpoint":"https://bucket.example/a?X-Amz-Signature={SIGNATURE}",
            "download_url":"https://files.example/a","fields":"{{\"policy\":\"{SIGNATURE}\"}}"}}}}"#
    );
    serde_json::from_str(&json).expect("it is an upload target")
}

#[test]
fn the_key_is_in_no_debug_output() {
    let key = ApiKey::new(KEY);
    let client = Client::new("http://127.0.0.1:1/api/v1", key.clone()).expect("a client can be made");
    for printed in [format!("{key:?}"), format!("{key:#?}"), format!("{client:?}"), format!("{client:#?}")] {
        assert!(!printed.contains(KEY), "{printed}");
    }
    assert_eq!(key.expose(), KEY, "it can be read on purpose");
}

#[test]
fn the_target_of_an_upload_is_in_no_debug_output() {
    let answer = upload();
    let target = &answer.data;
    let printed = [
        format!("{answer:?}"),
        format!("{answer:#?}"),
        format!("{target:?}"),
        format!("{:?} {}", target.endpoint, target.fields),
    ];
    for text in printed {
        assert!(!text.contains(SIGNATURE), "{text}");
    }
    assert!(target.endpoint.expose().contains(SIGNATURE) && target.fields.expose().contains(SIGNATURE));
}

#[tokio::test]
async fn the_key_is_in_no_error() {
    let refusing = Server::answering(response("403 Forbidden", "text/html", "<html>no</html>"));
    let garbled = Server::answering(response("200 OK", "application/json", "{\"status\":"));
    let cut = Server::answering("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{");
    let silent = Server::answering("");
    let base_urls =
        [refusing.base_url(), garbled.base_url(), cut.base_url(), silent.base_url(), "nonsense".to_owned()];
    for base_url in base_urls {
        let client = Client::new(&base_url, ApiKey::new(KEY)).expect("a client can be made");
        let error = client.get_balance().await.expect_err("none of them answers");
        for printed in [format!("{error}"), format!("{error:#}"), format!("{error:?}"), format!("{error:#?}")]
        {
            assert!(!printed.contains(KEY), "{printed}");
        }
    }
}

#[tokio::test]
async fn a_key_that_no_header_can_carry_is_refused_without_naming_it() {
    let server = Server::answering("");
    let client = Client::new(&server.base_url(), ApiKey::new(format!("{KEY}\nwith a line break")))
        .expect("a client can be made");
    let error = client.get_balance().await.expect_err("it cannot be sent");
    assert!(error.to_string().contains("API key") && !error.to_string().contains(KEY), "{error}");
    assert_eq!(server.texts(), Vec::<String>::new());
}
