//! Node protocol: authentication, refused requests and their messages.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use inferstore_service::{Config, Service};
use serde_json::{Value, json};

use super::support::{Bench, LEASE, TestResult};

#[tokio::test]
async fn nodes_show_a_key_that_can_be_revoked() -> TestResult {
    let bench = Bench::start().await?;
    bench.publish("echo").await?;
    let register = format!("{}/register", bench.nodes_url()?);
    let models = json!({ "models": ["echo"] });
    let api_key = bench.service.api_key().unwrap_or_default().to_owned();
    for wrong in ["", "isn_wrong_key", &api_key] {
        let (status, response) = bench.call_nodes(&register, wrong, &models).await?;
        assert_eq!((status, &response["status"]), (401, &json!("fail")), "{wrong}");
    }

    // A second key to revoke. The leases of its node are claimable at once.
    let other_key = bench.service.add_node_key("other").await?;
    assert!(bench.service.add_node_key("other").await.is_err(), "the name has a valid key");
    let (_, response) = bench.call_nodes(&register, &other_key, &models).await?;
    let other = response["data"]["node"].as_str().unwrap_or_default();
    let other = format!("{}/{other}", bench.nodes_url()?);
    let task = bench.create("echo", json!({ "say": "hello" })).await?;
    let (status, _) = bench.call_nodes(&format!("{other}/lease"), &other_key, &json!({})).await?;
    assert_eq!(status, 200);
    let stranger = bench.call_nodes(&format!("{other}/lease"), &bench.node_key, &json!({})).await?;
    assert_eq!(stranger.0, 404, "a node belongs to the key that it registered with");

    assert!(bench.service.revoke_node_key("other").await?);
    assert!(!bench.service.revoke_node_key("other").await?);
    let finish = format!("{other}/tasks/{task}/1/finish");
    let late = bench.call_nodes(&finish, &other_key, &json!({ "error": { "message": "?" } })).await?;
    assert_eq!(late.0, 401);
    let node = bench.register(&["echo"]).await?;
    let lease = node.lease(0.0).await?.ok_or("the task is not free")?;
    assert_eq!((lease.task.as_str(), &lease.data["attempt"]), (task.as_str(), &json!(2)));
    assert_ne!(bench.service.add_node_key("other").await?, other_key, "a revoked name gets a new key");
    Ok(())
}

#[tokio::test]
async fn a_node_announces_no_model_whose_name_has_a_nul() -> TestResult {
    let bench = Bench::start().await?;
    let register = format!("{}/register", bench.nodes_url()?);
    let models = json!({ "models": ["echo", "ec\0ho"] });
    let (status, response) = bench.call_nodes(&register, &bench.node_key, &models).await?;
    assert_eq!(status, 422, "{response}");
    assert!(response["message"].as_str().is_some_and(|message| message.contains("NUL")), "{response}");
    Ok(())
}

#[tokio::test]
async fn a_key_for_some_models_registers_no_others() -> TestResult {
    let bench = Bench::start().await?;
    let register = format!("{}/register", bench.nodes_url()?);
    let models = ["echo".to_owned(), "later".to_owned()];
    let key = bench.service.add_node_key_for("narrow", &models).await?;
    for (asked, expected) in [
        (json!(["echo"]), 200),
        (json!(["later", "echo"]), 200),
        (json!(["echo", "color-extraction"]), 422),
        (json!(["Echo"]), 422),
        (json!([""]), 422),
    ] {
        let (status, response) = bench.call_nodes(&register, &key, &json!({ "models": asked })).await?;
        assert_eq!(status, expected, "{asked}: {response}");
        let message = response["message"].as_str().unwrap_or_default();
        assert!(status == 200 || message.contains("only echo, later"), "{message}");
    }
    assert!(bench.service.add_node_key_for("nothing", &[]).await.is_err());
    bench.service.revoke_node_key("narrow").await?;
    let wide = bench.service.add_node_key("narrow").await?;
    let (status, _) = bench.call_nodes(&register, &wide, &json!({ "models": ["color-extraction"] })).await?;
    assert_eq!(status, 200);
    Ok(())
}

#[tokio::test]
async fn a_node_that_only_says_that_it_is_alive_does_not_keep_its_task() -> TestResult {
    let mut config = Config::ephemeral().with_controls();
    config.nodes = Some(([127, 0, 0, 1], 0).into());
    config.workers = 0;
    config.lease_attempts = 2;
    let (run, lease) = (config.limits.run, config.lease);
    let bench = Bench::around(Service::start(config).await?).await?;
    let controls = bench.service.controls()?;
    bench.publish("echo").await?;
    let task = bench.create("echo", json!({ "say": "hello" })).await?;
    let (stuck, other) = (bench.register(&["echo"]).await?, bench.register(&["echo"]).await?);
    let mut last = None;
    for (attempt, node) in [(1, &stuck), (2, &other)] {
        let held = node.lease(1.0).await?.ok_or("the task is not free")?;
        assert_eq!(held.data["attempt"], attempt);
        // Up to the maximum age of a lease, and longer than any lease without heartbeats.
        for _ in 0..(run * 2).as_secs() / (lease / 2).as_secs() {
            assert_eq!(node.of_lease(&held, "/heartbeat", &json!({})).await?.0, 200);
            controls.advance_clock(lease / 2).await?;
        }
        controls.advance_clock(Duration::from_secs(1)).await?;
        assert_eq!(node.of_lease(&held, "/heartbeat", &json!({})).await?.0, 409);
        controls.advance_clock(lease).await?;
        last = Some(held);
    }
    assert!(other.lease(0.0).await?.is_none());
    assert_eq!(bench.task(&task).await?["status"], "failed");
    let late = json!({ "error": { "message": "no such voice" } });
    let last = last.ok_or("it was leased")?;
    assert_eq!(other.of_lease(&last, "/finish", &late).await?.0, 409, "its result was not taken");
    assert_eq!(bench.service.audit().await?.faults, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn a_node_keeps_its_task_for_its_stated_run_time_and_no_longer() -> TestResult {
    const HOUR: f64 = 3_600.0;
    let mut config = Config::ephemeral().with_controls();
    config.nodes = Some(([127, 0, 0, 1], 0).into());
    config.workers = 0;
    // Longer than the default, so that a day has few heartbeats.
    config.lease = Duration::from_hours(1);
    let run_seconds = config.limits.run.as_secs_f64();
    let bench = Bench::around(Service::start(config).await?).await?;
    let controls = bench.service.controls()?;
    bench.publish("echo").await?;
    for (stated, kept) in [(10.0 * HOUR, 20.0 * HOUR), (0.5, 2.0 * run_seconds), (1e9, 48.0 * HOUR)] {
        bench.create("echo", json!({ "say": "hello" })).await?;
        let node = bench.register(&["echo"]).await?;
        let held = node.lease(1.0).await?.ok_or("there is a task")?;
        let heartbeat = format!("/heartbeat?run_seconds={stated}");
        let mut held_for = 0.0;
        while held_for < kept {
            assert_eq!(node.of_lease(&held, &heartbeat, &json!({})).await?.0, 200, "{stated}: {held_for} s");
            let step = (kept - held_for).min(0.5 * HOUR);
            controls.advance_clock(Duration::from_secs_f64(step)).await?;
            held_for += step;
        }
        controls.advance_clock(Duration::from_secs(1)).await?;
        assert_eq!(node.of_lease(&held, &heartbeat, &json!({})).await?.0, 409, "{stated}");
        assert_eq!(node.finish(&held, "hello").await?, 200, "{stated}");
    }
    Ok(())
}

#[tokio::test]
async fn a_node_gets_files_of_a_moved_service_under_the_new_address() -> TestResult {
    let folder = tempfile::tempdir()?;
    let start = |storage_url: &str| {
        let mut config = Config::folder(folder.path());
        config.nodes = Some(([127, 0, 0, 1], 0).into());
        config.workers = 0;
        config.storage_url = Some(storage_url.to_owned());
        async move { Ok(Service::start(config).await?) }
    };
    let bench = Bench::around(start("http://old.example").await?).await?;
    let url = bench.presign("a.png", "image/png", 1).await?.download_url;
    bench.create("color-extraction", json!({ "input": url })).await?;
    let bench = bench.restart(start("https://new.example")).await?;
    let node = bench.register(&["color-extraction"]).await?;
    let lease = node.lease(1.0).await?.ok_or("there is a task")?;
    assert_eq!(lease.data["input"]["input"], url.replace("http://old.example", "https://new.example"));
    bench.service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_task_is_leased_as_soon_as_it_is_there() -> TestResult {
    let bench = Bench::start().await?;
    bench.publish("echo").await?;
    let node = bench.register(&["echo", "another"]).await?;
    assert_eq!(bench.get("/api-key/model/echo/serving").await?["serving"], true);

    let begun = Instant::now();
    assert!(node.lease(0.3).await?.is_none());
    assert!(begun.elapsed() >= Duration::from_millis(300), "it waited for {:?}", begun.elapsed());

    // A waiting node counts as alive for longer than a lease duration.
    let creating = async {
        tokio::time::sleep(LEASE * 3).await;
        let serving = bench.get("/api-key/model/echo/serving").await?["serving"].clone();
        let task = bench.create("echo", json!({ "say": "hello" })).await?;
        TestResult::Ok((serving, task, Instant::now()))
    };
    let (leased, created) = tokio::join!(node.lease(10.0), creating);
    let (serving, task, then) = created?;
    let leased = leased?.ok_or("there was no task")?;
    assert!(then.elapsed() < Duration::from_secs(2), "the request went on waiting: {:?}", then.elapsed());
    assert_eq!((serving, leased.task), (json!(true), task));
    assert_eq!(leased.data["input"], json!({ "say": "hello" }));
    assert_eq!(leased.data["input_format"]["say"]["type"], "string");
    assert_eq!(leased.data["output_format"]["picture"]["type"], "file");

    bench.create("echo", json!({ "say": "hello" })).await?;
    let (_, response) = node.call("/lease", &json!({ "wait_seconds": 0, "models": ["another"] })).await?;
    assert_eq!(response["data"], Value::Null);
    assert_eq!(node.call("/goodbye", &json!({})).await?.0, 200);
    assert_eq!(node.call("/lease", &json!({})).await?.0, 404);
    assert_eq!(bench.get("/api-key/model/echo/serving").await?["serving"], false);
    let next = bench.register(&["echo"]).await?;
    let again = next.lease(0.0).await?.ok_or("what it ran is not free")?;
    assert_eq!(again.data["attempt"], 2);
    Ok(())
}

#[tokio::test]
async fn nodes_that_leave_in_order_cost_a_task_no_attempt() -> TestResult {
    let mut config = Config::ephemeral();
    config.nodes = Some(([127, 0, 0, 1], 0).into());
    config.workers = 0;
    config.lease_attempts = 2;
    let bench = Bench::around(Service::start(config).await?).await?;
    bench.publish("echo").await?;
    let task = bench.create("echo", json!({ "say": "hello" })).await?;
    for _ in 0..5 {
        let node = bench.register(&["echo"]).await?;
        node.lease(1.0).await?.ok_or("the task is not free")?;
        assert_eq!(node.call("/goodbye", &json!({})).await?.0, 200);
        assert_eq!(bench.task(&task).await?["status"], "computing");
    }
    let node = bench.register(&["echo"]).await?;
    let lease = node.lease(1.0).await?.ok_or("the task is not free")?;
    assert_eq!(node.finish(&lease, "hello").await?, 200);
    assert_eq!(bench.task(&task).await?["status"], "success");
    Ok(())
}

#[tokio::test]
async fn a_task_whose_last_node_died_fails_and_costs_nothing() -> TestResult {
    let mut config = Config::ephemeral().with_controls();
    config.nodes = Some(([127, 0, 0, 1], 0).into());
    config.workers = 0;
    let (lease, grace) = (config.lease, config.lease_grace);
    let bench = Bench::around(Service::start(config).await?).await?;
    let controls = bench.service.controls()?;
    bench.publish("echo").await?;
    let before = bench.get("/api-key/balance").await?;
    let task = bench.create("echo", json!({ "say": "hello" })).await?;
    let node = bench.register(&["echo"]).await?;
    let held = node.lease(1.0).await?.ok_or("there was no task")?;
    controls.advance_clock(lease + grace / 2).await?;
    assert_eq!(bench.task(&task).await?["status"], "computing", "another node may still come");
    controls.advance_clock(grace).await?;
    let ended = bench.task(&task).await?;
    let message = ended["message"].as_str().unwrap_or_default();
    assert!(ended["status"] == "failed" && message.contains("no other node took"), "{ended}");
    let late = json!({ "error": { "message": "no such voice" } });
    assert_eq!(node.of_lease(&held, "/finish", &late).await?.0, 409, "its result was not taken");
    assert_eq!(bench.get("/api-key/balance").await?, before);
    assert_eq!(bench.service.audit().await?.faults, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn what_comes_out_is_what_the_model_declares() -> TestResult {
    let bench = Bench::start().await?;
    bench.publish("echo").await?;
    let task = bench.create("echo", json!({ "say": "hello" })).await?;
    let node = bench.register(&["echo"]).await?;
    let lease = node.lease(1.0).await?.ok_or("there was no task")?;

    for (file, mime, complaint) in [
        ("said.txt", "text/plain", "a file is called by an output"),
        ("nothing.png", "image/png", "a file is called by an output"),
        ("picture.jpg", "image/jpeg", "declared as image/png"),
        ("picture.p%20g", "image/png", "letters and digits"),
        ("picture%2f..%2f..", "image/png", "a file is called by an output"),
        ("picture.png", "nonsense", "MIME type"),
    ] {
        let (status, response) = node.put(&lease, file, mime, b"x").await?;
        let message = response["message"].as_str().unwrap_or_default();
        assert!((400..500).contains(&status) && message.contains(complaint), "{file}: {status} {response}");
    }
    let (_, response) = node.put(&lease, "picture.png", "image/png", b"a picture").await?;
    let url = response["data"]["url"].clone();
    assert_eq!(node.put(&lease, "picture.png", "image/png", b"a better one").await?.0, 200);
    let (_, response) = node.put(&lease, "picture.large.png", "image/png", b"a large one").await?;
    let unnamed = response["data"]["url"].as_str().unwrap_or_default().to_owned();
    assert_eq!(bench.read(&unnamed).await?.0, 200);
    for (output, complaint) in [
        (json!({ "said": "hello" }), "picture is missing"),
        (json!({ "said": "hello", "picture": url, "more": 1 }), "\"more\" is no output"),
        (json!({ "said": 5, "picture": url }), "said must be a string"),
        (json!({ "said": "hello", "picture": "https://example.com/a.png" }), "was put for this lease"),
        (json!({ "said": "hello", "picture": format!("{}x", url.as_str().unwrap_or_default()) }), "was put"),
    ] {
        let (status, response) = node.of_lease(&lease, "/finish", &json!({ "output": output })).await?;
        let message = response["message"].as_str().unwrap_or_default();
        assert!(status == 422 && message.contains(complaint), "{output}: {status} {response}");
    }
    let neither = node.of_lease(&lease, "/finish", &json!({})).await?;
    assert_eq!(neither.0, 422);
    assert_eq!(bench.task(&task).await?["status"], "computing");

    let output = json!({ "output": { "picture": url, "said": "hello" } });
    assert_eq!(node.of_lease(&lease, "/finish", &output).await?.0, 200);
    let again = node.of_lease(&lease, "/finish", &output).await?;
    assert_eq!((again.0, &again.1["message"]), (200, &json!("finished already")));
    assert_eq!(node.of_lease(&lease, "/heartbeat", &json!({})).await?.0, 409);
    let ended = bench.task(&task).await?;
    assert_eq!(ended["result"]["result"], json!({ "said": "hello", "picture": url }));
    let named = url.as_str().unwrap_or_default();
    assert_eq!(bench.read(named).await?, (200, "a better one".to_owned()));
    assert_eq!(bench.read(&unnamed).await?.0, 404, "the result does not name it");
    Ok(())
}

#[tokio::test]
async fn a_failed_run_fails_the_task_and_costs_nothing() -> TestResult {
    let bench = Bench::start().await?;
    bench.publish("echo").await?;
    let before = bench.get("/api-key/balance").await?;
    let task = bench.create("echo", json!({ "say": "hello" })).await?;
    let node = bench.register(&["echo"]).await?;
    let lease = node.lease(1.0).await?.ok_or("there was no task")?;
    let error = json!({ "error": { "message": "no such voice", "kind": "input", "detail": { "line": 3 } } });
    assert_eq!(node.of_lease(&lease, "/finish", &error).await?.0, 200);
    let ended = bench.task(&task).await?;
    assert_eq!((&ended["status"], &ended["message"]), (&json!("failed"), &json!("no such voice")));
    let detail = json!({ "kind": "input", "message": "no such voice", "detail": { "line": 3 } });
    assert_eq!(ended["result"]["error"], detail);
    assert_eq!(bench.get("/api-key/balance").await?, before);
    Ok(())
}

#[tokio::test]
async fn whatever_detail_a_failure_has_the_task_ends_and_stays_readable() -> TestResult {
    let bench = Bench::start().await?;
    bench.publish("echo").await?;
    let node = bench.register(&["echo"]).await?;
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    for (detail, is_kept) in [
        (nested(64), true),
        (nested(65), false),
        (nested(124), false),
        (nested(100_000), false),
        (r#"{"factor": 1e999}"#.to_owned(), false),
        (r#""\ud800""#.to_owned(), false),
    ] {
        let task = bench.create("echo", json!({ "say": "hello" })).await?;
        let lease = node.lease(1.0).await?.ok_or("there is a task")?;
        let body = format!(r#"{{"error": {{"message": "no such voice", "detail": {detail}}}}}"#);
        let request = bench.http.post(format!("{}/finish", lease.url)).header("x-node-key", &bench.node_key);
        let request = request.header("content-type", "application/json").body(body);
        let shown: String = detail.chars().take(80).collect();
        assert_eq!(request.send().await?.status(), 200, "{shown}");
        let ended = bench.task(&task).await?;
        assert_eq!((&ended["status"], &ended["message"]), (&json!("failed"), &json!("no such voice")));
        let said = &ended["result"]["error"]["detail"];
        let replaced = said.as_str().is_some_and(|text| text.contains("left out"));
        assert_eq!(replaced, !is_kept, "{shown}: {said}");
    }
    Ok(())
}

#[tokio::test]
async fn a_node_sends_a_few_files_of_a_lease_at_once() -> TestResult {
    let bench = Bench::start().await?;
    bench.publish("echo").await?;
    let node = bench.register(&["echo"]).await?;
    bench.create("echo", json!({ "say": "hello" })).await?;
    let lease = node.lease(1.0).await?.ok_or("there is a task")?;
    let arriving = (0..9).map(|_| {
        let request = bench.http.put(format!("{}/files/picture.png", lease.url));
        let request = request.header("x-node-key", &bench.node_key).header("content-type", "image/png");
        let never = futures_util::stream::pending::<TestResult<Vec<u8>>>();
        request.body(reqwest::Body::wrap_stream(never)).send().boxed()
    });
    let (response, ..) = futures_util::future::select_all(arriving).await;
    let response = response?;
    assert_eq!(response.status(), 429);
    let response = response.text().await?;
    let message = "too many files of this lease are arriving; send them one after another";
    assert!(response.contains(message), "{response}");
    Ok(())
}

#[tokio::test]
async fn the_log_of_a_running_task_is_replaced_and_that_of_another_is_not() -> TestResult {
    let bench = Bench::start().await?;
    bench.publish("echo").await?;
    let node = bench.register(&["echo"]).await?;
    let task = bench.create("echo", json!({ "say": "hello" })).await?;
    let path = format!("/api-key/task/{task}/logs");
    assert_eq!(bench.get(&path).await?, json!({ "text": "", "offset": 0, "attempt": 0 }));
    let lease = node.lease(1.0).await?.ok_or("there is a task")?;
    let put = async |log: Value| {
        let request = bench.http.put(format!("{}/log", lease.url)).header("x-node-key", &bench.node_key);
        let request = request.header("content-type", "application/json").body(log.to_string());
        TestResult::Ok(request.send().await?.status().as_u16())
    };
    assert_eq!(put(json!({ "text": "tile 3" })).await?, 200);
    assert_eq!(put(json!({ "text": "tile 4", "offset": 7 })).await?, 200);
    for wrong in [
        json!({}),
        json!({ "text": 4 }),
        json!({ "text": "", "offset": -1 }),
        json!({ "text": "", "offset": 1_u64 << 63 }),
    ] {
        assert_eq!(put(wrong.clone()).await?, 422, "{wrong}");
    }
    assert_eq!(put(json!({ "text": "x".repeat(65_537) })).await?, 422);
    assert_eq!(bench.get(&path).await?, json!({ "text": "tile 4", "offset": 7, "attempt": 1 }));
    assert_eq!(node.finish(&lease, "hello").await?, 200);
    assert_eq!(put(json!({ "text": "late" })).await?, 409);
    assert_eq!(bench.get(&path).await?, json!({ "text": "tile 4", "offset": 7, "attempt": 1 }));
    Ok(())
}

#[tokio::test]
async fn everything_else_is_refused_in_the_shape_of_the_api() -> TestResult {
    let bench = Bench::start().await?;
    let node = bench.register(&["echo"]).await?;
    for (path, body, expected) in [
        ("/lease", json!({ "wait_seconds": -1 }), 422),
        ("/lease", json!({ "wait_seconds": 1e300 }), 422),
        ("/nothing", json!({}), 404),
        ("/tasks/none/1/finish", json!({ "output": {} }), 409),
        ("/tasks/none/x/finish", json!({ "output": {} }), 422),
        ("/tasks/none/1/heartbeat", json!({}), 409),
        ("/tasks/none/1/heartbeat?run_seconds=-1", json!({}), 422),
        ("/tasks/none/1/heartbeat?run_seconds=long", json!({}), 422),
        ("/tasks/none/1/heartbeat?run_seconds=", json!({}), 422),
    ] {
        let (status, response) = node.call(path, &body).await?;
        assert_eq!((status, &response["status"]), (expected, &json!("fail")), "{path} {body}: {response}");
        let message = response["message"].as_str().unwrap_or_default();
        let range = "run_seconds must be a number of seconds";
        assert!(!message.is_empty() && (message == range || !path.contains("run_seconds")), "{message}");
    }
    // The API listener has no node paths, and the node listener no API paths.
    let elsewhere = format!("{}/nodes/v1/register", bench.service.base_url());
    assert_eq!(bench.call_nodes(&elsewhere, "", &json!({})).await?.0, 404);
    let api = bench.nodes_url()?.replace("/nodes/v1", "/api/v1/api-key/balance");
    assert_eq!(bench.http.get(api).send().await?.status(), 404);
    Ok(())
}
