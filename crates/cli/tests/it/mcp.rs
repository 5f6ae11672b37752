//! `inferstore mcp` over standard input and output: a call that is repeated, canceled or cut off by a kill is one task.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use inferstore_service::Script;
use serde_json::{Value, json};

use crate::support::{Local, names_in, pictures};

/// A client of the server, which is a process of its own.
struct Agent {
    server: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

impl Agent {
    fn start(local: &Local, options: &str) -> Self {
        let folder = if options.contains("--folder") { "" } else { "--folder work " };
        let mut command = local.command(format!("mcp {folder}{options}").trim());
        let mut server = command.stdin(Stdio::piped()).spawn().expect("it starts");
        let stdin = server.stdin.take();
        let stdout = BufReader::new(server.stdout.take().expect("it is piped"));
        let mut agent = Self { server, stdin, stdout, next: 0 };
        let hello = agent.ask("initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}}));
        assert_eq!(hello["result"]["protocolVersion"], "2025-06-18", "{hello}");
        agent.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        agent
    }

    fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("it is open");
        writeln!(stdin, "{message}").expect("the server reads");
    }

    /// Sends a request, and returns its identifier.
    fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it can be read");
        (!line.is_empty()).then(|| serde_json::from_str(&line).expect("a line of JSON"))
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        loop {
            let message = self.receive().expect("there is a response");
            if message["id"] == id {
                return message;
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))["result"].take()
    }

    fn kill(mut self) {
        self.server.kill().expect("it runs");
        self.server.wait().expect("it ends");
    }

    /// Closes standard input, and returns what is answered until the end.
    fn end(mut self) -> Vec<Value> {
        drop(self.stdin.take());
        let answers = std::iter::from_fn(|| self.receive()).collect();
        assert!(self.server.wait().is_ok_and(|status| status.success()));
        answers
    }
}

fn local() -> Local {
    let local = Local::with_controls();
    std::fs::create_dir(local.cli.path("work")).expect("it can be made");
    std::fs::copy(local.cli.path("hazy.png"), local.cli.path("work/hazy.png")).expect("it can be copied");
    pictures(&local.cli.folder.path().join("work"), 6);
    local
}

fn tasks(local: &Local) -> usize {
    local.cli.call("task list --all -q").stdout.lines().count()
}

fn is_failed(result: &Value) -> bool {
    result["isError"] == true
}

#[test]
fn models_are_tools_with_schemas_from_their_declarations() {
    let local = local();
    let mut agent = Agent::start(&local, "");
    let listed = agent.ask("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().expect("a list").clone();
    let tool =
        |name: &str| tools.iter().find(|tool| tool["name"] == name).expect("the tool is listed").clone();
    let harmony = tool("color-harmonization")["inputSchema"].take();
    assert_eq!(harmony["required"], json!(["input_image", "template", "angle"]), "{harmony}");
    let angle = &harmony["properties"]["angle"];
    assert_eq!(
        (&angle["type"], &angle["minimum"], &angle["maximum"]),
        (&json!("integer"), &json!(1), &json!(90))
    );
    assert!(harmony["properties"]["template"]["enum"].as_array().is_some_and(|words| words.len() == 8));
    assert_eq!(tool("quote")["annotations"]["readOnlyHint"], true);
    assert_eq!(tool("haze-removal")["annotations"]["readOnlyHint"], false);
    for own in ["run", "task", "files"] {
        assert_eq!(tool(own)["inputSchema"]["type"], "object");
    }
    assert_eq!(agent.ask("ping", json!({}))["result"], json!({}));
    assert_eq!(agent.ask("resources/list", json!({}))["error"]["code"], -32601);
    assert_eq!(agent.ask("tools/call", json!({"name": "no-such-tool"}))["error"]["code"], -32602);
    agent.send(&json!([1, 2]));
    assert_eq!(agent.receive().expect("a response")["error"]["code"], -32600);
    agent.send(&json!({"jsonrpc": "2.0", "id": null, "method": "ping"}));
    assert_eq!(agent.receive().expect("a response")["error"]["code"], -32600);
    writeln!(agent.stdin.as_mut().expect("it is open"), "no json").expect("the server reads");
    assert_eq!(agent.receive().expect("a response")["error"]["code"], -32700);
    agent.send(
        &json!({"jsonrpc": "2.0", "id": 90, "method": "ping", "params": {"text": "x".repeat(5 << 20)}}),
    );
    let refused = agent.receive().expect("a response")["error"].take();
    assert!(refused["message"].to_string().contains("at most 4 MiB"), "{refused}");
    agent.send(&json!({"jsonrpc": "2.0", "id": 91, "method": 5}));
    let refused = agent.receive().expect("a response");
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(91), &json!(-32600)));
    agent.send(&json!({"jsonrpc": "2.0", "id": 1e30, "method": "ping"}));
    assert_eq!(agent.receive().expect("a response")["error"]["code"], -32600);
    agent.send(&json!({"jsonrpc": "2.0", "id": 92, "result": {}}));
    assert!(agent.end().is_empty());

    let mut agent = Agent::start(&local, "--model haze-removal");
    let tools = agent.ask("tools/list", json!({}))["result"]["tools"].as_array().map(Vec::len);
    assert_eq!(tools, Some(5), "one model beside the other tools");
}

#[test]
fn an_argument_that_a_tool_does_not_declare_or_of_another_type_is_refused() {
    let local = local();
    let mut agent = Agent::start(&local, "");
    let inputs = json!({"input_image": "hazy.png"});
    for (tool, arguments) in [
        ("quote", json!({"model": "haze-removal", "input_image": "hazy.png"})),
        ("run", json!({"model": "haze-removal", "inputs": inputs, "input_image": "hazy.png"})),
        ("task", json!({"task": "@last", "input_image": 1})),
        ("files", json!({"folder": "samples", "input_image": 1})),
        ("haze-removal", json!({"input_image": "hazy.png", "input_imag": "hazy.png"})),
    ] {
        let refused = agent.call(tool, arguments);
        let text = refused["content"][0]["text"].as_str().unwrap_or_default();
        assert!(is_failed(&refused) && text.contains("input_imag"), "{tool}: {refused}");
    }
    for (tool, arguments) in [
        ("quote", json!({"model": "haze-removal", "inputs": inputs.to_string()})),
        ("run", json!({"model": "haze-removal", "inputs": [inputs]})),
        ("files", json!({"folder": "samples", "limit": "5"})),
    ] {
        let refused = agent.call(tool, arguments);
        let text = refused["content"][0]["text"].as_str().unwrap_or_default();
        assert!(is_failed(&refused) && text.contains("is not of the type"), "{tool}: {refused}");
    }
    assert!(!is_failed(&agent.call("quote", json!({"model": "haze-removal", "inputs": inputs}))));
    assert_eq!(tasks(&local), 0);
}

#[test]
fn a_call_returns_a_picture_and_saves_it_in_the_folder_alone() {
    let local = local();
    let before = names_in(local.cli.folder.path());
    let mut agent = Agent::start(&local, "");
    let result = agent.call("haze-removal", json!({"input_image": "hazy.png"}));
    assert!(!is_failed(&result), "{result}");
    let data = &result["structuredContent"];
    assert_eq!((&data["status"], &data["cost"]), (&json!("success"), &json!("0.01")));
    assert_eq!(data["files"], json!(["hazy-haze-removal.png"]));
    let content = result["content"].as_array().expect("a list");
    assert!(content.iter().any(|part| part["type"] == "image" && part["mimeType"] == "image/png"));
    // The output is the input of the next call.
    let next = agent.call("color-extraction", json!({"input": "hazy-haze-removal.png"}));
    assert!(next["structuredContent"]["output"]["output"].is_string(), "{next}");
    let task = agent.call("task", json!({"task": data["task"]}));
    assert_eq!(task["structuredContent"]["status"], "success", "{task}");
    let files = agent.call("files", json!({"folder": "samples", "search": "hazy"}));
    assert_eq!(files["structuredContent"]["total"], 2, "{files}");
    agent.end();
    assert_eq!(names_in(local.cli.folder.path()), before);
    let names = names_in(&local.cli.folder.path().join("work"));
    assert!(names.iter().all(|name| !name.starts_with(".inferstore")), "{names:?}");
}

#[cfg(unix)]
#[test]
fn files_outside_of_the_folder_are_not_read() {
    let local = local();
    std::fs::write(local.cli.path("secret.png"), "secret").expect("it can be written");
    std::os::unix::fs::symlink(local.cli.path("secret.png"), local.cli.path("work/link.png"))
        .expect("a link");
    let mut agent = Agent::start(&local, "");
    let secret = local.cli.path("secret.png");
    for path in
        [&*secret, "../secret.png", "link.png", "inferstore-batch.jsonl", "/etc/hostname", "~/a", "", "."]
    {
        let result = agent.call("haze-removal", json!({"input_image": path}));
        assert!(is_failed(&result) && result.to_string().contains("is no file in"), "{path}: {result}");
    }
    assert_eq!((tasks(&local), &*local.cli.call("files stats -q").stdout), (0, "0\n"));
}

#[test]
fn a_repeated_tool_call_is_one_task_and_another_identifier_another_task() {
    let local = local();
    let arguments = json!({"input_image": "hazy.png"});
    let mut agent = Agent::start(&local, "");
    let first = agent.call("haze-removal", arguments.clone());
    let again = agent.call("haze-removal", arguments.clone());
    assert_eq!(first["structuredContent"]["task"], again["structuredContent"]["task"]);
    assert_eq!(again["structuredContent"]["is_repeated"], true);
    let run = agent.call("run", json!({"model": "haze-removal", "inputs": arguments}));
    assert_eq!(
        first["structuredContent"]["task"], run["structuredContent"]["task"],
        "the same run by another tool"
    );
    // At the same time.
    let both = [0, 1]
        .map(|_| agent.begin("tools/call", json!({"name": "super-resolution", "arguments": arguments})));
    let answers =
        both.map(|_| agent.receive().expect("a response")["result"]["structuredContent"]["task"].take());
    assert!(answers[0].is_string() && answers[0] == answers[1], "{answers:?}");
    agent.kill();
    assert_eq!(tasks(&local), 2);
    let mut agent = Agent::start(&local, "");
    let later = agent.call("haze-removal", arguments);
    assert_eq!(first["structuredContent"]["task"], later["structuredContent"]["task"], "by a later server");
    assert_eq!(tasks(&local), 2);
    for _ in 0..2 {
        let other = agent.call("haze-removal", json!({"input_image": "hazy.png", "call_id": "second"}));
        assert!(!is_failed(&other), "{other}");
    }
    assert_eq!(tasks(&local), 3);
}

#[test]
fn a_number_has_one_spelling_and_a_changed_file_replaces_its_output() {
    let local = local();
    let mut agent = Agent::start(&local, "");
    let folder = local.cli.folder.path().join("work");
    let mut run = |model: &str, inputs: Value| {
        let result = agent.call(model, inputs);
        assert!(!is_failed(&result), "{result}");
        result["structuredContent"].clone()
    };
    let angles = [json!(12), json!("12"), json!(12.0), json!(" 12")];
    let calls = angles.map(|angle| {
        run("color-harmonization", json!({"input_image": "hazy.png", "template": "v_shape", "angle": angle}))
    });
    assert!(calls.iter().all(|call| call["task"] == calls[0]["task"]), "{calls:?}");
    let first = run("haze-removal", json!({"input_image": "hazy.png"}));
    crate::support::picture(&folder.join("hazy.png"), "another");
    let second = run("haze-removal", json!({"input_image": "hazy.png"}));
    assert!(first["task"] != second["task"] && first["files"] == second["files"], "{second}");
    assert_eq!(tasks(&local), 3);
}

#[test]
fn a_call_that_is_killed_or_canceled_anywhere_is_one_task_or_none() {
    let local = local();
    local.script("haze-removal", Script::run().after(Duration::from_millis(300)));
    let mut runs = 0;
    for step in 0..12_u64 {
        let arguments = json!({"input_image": format!("p00{}.png", step % 6), "call_id": step.to_string()});
        let params = json!({"name": "haze-removal", "arguments": arguments});
        let mut agent = Agent::start(&local, "--budget 1");
        let id = agent.begin("tools/call", params.clone());
        std::thread::sleep(Duration::from_millis(step * 40));
        if step % 3 == 0 {
            agent.send(
                &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}),
            );
        }
        agent.kill();
        assert!(tasks(&local) <= runs + 1, "after {step}");
        let mut agent = Agent::start(&local, "--budget 1");
        let result = agent.call("haze-removal", arguments);
        assert!(!is_failed(&result), "{step}: {result}");
        runs += 1;
        assert_eq!(tasks(&local), runs, "after {step}");
        agent.end();
    }
}

#[test]
fn calls_whose_requests_are_cut_are_one_task() {
    let local = local();
    for (number, fault) in [
        json!({"effect": "status", "status": 502, "operation": "createTask", "times": 1}),
        json!({"effect": "status", "status": 502, "operation": "createTask", "times": 6}),
        json!({"effect": "status", "status": 500, "operation": "getTask", "times": 3}),
        json!({"effect": "status", "status": 503, "operation": "createPresignedUpload", "times": 6}),
        json!({"effect": "status", "status": 503, "operation": "getModelVersioning", "times": 6}),
        json!({"effect": "status", "status": 503, "operation": "getModelCost", "times": 6}),
    ]
    .into_iter()
    .enumerate()
    {
        local.fault(fault);
        let mut agent = Agent::start(&local, "--budget 1");
        let arguments = json!({"input_image": format!("p00{number}.png")});
        // A call that failed is repeated, as an agent does it.
        let result =
            (0..3).map(|_| agent.call("haze-removal", arguments.clone())).find(|result| !is_failed(result));
        assert!(result.is_some(), "{number}");
        assert_eq!(tasks(&local), number + 1);
        // The next server begins in the same folder, so this one has to be gone.
        agent.end();
    }
}

#[test]
fn the_budget_is_never_passed_and_holds_across_servers() {
    let local = local();
    let mut agent = Agent::start(&local, "--budget 0.035");
    let quote = agent.call("quote", json!({"model": "haze-removal", "inputs": {"input_image": "hazy.png"}}));
    assert_eq!(quote["structuredContent"]["budget_left"], "0.035", "{quote}");
    let wrong = agent.call("quote", json!({"model": "haze-removal", "inputs": {"input_imag": "hazy.png"}}));
    assert!(is_failed(&wrong), "{wrong}");
    for number in 0..6 {
        let arguments = json!({"input_image": format!("p00{number}.png")});
        agent.begin("tools/call", json!({"name": "haze-removal", "arguments": arguments}));
    }
    let refused = (0..6).filter(|_| is_failed(&agent.receive().expect("a response")["result"])).count();
    assert_eq!((refused, tasks(&local)), (3, 3), "three are within the budget");
    agent.kill();
    let mut agent = Agent::start(&local, "--budget 0.035");
    let refused = agent.call("haze-removal", json!({"input_image": "hazy.png"}));
    assert!(is_failed(&refused) && refused.to_string().contains("budget"), "{refused}");
    // A price that rises after the quote is within the budget, too.
    local.price("haze-removal", "0.02");
    std::fs::create_dir(local.cli.path("other")).expect("it can be made");
    std::fs::copy(local.cli.path("hazy.png"), local.cli.path("other/hazy.png")).expect("it can be copied");
    let mut agent = Agent::start(&local, "--folder other --budget 0.01");
    let refused = agent.call("haze-removal", json!({"input_image": "hazy.png"}));
    assert!(is_failed(&refused), "{refused}");
    assert_eq!(tasks(&local), 3);
}

#[test]
fn one_server_has_a_folder_and_finishes_calls_after_the_end_of_input() {
    let local = local();
    let mut agent = Agent::start(&local, "");
    let mut second = local.command("mcp --folder work").stdin(Stdio::piped()).spawn().expect("it starts");
    assert!(second.wait().is_ok_and(|status| !status.success()), "the folder is in use");
    agent.begin("tools/call", json!({"name": "haze-removal", "arguments": {"input_image": "hazy.png"}}));
    let answers = agent.end();
    assert!(answers.len() == 1 && !is_failed(&answers[0]["result"]), "{answers:?}");
}
