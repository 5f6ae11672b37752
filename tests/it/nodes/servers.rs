//! Model servers with responses that the service rejects.

use inferstore::Inputs;
use inferstore_wire::{Reaction, Server};
use serde_json::json;

use super::bench::Bench;

#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_type_is_none_fails_its_task() {
    let bench = Bench::start().await;
    let output = json!({ "output": { "type": "file", "mime_type": ["image/png"], "position": 0 } });
    bench.publish("picture", json!({}), output).await;
    for mime in ["image/p\u{1}ng", "image/p\u{7f}", "picture"] {
        let server = Server::start(move |request| {
            let file = format!("data:{mime};base64,aGk=");
            let body = match request.line().as_str() {
                "POST /predictions" => json!({ "status": "succeeded", "output": file }),
                _ => json!({ "status": "READY" }),
            };
            Reaction::Json(200, body.to_string())
        });
        let node = bench.node(&json!({ "picture": { "cog": server.origin() } }));
        let message = bench.run("picture", Inputs::new()).await.expect_err("it has no type");
        assert!(message.contains("MIME type"), "{mime:?}: {message}");
        node.stop().await.expect("the node ends in order");
    }
    assert_eq!(bench.earned().await, "0");
}
