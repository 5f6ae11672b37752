//! Logs of tasks: the standard error of a model on a node, read while the model runs and after it has ended.

use inferstore::types::TaskStatus;
use inferstore::{Client, Error, Inputs, Task};
use inferstore_service::{AdminClient, Scope};
use inferstore_wire::until;
use serde_json::{Value, json};

use super::bench::{Bench, Node};
use crate::client::Quickly;

async fn text_of(task: &Task) -> String {
    task.logs().await.expect("the service answers").text.expect("there is a text")
}

async fn logged(task: &Task, expected: &str) {
    until("the node sends its log", || async { text_of(task).await == expected }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_command_is_read_while_it_runs_and_afterwards() {
    let bench = Bench::start().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = json!({ "output": { "type": "file", "mime_type": ["text/plain"], "position": 0 } });
    bench.publish("tiles", json!({}), output).await;
    let script = r#"
        echo "loading the weights" >&2
        until [ -e go ]; do sleep 0.02; done
        printf 'tile 3 of 12\a' >&2
        echo x > "$INFERSTORE_RUN_FOLDER/x.txt"; echo '{"output": "x.txt"}'
    "#;
    let settings =
        json!({ "tiles": { "command": ["sh", "-c", script], "folder": folder.path(), "seconds": 60 } });
    let node = bench.node(&settings);
    let task = bench.client.model("tiles").run(Inputs::new()).start().await.expect("a task is created");
    logged(&task, "loading the weights\n").await;
    let status = task.get().await.expect("the service answers").status;
    assert_eq!(status, Some(TaskStatus::Computing));
    std::fs::write(folder.path().join("go"), "").expect("the folder is ours");
    let outcome = task.wait().quickly().await.expect("the command succeeds");
    assert_eq!(text_of(&task).await, "loading the weights\ntile 3 of 12\u{7}", "as it was written");
    assert_eq!(bench.download(&outcome.output["output"]).await, b"x\n");

    bench.service.add_account("eve", Scope::Personal).await.expect("the name is free");
    let key = bench.service.add_key("eve").await.expect("the account is there");
    let other = Client::new(bench.service.base_url(), key).expect("the address is right");
    let refused = other.task(task.id().clone()).logs().await.expect_err("it is not theirs");
    assert!(matches!(&refused, Error::Api(_)) && refused.status() == Some(404), "{refused:?}");
    node.stop().await.expect("the node ends in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_task_has_no_line_of_another_task_of_the_same_worker() {
    let bench = Bench::start().await;
    let input = json!({ "say": { "type": "string", "required": true, "position": 0 } });
    bench.publish("echo", input, json!({ "said": { "type": "string", "position": 0 } })).await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = r#"
        echo '{"ready": true}'
        while read line; do
          word=$(printf %s "$line" | sed 's/.*"say":"\([^"]*\)".*/\1/')
          echo "heard $word" >&2
          until [ -e "$word" ]; do sleep 0.02; done
          echo "{\"output\": {\"said\": \"$word\"}}"
        done
    "#;
    let settings = bench.settings(&json!({ "echo": { "worker": "sh" } }));
    let mut settings: Value = serde_json::from_str(&settings).expect("the settings are JSON");
    settings["workers"] = json!({ "sh": { "command": ["sh", "-c", script], "folder": folder.path() } });
    let node = Node::start(&settings.to_string(), &bench.key);
    for word in ["one", "two"] {
        let run = bench.client.model("echo").run(Inputs::new().set("say", word));
        let task = run.start().await.expect("a task is created");
        logged(&task, &format!("heard {word}\n")).await;
        std::fs::write(folder.path().join(word), "").expect("the folder is ours");
        task.wait().quickly().await.expect("the worker responds");
        assert_eq!(text_of(&task).await, format!("heard {word}\n"));
    }
    node.stop().await.expect("the node ends in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_task_that_the_operator_failed_tells_what_it_did() {
    let bench = Bench::start().await;
    let output = json!({ "output": { "type": "string", "position": 0 } });
    bench.publish("stuck", json!({}), output).await;
    let command = ["sh", "-c", "echo 'no memory is left' >&2; sleep 60"];
    let node = bench.node(&json!({ "stuck": { "command": command, "seconds": 60 } }));
    let task = bench.client.model("stuck").run(Inputs::new()).start().await.expect("a task is created");
    logged(&task, "no memory is left\n").await;
    let mut admin = AdminClient::open(bench.service.data_folder()).await.expect("the service runs");
    let body = json!({ "message": "it was stuck" }).to_string();
    admin.call("POST", &["tasks", task.id().as_str(), "fail"], Some(body)).await.expect("it computes");
    assert_eq!(text_of(&task).await, "no memory is left\n");
    node.stop().await.expect("the node ends in order");
}
