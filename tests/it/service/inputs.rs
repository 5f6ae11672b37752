//! Inputs of tasks, checked against the declaration of the model.

use serde_json::{Value, json};

use super::{Refusals, audited, start, start_with_fixtures};

const URL: &str = "https://files.example/street.png";

fn harmonization(angle: Value) -> Value {
    json!({ "input_image": URL, "template": "v_shape", "angle": angle })
}

#[tokio::test]
async fn a_bare_number_is_refused_where_the_samples_are_strings() {
    let (service, caller) = start().await;
    for path in ["/api-key/model/color-harmonization/task", "/model/color-harmonization/task"] {
        let answer = caller.post(path, &harmonization(json!(30))).await;
        assert_eq!(answer.refusal(422), "angle must be a whole number sent as a string, such as \"1\"");
        caller.post(path, &harmonization(json!("30"))).await.data();
    }
    let faces = |confidence: Value| {
        let model = "Full-range model (best for faces within 5 meters)";
        json!({ "input": URL, "model": model, "confidence": confidence })
    };
    caller.post("/api-key/model/face-detection/task", &faces(json!(0.5))).await.refusal(422);
    caller.post("/api-key/model/face-detection/task", &faces(json!("0.5"))).await.data();
    audited(&service).await;
}

#[tokio::test]
async fn optional_inputs_may_be_left_out_or_null_and_must_be_valid_when_sent() {
    let (_service, caller) = start_with_fixtures().await;
    let path = "/api-key/model/pencil-sketch/task";
    caller.post(path, &json!({ "input": URL })).await.data();
    let all = json!({ "input": URL, "strength": "3", "contrast": "0.35", "style": "ink" });
    caller.post(path, &all).await.data();
    caller.post(path, &json!({ "input": URL, "strength": null })).await.data();
    caller.post(path, &json!({ "input": URL, "contrast": "0.37" })).await.data();
    let mut refusals = Refusals::default();
    for (name, value) in [
        ("strength", json!(3)),
        ("contrast", json!(0.35)),
        ("strength", json!("3.0")),
        ("strength", json!("11")),
        ("contrast", json!("2.01")),
        ("style", json!("Ink")),
    ] {
        let wrong = json!({ "input": URL, name: value });
        refusals.add(format!("{name}: {value}"), &caller.post(path, &wrong).await);
    }
    insta::assert_snapshot!(refusals.0);
}

#[tokio::test]
async fn a_number_keeps_to_its_range() {
    let (_service, caller) = start().await;
    let path = "/api-key/model/color-harmonization/task";
    for angle in ["1", "90"] {
        caller.post(path, &harmonization(json!(angle))).await.data();
    }
    let mut refusals = Refusals::default();
    for angle in ["0", "91", "-1", "30.5", "1e1", "", " 30", "٣٠", "NaN", "inf", "99999999999999999999999999"]
    {
        refusals.add(format!("{angle:?}"), &caller.post(path, &harmonization(json!(angle))).await);
    }
    insta::assert_snapshot!(refusals.0);
}

#[tokio::test]
async fn everything_that_is_wrong_with_the_inputs_is_reported_at_once() {
    let (_service, caller) = start().await;
    let mut refusals = Refusals::default();
    let wrong = json!({ "input_image": "street.png", "template": "V_SHAPE", "size": "4" });
    for (what, inputs) in [("wrong ones", wrong), ("none", json!({}))] {
        refusals.add(what, &caller.post("/api-key/model/color-harmonization/task", &inputs).await);
    }
    insta::assert_snapshot!(refusals.0);
}

#[tokio::test]
async fn an_input_that_is_given_twice_is_refused() {
    let (_service, caller) = start().await;
    let body = format!("{{\"input\": \"{URL}\", \"input\": \"https://elsewhere.example/\"}}");
    assert!(
        caller.post_text("/api-key/model/color-extraction/task", body).await.refusal(422).contains("twice")
    );
}

#[tokio::test]
async fn a_picture_inside_the_inputs_is_refused_with_a_hint_to_upload_it() {
    let (_service, caller) = start().await;
    let picture = format!("data:image/png;base64,{}", "A".repeat(256 << 10));
    let answer = caller.post("/api-key/model/color-extraction/task", &json!({ "input": picture })).await;
    assert_eq!(answer.refusal(413), "the inputs of a task have at most 262144 bytes; send files by URL");
}

#[tokio::test]
async fn what_was_refused_leaves_no_trace() {
    let (service, caller) = start().await;
    let before = caller.get("/api-key/balance").await.data().clone();
    for wrong in [json!({}), json!({ "input": 5 }), json!({ "input": URL, "more": 1 })] {
        caller.post("/api-key/model/color-extraction/task", &wrong).await.refusal(422);
    }
    assert_eq!(caller.get("/api-key/balance").await.data(), &before);
    assert_eq!(caller.get("/api-key/task/histories").await.data(), &json!({ "records": null, "total": 0 }));
    audited(&service).await;
}
