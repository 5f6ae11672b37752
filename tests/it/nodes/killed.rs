//! Node processes killed during a run: the task succeeds on another node and is billed once.

use std::process::Command;
use std::time::Duration;

use inferstore::Inputs;
use inferstore_wire::until;
use serde_json::json;

use super::bench::{Bench, Process};
use crate::client::Quickly;
use crate::stress::Intensity;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_process_leaves_its_task_to_another() {
    let bench = Bench::start().await;
    let output = json!({ "output": { "type": "string", "position": 0 } });
    bench.publish("slow", json!({}), output).await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings = folder.path().join("node.json");
    let slow = json!({ "slow": { "command": ["sh", "-c", "sleep 0.7; echo '{\"output\": \"done\"}'"] } });
    std::fs::write(&settings, bench.settings(&slow)).expect("the folder is ours");
    let start =
        || Process::start(Command::new(env!("CARGO_BIN_EXE_node-under-test")).arg(&settings).arg(&bench.key));

    let intensity = Intensity::of_this_run();
    let (mut random, (rounds, earned)) = (intensity.random(), intensity.times((2, "1"), (5, "2.5")));
    let mut node = start();
    for round in 0..rounds {
        let task = bench.client.model("slow").run(Inputs::new()).start().await;
        let task = task.expect("the task is created");
        until("the task computes", || async { status(&task).await == "computing" }).await;
        tokio::time::sleep(Duration::from_millis(random.u64(0..500))).await;
        let next = start();
        node.kill();
        node = next;
        let ended = tokio::time::timeout(Duration::from_secs(30), task.wait().quickly()).await;
        let outcome = ended.expect("it ends").unwrap_or_else(|failure| panic!("round {round}: {failure}"));
        assert_eq!(outcome.output["output"], "done", "round {round}");
    }
    assert_eq!(bench.earned().await, earned, "{rounds} times 0.5");
}

async fn status(task: &inferstore::Task) -> String {
    let record = task.get().await.expect("the service answers");
    record.status.map(|status| status.as_str().to_owned()).unwrap_or_default()
}
