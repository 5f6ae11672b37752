//! Workers: programs that stay running; and model kinds that the service delegates to nodes outside it.

use std::time::Duration;

use inferstore::{Client, File, Inputs};
use inferstore_service::{Config, Service};
use inferstore_wire::until;
use serde_json::{Value, json};

use super::bench::{Bench, Node};
use crate::client::Quickly;

/// Worker in a shell: responds with its process ID and the number of the run; the word `die` ends it.
const SHELL: &str = r#"
echo '{"ready": true}'
run=0
while read line; do
  run=$((run + 1))
  case "$line" in
    *'"say":"die"'*) echo "it was asked to" >&2; exit 7 ;;
    *'"say":"wrong"'*) echo '{"error": {"kind": "input", "message": "say something else"}}' ;;
    *'"say":"nonsense"'*) echo 'nonsense' ;;
    *'"say":"twice"'*) echo '{"output": {"process": "a", "run": 1}}'; echo '{"output": {"process": "b", "run": 2}}' ;;
    *) echo "{\"output\": {\"process\": \"$$\", \"run\": $run}}" ;;
  esac
done
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_runs_tasks_in_turn_and_is_started_again_after_its_end() {
    let bench = Bench::start().await;
    let input = json!({ "say": { "type": "string", "required": true, "position": 0 } });
    let output =
        json!({ "process": { "type": "string", "position": 0 }, "run": { "type": "int", "position": 1 } });
    for id in ["first", "second"] {
        bench.publish(id, input.clone(), output.clone()).await;
    }
    let mut settings: Value = serde_json::from_str(
        &bench.settings(&json!({ "first": { "worker": "sh" }, "second": { "worker": "sh" } })),
    )
    .expect("the settings are JSON");
    settings["workers"] = json!({ "sh": { "command": ["sh", "-c", SHELL] } });
    let node = Node::start(&settings.to_string(), &bench.key);

    let say = |word: &str| Inputs::new().set("say", word);
    let one = bench.run("first", say("hello")).await.expect("it runs");
    let two = bench.run("second", say("hello")).await.expect("it runs");
    assert_eq!(one["process"], two["process"], "one process for both");
    assert_eq!((&one["run"], &two["run"]), (&json!(1), &json!(2)));
    let wrong = bench.run("first", say("wrong")).await.expect_err("it is refused");
    assert!(wrong.contains("say something else"), "{wrong}");
    let died = bench.run("first", say("die")).await.expect_err("the worker ends");
    assert!(died.contains("exit status: 7") && died.contains("it was asked to"), "{died}");
    let three = bench.run("second", say("hello")).await.expect("it was started again");
    assert!(three["process"] != one["process"] && three["run"] == json!(1), "{three}");
    let nonsense = bench.run("first", say("nonsense")).await.expect_err("no JSON");
    assert!(nonsense.contains("cannot be read"), "{nonsense}");
    bench.run("first", say("hello")).await.expect("it was started again");
    let twice = bench.run("first", say("twice")).await.expect("the first line is its response");
    assert_eq!(twice["process"], "a");
    let next = bench.run("second", say("hello")).await.expect("it was started again");
    assert!(
        next["process"] != "b" && next["run"] == json!(1),
        "a line of another task is no response: {next}"
    );
    node.stop().await.expect("the node ends in order");
    assert_eq!(bench.earned().await, "3", "6 times 0.5");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_preferred_to_the_built_in_method_as_long_as_it_lives() {
    let mut config = Config::ephemeral();
    config.nodes = Some(([127, 0, 0, 1], 0).into());
    config.lease = Duration::from_millis(900);
    let service = Service::start(config).await.expect("the service starts");
    let client = Client::new(service.base_url(), service.api_key().expect("it is fresh"))
        .expect("the address is right");
    let key = service.add_node_key("better").await.expect("the name is free");
    // The built-in method cannot read it.
    let picture = || File::bytes("broken.png", b"\x89PNG\r\n\x1a\n".to_vec());
    let run = || async {
        let inputs = Inputs::new().file("input", picture());
        client
            .model("color-extraction")
            .run(inputs)
            .quickly()
            .await
            .map(|outcome| outcome.output["output"].clone())
    };
    run().await.expect_err("the built-in method answers");

    let command =
        json!({ "color-extraction": { "command": ["sh", "-c", "echo '{\"output\": \"#00ff00\"}'"] } });
    let settings = json!({ "service": service.nodes_url().expect("there is a listener"), "models": command });
    let node = Node::start(&settings.to_string(), &key);
    let model = client.model("color-extraction");
    // The first runs may come before the node is registered.
    until("the node answers", || async { run().await.is_ok() }).await;
    for _ in 0..20 {
        assert_eq!(run().await.expect("the node answers"), json!("#00ff00"));
    }
    // After a graceful shutdown of the node, the built-in method takes over at once; after a crash, when the
    // lease expires.
    node.stop().await.expect("the node ends in order");
    assert_eq!(model.serving().await.expect("the service answers").serving, Some(true));
    run().await.expect_err("the built-in method answers again");
    service.shutdown().await;
}
