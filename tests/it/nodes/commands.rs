//! Models that are programs: their inputs and outputs, and the cleanup after a run.

use std::path::Path;
use std::time::Duration;

use inferstore::Inputs;
use inferstore_wire::until;
use serde_json::{Map, Value, json};

use super::bench::{Bench, LEASE};
use crate::client::Quickly;

fn shell(script: &str) -> Value {
    json!({ "command": ["sh", "-c", script], "seconds": 5 })
}

fn text_output() -> Value {
    json!({ "output": { "type": "file", "mime_type": ["text/plain"], "position": 0 } })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_turns_files_into_files_and_values_into_values() {
    let bench = Bench::start().await;
    let inputs = json!({
        "input": { "type": "file", "mime_type": ["text/*"], "required": true, "position": 0 },
        "times": { "type": "int", "required": true, "position": 1, "samples": ["2"] }
    });
    let outputs = json!({
        "output": { "type": "file", "mime_type": ["text/plain"], "position": 0 },
        "note": { "type": "string", "position": 1 }
    });
    bench.publish("shout", inputs, outputs).await;
    let node = bench.node(&json!({ "shout": shell(
        r#"
        task=$(cat)
        path=$(printf %s "$task" | sed 's/.*"input":"\([^"]*\)".*/\1/')
        times=$(printf %s "$task" | sed 's/.*"times":"\([^"]*\)".*/\1/')
        case "$path" in *.txt) ;; *) echo "the file has lost its kind: $path" >&2; exit 1 ;; esac
        tr a-z A-Z < "$path" > "$INFERSTORE_RUN_FOLDER/loud.txt"
        echo "{\"output\": \"loud.txt\", \"note\": \"$times times, key ${INFERSTORE_NODE_KEY-unknown}\"}"
        "#
    ) }));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("quiet.txt");
    std::fs::write(&file, "be quiet\n").expect("the folder is ours");
    let inputs = Inputs::new().file("input", file).set("times", 2);
    let output = bench.run("shout", inputs).await.expect("the command succeeds");
    assert_eq!(output["note"], "2 times, key unknown");
    assert_eq!(bench.download(&output["output"]).await, b"BE QUIET\n");
    node.stop().await.expect("the node ends in order");
    assert_eq!(bench.earned().await, "0.5");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fails_says_why_and_costs_nothing() {
    let bench = Bench::start().await;
    let slow = json!({ "command": ["sleep", "60"], "seconds": 0.5 });
    let hungry = json!({
        "command": ["sh", "-c", "test $(head -c 400000000 /dev/zero | tail -c 300000000 | wc -c) = 300000000 || exit 9"],
        "memory_mib": 64, "seconds": 20
    });
    let outside = r#"echo '{"output": "/etc/passwd"}'"#;
    let linked = r#"ln -s /etc/passwd "$INFERSTORE_RUN_FOLDER/x"; echo '{"output": "x"}'"#;
    let surplus = r#"echo x > "$INFERSTORE_RUN_FOLDER/x.txt"; echo '{"output": "x.txt", "more": 1}'"#;
    let table = [
        ("exit", shell("echo first >&2; echo no such voice >&2; exit 3"), "exit status: 3: no such voice"),
        ("killed", shell("kill -9 $$"), "signal: 9"),
        ("nonsense", shell("echo nonsense"), "JSON object of outputs"),
        ("outside", shell(outside), "does not lie in the folder of the run"),
        ("linked", shell(linked), "does not lie in the folder of the run"),
        ("nothing", shell(r#"echo '{"output": "x.txt"}'"#), "nothing at this path, /"),
        ("folder", shell(r#"echo '{"output": "."}'"#), "something else"),
        ("surplus", shell(surplus), "\"more\" is no output"),
        ("missing", shell("echo '{}'"), "output is missing"),
        ("flood", shell("yes"), "wrote more than"),
        ("slow", slow, "took longer than 0.5 seconds"),
        ("hungry", hungry, "exit status: 9"),
    ];
    let mut models = Map::new();
    for (id, model, _) in &table {
        bench.publish(id, json!({}), text_output()).await;
        models.insert((*id).to_owned(), model.clone());
    }
    let node = bench.node(&Value::Object(models));
    let runs = table.iter().map(|(id, _, expected)| {
        let bench = &bench;
        async move { (*id, *expected, bench.run(id, Inputs::new()).await) }
    });
    for (id, expected, ended) in futures_util::future::join_all(runs).await {
        let message = ended.expect_err(id);
        assert!(message.contains(expected), "{id}: {message}");
    }
    node.stop().await.expect("the node ends in order");
    assert_eq!(bench.earned().await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_may_take_the_time_that_its_node_states() {
    let bench = Bench::start_with(|config| config.limits.run = LEASE / 9).await;
    bench.publish("thorough", json!({}), json!({ "output": { "type": "string", "position": 0 } })).await;
    let notes = tempfile::tempdir().expect("a temporary folder");
    let runs = notes.path().join("runs");
    let script = format!("echo >> '{}'; sleep 1.5; echo '{{\"output\": \"done\"}}'", runs.display());
    let node = bench.node(&json!({ "thorough": shell(&script) }));
    let output = bench.run("thorough", Inputs::new()).await.expect("the run has its time");
    assert_eq!(output["output"], "done");
    assert_eq!(std::fs::read_to_string(&runs).expect("it ran"), "\n", "it ran once");
    node.stop().await.expect("the node ends in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_machine_cannot_run_a_task_leaves_it_to_another() {
    // The second node may claim the task late.
    let bench = Bench::start_with(|config| config.lease_attempts = 1_000).await;
    bench.publish("steady", json!({}), json!({ "output": { "type": "string", "position": 0 } })).await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("program");
    std::fs::write(&program, "#!/no-such-interpreter\n").expect("the folder is ours");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&program, executable).expect("the file is ours");
    let broken = bench.node(&json!({ "steady": { "command": ["./program"], "folder": folder.path() } }));
    let task = bench.client.model("steady").run(Inputs::new()).start().await.expect("it is created");
    let computing = Some(inferstore::types::TaskStatus::Computing);
    until("the task computes", || async {
        task.get().await.expect("the service responds").status == computing
    })
    .await;
    let well = bench.node(&json!({ "steady": shell("echo '{\"output\": \"done\"}'") }));
    let outcome = task.wait().quickly().await.expect("it succeeds on the other one");
    assert_eq!(outcome.output["output"], "done");
    for node in [broken, well] {
        node.stop().await.expect("the node ends in order");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_program_is_gone_leases_no_task() {
    let bench = Bench::start().await;
    bench.publish("steady", json!({}), json!({ "output": { "type": "string", "position": 0 } })).await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let models = json!({ "steady": { "command": ["./program"], "folder": folder.path() } });
    let node = bench.node(&models);
    let run = tokio::spawn({
        let run = bench.client.model("steady").run(Inputs::new());
        async move { run.quickly().await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let program = folder.path().join("program");
    std::fs::write(&program, "#!/bin/sh\necho '{\"output\": \"done\"}'\n").expect("the folder is ours");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&program, executable).expect("the file is ours");
    let outcome = run.await.expect("it does not panic").expect("the first attempt succeeds");
    assert_eq!(outcome.output["output"], "done");
    node.stop().await.expect("the node ends in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_run_is_left_when_it_is_over() {
    let bench = Bench::start().await;
    let notes = tempfile::tempdir().expect("a temporary folder");
    let note = |name: &str| notes.path().join(name);
    let script = |name: &str, end: &str| {
        let note = note(name).display().to_string();
        shell(&format!(
            "sleep 300 >/dev/null 2>&1 & echo \"$! $INFERSTORE_RUN_FOLDER\" > {note}.new; mv {note}.new {note}; {end}"
        ))
    };
    let mut slow = script("slow", "sleep 300");
    slow["seconds"] = json!(0.5);
    let mut revoked = script("revoked", "sleep 300");
    revoked["seconds"] = json!(60);
    for id in ["slow", "quick", "revoked"] {
        bench.publish(id, json!({}), text_output()).await;
    }
    let node = bench.node(&json!({ "slow": slow, "quick": script("quick", "exit 1"), "revoked": revoked }));
    for id in ["slow", "quick"] {
        bench.run(id, Inputs::new()).await.expect_err(id);
        is_gone(&note(id)).await;
    }
    // A node stops a run when its lease is revoked.
    let task = bench.client.model("revoked").run(Inputs::new()).start().await;
    task.expect("the task is created");
    until("the run begins", || async { note("revoked").exists() }).await;
    assert!(bench.service.revoke_node_key("bench").await.expect("the database works"));
    is_gone(&note("revoked")).await;
    let ended = node.ended().await.expect_err("a node without a key cannot go on").to_string();
    assert!(ended.contains("key"), "{ended}");
}

async fn is_gone(note: &Path) {
    let text = std::fs::read_to_string(note).expect("the run has noted it");
    let (process, folder) = text.trim().split_once(' ').expect("a process and a folder");
    let status = format!("/proc/{process}/status");
    // A killed orphan may be a zombie until it is reaped.
    until("the process and the folder are gone", || async {
        std::fs::read_to_string(&status).map_or(true, |about| about.contains("State:\tZ"))
            && !Path::new(folder).exists()
    })
    .await;
}
