//! Redirects: only those of a read within the origin are followed, because a redirect would carry the key
//! along, and a changed method could report the success of a write that never happened.

use inferstore::{Client, Error, File};

use super::{built, inputs, quick};
use inferstore_wire::{Reaction, Server};

#[tokio::test]
async fn a_redirect_is_an_error_of_a_write_and_stays_in_the_origin_of_a_read() {
    let destination = Server::answering_json(serde_json::json!({"status": "success", "data": {}}));
    for status in [301, 302, 303, 307, 308] {
        for location in ["/api/v1/elsewhere".to_owned(), destination.base_url()] {
            let head = format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {location}\r\nconnection: close");
            let server = Server::answering(format!("{head}\r\ncontent-length: 0\r\n\r\n"));
            let client = built(quick(server.base_url(), "key"));
            for (operation, result) in calls(&client).await {
                let error = result.expect_err(operation);
                assert_eq!(error.status(), Some(status), "{operation}: {error:?}");
            }
            let requests = server.texts();
            let mut followed = requests.iter().filter(|request| request.contains("elsewhere"));
            assert!(followed.all(|request| request.starts_with("GET ")), "{status}: {requests:?}");
            for write in [
                "POST /api/v1/api-key/storage",
                "DELETE /api/v1/api-key/task",
                "DELETE /api/v1/api-key/storage",
            ] {
                let sent = requests.iter().filter(|request| request.starts_with(write)).count();
                assert_eq!(sent, 1, "{status}: {write}");
            }
        }
    }
    assert_eq!(destination.texts(), Vec::<String>::new());
}

#[tokio::test]
async fn the_error_of_a_base_url_that_moved_names_the_new_one() {
    for (from, to) in [("http://", "https://"), ("127.0.0.1", "www.host.example")] {
        let server = Server::start(move |request| {
            let host = request.header("host").unwrap_or_default();
            let location = format!("http://{host}{}?a=b", request.target).replacen(from, to, 1);
            Reaction::Answer(308, vec![("location", location)], Vec::new())
        });
        let error = built(quick(server.base_url(), "key")).balance().await.expect_err("it has moved");
        let url = server.base_url().replacen(from, to, 1);
        assert_eq!(error.to_string(), format!("getBalance failed with 308: the base URL redirects to {url}"));
        assert!(error.hint().contains("as the base URL"), "{}", error.hint());
    }
}

async fn calls(client: &Client) -> [(&'static str, Result<(), Error>); 5] {
    let run = client.model("m").run(inputs()).options(|options| options.skip_validation = true);
    [
        ("getBalance", client.balance().await.map(drop)),
        ("createTask", run.start().await.map(drop)),
        ("cancelTask", client.task("t").cancel().await),
        ("deleteFile", client.delete_file("https://files.example/a").await),
        ("createPresignedUpload", client.folder("samples").upload(File::bytes("a", "x")).await.map(drop)),
    ]
}
