//! Faults: each effect on the API and on the object store, and the matching of requests.

use std::time::{Duration, Instant};

use inferstore_api::operations;
use inferstore_service::{Config, Fault, ModelChange, Operation, Side};
use reqwest::Method;
use reqwest::header::{CONTENT_LENGTH, HeaderMap};

use super::support::{Bench, MODEL, TestResult};

#[tokio::test]
async fn a_status_comes_in_the_shape_of_the_api_and_nothing_was_done() -> TestResult {
    let bench = Bench::start().await?;
    let busy = Fault::status(429).message("slow down").retry_after(2).on(operations::CREATE_TASK);
    bench.controls.add_fault(busy.times(2))?;
    for _ in 0..2 {
        let path = "/api-key/model/color-extraction/task";
        let response = bench.send(Method::POST, path, Some(serde_json::json!({}))).await?;
        assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (429, &"2".parse()?));
        assert!(response.headers().contains_key("x-request-id"));
        let body: serde_json::Value = serde_json::from_str(&response.text().await?)?;
        assert_eq!(body, serde_json::json!({"status": "fail", "message": "slow down"}));
    }
    assert_eq!(bench.try_create().await?.0, 200, "it happened as often as it was to");
    assert_eq!(bench.tasks().await?, 1);
    assert_eq!(bench.controls.faults()[0].met, 2);
    Ok(())
}

#[tokio::test]
async fn a_status_after_the_commit_hides_what_was_done() -> TestResult {
    let bench = Bench::start().await?;
    let page = Fault::status(502).body("text/html", "<h1>502</h1>").after_commit();
    bench.controls.add_fault(page.on(operations::CREATE_TASK).once())?;
    let path = "/api-key/model/color-extraction/task";
    let input = serde_json::json!({"input": "https://files.example/a.png"});
    let response = bench.send(Method::POST, path, Some(input)).await?;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (502, &"text/html".parse()?)
    );
    assert_eq!((response.text().await?.as_str(), bench.tasks().await?), ("<h1>502</h1>", 1));
    Ok(())
}

#[tokio::test]
async fn a_request_that_is_delayed_keeps_no_other_from_being_worked_on() -> TestResult {
    let mut config = Config::ephemeral().with_controls();
    config.limits.max_requests = 1;
    let bench = Bench::with(config).await?;
    let hour = Duration::from_hours(1);
    for fault in [Fault::delay(hour), Fault::delay(hour).after_commit()] {
        bench.controls.add_fault(fault.on(operations::GET_BALANCE).once())?;
        let delayed = bench.get("/api-key/balance");
        let others = async {
            while bench.controls.faults().last().is_none_or(|fault| fault.met == 0) {
                tokio::task::yield_now().await;
            }
            // A request in progress holds the only permit until the fault delays it.
            while bench.call(Method::GET, "/api-key/task/histories", None).await?.0 != 200 {}
            TestResult::Ok(())
        };
        tokio::select! {
            _ = delayed => return Err("it was not delayed".into()),
            done = tokio::time::timeout(Duration::from_mins(1), others) => done??,
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_connection_is_dropped_before_or_after_the_commit() -> TestResult {
    let bench = Bench::start().await?;
    for (fault, tasks) in [(Fault::hang_up(), 0), (Fault::lose_response(), 1)] {
        bench.controls.reset().await?;
        bench.controls.add_fault(fault.on(operations::CREATE_TASK).once())?;
        assert!(bench.try_create().await.is_err());
        assert_eq!(bench.tasks().await?, tasks);
        let entry = bench.controls.journal().into_iter().find(|entry| entry.effect.is_some());
        assert_eq!(
            entry.map(|entry| (entry.status, entry.operation)),
            Some((None, Some(operations::CREATE_TASK.into())))
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_body_is_cut_or_comes_bit_by_bit() -> TestResult {
    let bench = Bench::start().await?;
    bench.controls.add_fault(Fault::cut_body(10).on(operations::GET_BALANCE).once())?;
    let mut response = bench.send(Method::GET, "/api-key/balance", None).await?;
    let announced = response.content_length().unwrap_or_default();
    let mut read = 0;
    let ended = loop {
        match response.chunk().await {
            Ok(Some(chunk)) => read += chunk.len(),
            Ok(None) => break Ok(()),
            Err(cause) => break Err(cause),
        }
    };
    assert!(ended.is_err() && announced > 10 && read == 10, "{read} of {announced}: {ended:?}");

    let whole = bench.balance().await?;
    bench
        .controls
        .add_fault(Fault::drip_body(20, Duration::from_millis(20)).on(operations::GET_BALANCE).once())?;
    let begun = Instant::now();
    assert_eq!(bench.balance().await?, whole);
    assert!(begun.elapsed() > Duration::from_millis(100), "{:?}", begun.elapsed());
    Ok(())
}

#[tokio::test]
async fn a_fault_changes_one_field_of_a_response_and_nothing_else() -> TestResult {
    let bench = Bench::start().await?;
    let id = bench.create().await?;
    let task = bench.until(&id, &["failed"]).await?;
    bench
        .controls
        .add_fault(Fault::set_field("/data/status", "migrating").on(operations::GET_TASK).once())?;
    let mut other = bench.task(&id).await?;
    assert_eq!(other["status"], "migrating");
    other["status"] = task["status"].clone();
    assert_eq!(other, task);
    assert_eq!(bench.task(&id).await?, task, "it happened once");

    bench.controls.add_fault(Fault::set_field("/data/no/such/field", 1).on(operations::GET_TASK).once())?;
    assert_eq!(bench.task(&id).await?, task, "there is no such field");

    let change = ModelChange { price: Some("9223372036.854775807".parse()?), ..ModelChange::default() };
    bench.service.change_model(MODEL, change).await?;
    let path = format!("/api-key/model/{MODEL}/task/cost");
    let cost = bench.send(Method::GET, &path, None).await?.text().await?;
    bench.controls.add_fault(Fault::set_field("/data/unit", "EUR").once())?;
    let changed = bench.send(Method::GET, &path, None).await?.text().await?;
    assert!(cost.contains("9223372036.854775807") && changed == cost.replace("USD", "EUR"), "{changed}");
    Ok(())
}

#[tokio::test]
async fn a_delayed_response_is_complete() -> TestResult {
    let bench = Bench::start().await?;
    bench.controls.add_fault(Fault::delay(Duration::from_millis(150)).on_path("get", "/api-key/balance"))?;
    let begun = Instant::now();
    bench.balance().await?;
    assert!(begun.elapsed() >= Duration::from_millis(150));

    // The client hangs up: the task is created completely or not at all.
    let impatient = Duration::from_millis(300);
    for (fault, tasks) in
        [(Fault::delay(Duration::from_mins(1)), 0), (Fault::delay(Duration::from_mins(1)).after_commit(), 1)]
    {
        bench.controls.reset().await?;
        bench.controls.add_fault(fault.on(operations::CREATE_TASK))?;
        assert!(tokio::time::timeout(impatient, bench.try_create()).await.is_err());
        assert_eq!(bench.tasks().await?, tasks);
    }
    Ok(())
}

#[tokio::test]
async fn the_object_store_has_faults_of_its_own_kind() -> TestResult {
    let bench = Bench::start().await?;
    let target = bench.presign("note.txt", "text/plain", 6).await?;
    let form = target.form(b"a note");
    let upload = || bench.send_form(&target, &form, HeaderMap::new());
    bench.controls.add_fault(Fault::status(503).message("a < b").on(Operation::POST_OBJECT).once())?;
    let response = upload().await?;
    assert_eq!(response.status().as_u16(), 503);
    let text = response.text().await?;
    assert!(text.contains("<Code>SlowDown</Code>") && text.contains("a &lt; b"), "{text}");

    bench.controls.add_fault(Fault::lose_response().on(Operation::POST_OBJECT).once())?;
    assert!(upload().await.is_err());
    let url = &target.download_url;
    assert_eq!(bench.read(url).await?, (200, "a note".to_owned()), "it was stored");

    bench.controls.add_fault(Fault::cut_body(2).on(Operation::GET_OBJECT).once())?;
    assert!(bench.read(url).await.is_err());
    bench.controls.add_fault(Fault::hang_up().at(Side::Objects).once())?;
    assert!(bench.read(url).await.is_err());
    assert_eq!(bench.read(url).await?.0, 200);
    // Signatures are credentials, and stay out of the journal (redaction).
    assert!(bench.controls.journal().iter().all(|entry| !entry.path.contains('?')));
    Ok(())
}

#[tokio::test]
async fn the_head_of_an_object_announces_its_whole_length() -> TestResult {
    let bench = Bench::start().await?;
    let target = bench.presign("note.txt", "text/plain", 6).await?;
    assert_eq!(bench.send_form(&target, &target.form(b"a note"), HeaderMap::new()).await?.status(), 204);
    for fault in
        [Fault::cut_body(2), Fault::drip_body(1, Duration::from_millis(1)), Fault::set_field("/data", 1)]
    {
        bench.controls.add_fault(fault.clone().on(Operation::HEAD_OBJECT).once())?;
        let head = bench.http.head(&target.download_url).send().await?;
        assert_eq!(head.headers()[CONTENT_LENGTH], "6", "{fault:?}");
    }
    Ok(())
}

#[tokio::test]
async fn only_the_requests_that_were_meant_meet_a_fault() -> TestResult {
    let bench = Bench::start().await?;
    let faults = [
        Fault::status(500).on(operations::GET_TASK),
        Fault::status(501).on_path("GET", "/api-key/model/{id}"),
        Fault::status(505).on_path("GET", "/api-key/model/haze-removal/serving"),
    ];
    for fault in faults {
        bench.controls.add_fault(fault)?;
    }
    for (path, status) in [
        ("/api-key/balance", 200),
        ("/api-key/task/x/detail", 500),
        ("/api-key/model/haze-removal", 501),
        ("/api-key/model/haze-removal/serving", 505),
        ("/api-key/model/color-extraction/serving", 200),
    ] {
        assert_eq!(bench.call(Method::GET, path, None).await?.0, status, "{path}");
    }
    bench.controls.clear_faults();
    assert_eq!(bench.call(Method::GET, "/api-key/model/haze-removal", None).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn with_the_same_seed_the_same_requests_meet_a_fault_of_chance() -> TestResult {
    let mut config = Config::ephemeral().with_controls();
    config.seed = Some(11);
    let bench = Bench::with(config).await?;
    let mut sequences = Vec::new();
    for _ in 0..2 {
        bench.controls.add_fault(Fault::status(503).with_probability(0.3))?;
        let mut sequence = Vec::new();
        for _ in 0..40 {
            sequence.push(bench.call(Method::GET, "/api-key/balance", None).await?.0);
        }
        sequences.push(sequence);
        bench.controls.reset().await?;
    }
    assert_eq!(sequences[0], sequences[1]);
    assert!(sequences[0].contains(&503) && sequences[0].contains(&200));
    Ok(())
}

#[tokio::test]
async fn an_invalid_fault_is_refused_with_the_reason() -> TestResult {
    let bench = Bench::start().await?;
    for fault in [
        Fault::status(99),
        Fault::hang_up().with_probability(1.5),
        Fault::hang_up().message("goes with no hang-up"),
        Fault::drip_body(0, Duration::ZERO),
        Fault::set_field("status", "a field is named by a pointer"),
        Fault::status(500).header("not a name", "x"),
    ] {
        assert!(bench.controls.add_fault(fault.clone()).is_err(), "{fault:?}");
    }
    assert!(bench.controls.faults().is_empty());
    bench.controls.add_fault(Fault::hang_up().on(operations::GET_TASK))?;
    assert_eq!(bench.controls.faults()[0].id, 1);
    assert!(bench.controls.clear_fault(1) && !bench.controls.clear_fault(1));
    Ok(())
}
