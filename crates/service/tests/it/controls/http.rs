//! HTTP interface of the controls, as a test in any language uses it.

use inferstore_service::{Config, Service};
use reqwest::Method;
use serde_json::{Value, json};

use super::support::{Bench, MODEL, TestResult};

impl Bench {
    async fn control(&self, method: &str, path: &str, body: Option<Value>) -> TestResult<(u16, Value)> {
        let url = format!("{}{path}", self.controls.url());
        let request = self.http.request(Method::from_bytes(method.as_bytes())?, url);
        let mut request = request.header("authorization", format!("Bearer {}", self.controls.token()));
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let response = request.send().await?;
        Ok((response.status().as_u16(), serde_json::from_str(&response.text().await?)?))
    }

    async fn must(&self, method: &str, path: &str, body: Option<Value>) -> TestResult<Value> {
        match self.control(method, path, body).await? {
            (200, mut response) if response["status"] == "success" => Ok(response["data"].take()),
            (status, response) => Err(format!("{method} {path}: {status} {response}").into()),
        }
    }
}

#[tokio::test]
async fn every_control_works_over_http() -> TestResult {
    let bench = Bench::start().await?;
    bench.must("PUT", &format!("/models/{MODEL}"), Some(json!({"then": "stay_queued"}))).await?;
    assert_eq!(bench.must("GET", "/models", None).await?, json!({MODEL: {"then": "stay_queued"}}));
    bench.create().await?;
    assert_eq!(bench.must("GET", "/", None).await?["tasks"]["in_queue"], 1);
    bench.must("DELETE", &format!("/models/{MODEL}"), None).await?;

    let fault = json!({"operation": "createTask", "effect": "lose_response", "times": 1});
    assert_eq!(bench.must("POST", "/faults", Some(fault.clone())).await?, json!({"id": 1}));
    assert_eq!(bench.must("GET", "/faults", None).await?, json!([{"id": 1, "fault": fault, "met": 0}]));
    assert!(bench.try_create().await.is_err());
    assert_eq!(bench.tasks().await?, 2);
    let seen = bench.must("GET", "/journal?operation=createTask&after=1", None).await?;
    assert_eq!((seen[0]["effect"].as_str(), &seen[0]["status"]), (Some("lose_response"), &Value::Null));
    bench.must("DELETE", "/journal", None).await?;
    bench.must("DELETE", "/faults/1", None).await?;
    bench.must("DELETE", "/faults", None).await?;

    bench.must("PUT", "/accounts/demo/balance", Some(json!({"balance": "1.5", "debt": "0"}))).await?;
    bench.must("POST", "/accounts/demo/credit", Some(json!({"paid": "2"}))).await?;
    bench.must("POST", "/accounts/demo/credit", Some(json!({"free": "0.1"}))).await?;
    assert_eq!(bench.balance().await?["balance"], "3.5");
    bench.must("PUT", "/node", Some(json!({"up": false}))).await?;
    assert_eq!(bench.must("GET", "/", None).await?["node_up"], false);
    bench.must("PUT", "/node", Some(json!({"up": true}))).await?;
    let before = bench.must("GET", "/", None).await?["time"].clone();
    let after = bench.must("POST", "/clock/advance", Some(json!({"seconds": 90.5}))).await?["time"].clone();
    assert!(after.as_str() > before.as_str(), "{before} {after}");

    bench.must("POST", "/reset", None).await?;
    assert_eq!(bench.must("GET", "/journal", None).await?, json!([]));
    assert_eq!(bench.tasks().await?, 0);
    bench.must("POST", "/baseline", None).await?;
    bench.audit().await
}

#[tokio::test]
async fn an_invalid_request_is_refused_in_the_shape_of_the_api() -> TestResult {
    let bench = Bench::start().await?;
    for (method, path, body, status) in [
        ("GET", "/nothing", None, 404),
        ("GET", "/reset", None, 405),
        ("POST", "/faults", Some(json!({"effect": "explode"})), 422),
        ("POST", "/faults", Some(json!({"effect": "hang_up", "tims": 1})), 422),
        ("POST", "/faults", Some(json!({"effect": "status"})), 422),
        ("POST", "/faults", Some(json!({"effect": "hang_up", "operation": "nothing"})), 422),
        ("DELETE", "/faults/7", None, 404),
        ("PUT", "/models/x", Some(json!({"then": "succeed"})), 422),
        ("DELETE", "/models/x", None, 404),
        ("PUT", "/accounts/nobody/balance", Some(json!({"balance": "1"})), 404),
        ("PUT", "/accounts/demo/balance", Some(json!({"balance": "a lot"})), 422),
        ("POST", "/clock/advance", Some(json!({"seconds": -1})), 422),
        ("GET", "/journal?operation=nothing", None, 422),
    ] {
        let (actual, response) = bench.control(method, path, body.clone()).await?;
        assert_eq!((actual, response["status"].as_str()), (status, Some("fail")), "{method} {path} {body:?}");
        assert!(response["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    Ok(())
}

#[tokio::test]
async fn what_could_never_happen_is_refused_with_what_to_write_instead() -> TestResult {
    let bench = Bench::start().await?;
    let fault = |body: Value| ("POST", "/faults", body, 422);
    for ((method, path, body, status), words) in [
        (fault(json!({"effect": "hang_up", "path": "/nope"})), "path must be one of /api-key/balance, "),
        (fault(json!({"effect": "hang_up", "path": "/api-key/balance?x=1"})), "nor a query"),
        (fault(json!({"effect": "hang_up", "method": "FOO"})), "method must be one of DELETE, GET, "),
        (fault(json!({"effect": "hang_up", "operation": "getObject", "side": "api"})), "one of objects"),
        (fault(json!({"effect": "hang_up", "times": 0})), "times must be at least 1"),
        (fault(json!({"effect": "status", "status": 600})), "status, from 200 to 599"),
        (fault(json!({"effect": "status", "status": 66_000})), "a whole number from 0 to 65535"),
        (fault(json!({"effect": "delay"})), "delay_ms, from 0"),
        (fault(json!({"effect": "drip_body", "bytes": 0, "pause_ms": 1})), "bytes, from 1"),
        (fault(json!({"effect": "set_field", "field": "status"})), "a JSON pointer such as /data/status"),
        (("PUT", "/models/nope", json!({"then": "stay_queued"}), 404), "there is no such model"),
        (("PUT", "/models/face-mesh", json!({"then": "run", "times": 0}), 422), "times must be at least 1"),
        (("POST", "/clock/advance", json!({"seconds": 1e18}), 422), "no time after 9999-12-30"),
        (("POST", "/clock/advance", json!({"seconds": 1e30}), 422), "no time after 9999-12-30"),
        (("POST", "/clock/advance", json!({"seconds": "1"}), 422), "expected a number"),
        (("DELETE", "/faults/99", json!({}), 404), "there is no fault \"99\""),
        (("DELETE", "/models/face-mesh", json!({}), 404), "there is no script for the model \"face-mesh\""),
    ] {
        let (actual, response) = bench.control(method, path, Some(body.clone())).await?;
        let message = response["message"].as_str().unwrap_or_default();
        assert!(actual == status && message.contains(words), "{method} {path} {body}: {actual} {message}");
        assert!(!message.contains("may see"), "{message}");
    }
    let overview = bench.must("GET", "/", None).await?;
    assert_eq!((&overview["faults"], &overview["models"]), (&json!(0), &json!(0)));
    assert!(overview["time"].as_str().is_some_and(|time| !time.starts_with("9999")), "{overview}");
    Ok(())
}

#[tokio::test]
async fn without_the_token_every_request_is_refused_alike_and_changes_nothing() -> TestResult {
    let mut config = Config::ephemeral().with_controls();
    if let Some(controls) = &mut config.controls {
        controls.token = Some("the right one".to_owned());
    }
    assert!(!format!("{config:?}").contains("the right one"));
    let bench = Bench::with(config).await?;
    assert!(!format!("{:?}", bench.controls).contains("the right one"));
    bench.create().await?;
    for (method, path) in [("POST", "/reset"), ("GET", "/"), ("GET", "/nothing"), ("GET", "/reset")] {
        for sent in [
            None,
            Some("Bearer wrong"),
            Some("the right one"),
            Some("Bearer the right one, and more"),
            Some("Bearer "),
        ] {
            let url = format!("{}{path}", bench.controls.url());
            let mut request = bench.http.request(Method::from_bytes(method.as_bytes())?, url);
            if let Some(sent) = sent {
                request = request.header("authorization", sent);
            }
            assert_eq!(request.send().await?.status().as_u16(), 401, "{method} {path} {sent:?}");
        }
    }
    assert_eq!(bench.tasks().await?, 1);
    let url = format!("{}/reset", bench.controls.url());
    assert_eq!(bench.http.post(url).header("x-api-key", &bench.key).send().await?.status().as_u16(), 401);
    Ok(())
}

#[tokio::test]
async fn controls_are_off_unless_they_are_turned_on_and_never_on_the_api() -> TestResult {
    let service = Service::start(Config::ephemeral()).await?;
    assert!(service.controls().is_err());
    let bench = Bench::start().await?;
    for path in ["/reset", "/controls/reset", "/faults"] {
        assert_eq!(bench.call(Method::POST, path, None).await?.0, 404);
    }
    let mut config = Config::ephemeral().with_controls();
    if let Some(controls) = &mut config.controls {
        controls.token = Some(String::new());
    }
    assert!(Service::start(config).await.is_err(), "an empty token is no token");
    Ok(())
}

#[tokio::test]
async fn a_request_takes_little_room_in_the_journal_however_long_its_path_is() -> TestResult {
    let bench = Bench::start().await?;
    bench.call(Method::GET, &format!("/{}", "x".repeat(50_000)), None).await?;
    let seen = bench.controls.journal();
    assert_eq!((seen.len(), seen[0].path.len()), (1, 1_000));
    Ok(())
}
