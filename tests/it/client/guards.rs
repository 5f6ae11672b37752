//! Runs are rejected before any cost: for their inputs, their price, or an offline model.

use inferstore::{Decimal, Error, Run};
use inferstore_api::operations;
use inferstore_service::{Fault, ModelSpec, Operation, Scope, Script};
use serde_json::{Value, json};

use super::on_the_service::{MODEL, start, success};
use super::{Quickly, inputs};
use crate::support::sketch;

#[tokio::test]
async fn a_run_that_costs_more_than_it_may_is_refused() {
    let (_service, controls, client) = start().await;
    controls.let_model(MODEL, success()).await.expect("it succeeds");
    let model = client.model(MODEL);
    let at_most = |limit: &str| -> Run { model.run(inputs()).quickly().max_cost(limit) };
    let error = at_most("0.049999999999999999999").await.expect_err("it costs 0.05");
    let Error::CostLimitExceeded(exceeded) = &error else { panic!("{error:?}") };
    assert_eq!(exceeded.quote, "0.05".parse().ok());
    assert_eq!(controls.seen(operations::CREATE_TASK), 0);
    at_most("0.050").await.expect("it costs no more");
}

#[tokio::test]
async fn a_price_that_is_not_reported_is_not_a_price_of_zero() {
    let (_service, controls, client) = start().await;
    let no_price = Fault::set_field("/data/cost", Value::Null).on(operations::GET_MODEL_COST);
    controls.add_fault(no_price).expect("it is a fault");
    let run = client.model(MODEL).run(inputs()).quickly().max_cost(Decimal::from(1));
    run.await.expect_err("the price is unknown");
    assert_eq!(controls.seen(operations::CREATE_TASK), 0);
}

#[tokio::test]
async fn a_model_that_nothing_serves_is_refused_when_the_caller_wants_that() {
    let (_service, controls, client) = start().await;
    controls.take_node_down().await.expect("it goes down");
    let run = client.model(MODEL).run(inputs()).quickly().options(|options| options.require_serving = true);
    let error = run.await.expect_err("nothing serves it");
    assert!(matches!(error, Error::ModelOffline(_)), "{error:?}");
    assert_eq!(controls.seen(operations::CREATE_TASK), 0);
}

#[tokio::test]
async fn inputs_that_do_not_fit_are_reported_all_at_once_and_nothing_is_sent() {
    let (_service, controls, client) = start().await;
    let wrong =
        inferstore::Inputs::new().set("input_img", super::IMAGE).set("template", "V_shape").set("angle", 91);
    let error = client.model(MODEL).run(wrong).quickly().await.expect_err("none of it fits");
    let Error::Inputs(invalid) = &error else { panic!("{error:?}") };
    let fields: Vec<_> = invalid.violations.iter().map(|violation| violation.field.as_str()).collect();
    for field in ["input_image", "input_img", "template", "angle"] {
        assert!(fields.contains(&field), "{field} is not among {fields:?}");
    }
    assert_eq!((controls.seen(operations::CREATE_TASK), controls.seen(Operation::POST_OBJECT)), (0, 0));
}

#[tokio::test]
async fn a_declaration_is_read_once_and_again_after_a_refused_create() {
    let (service, controls, client) = start().await;
    let file = json!({ "type": "file", "required": true, "mime_type": ["image/*"], "position": 0 });
    let outputs = json!({ "output": file }).to_string();
    let spec = sketch("0.05", &json!({ "image": file }), &json!({ "output": file }));
    service.add_account("atelier", Scope::Organization).await.expect("the account is new");
    let spec = ModelSpec::from_json(&spec.to_string()).expect("it is a model");
    service.publish_model("atelier", spec).await.expect("it is published");
    let success = Script::succeed(json!({ "output": "https://files.example/o.png" }));
    controls.let_model("sketch", success).await.expect("it succeeds");
    let run = || client.model("sketch").run(inferstore::Inputs::new().set("image", super::IMAGE)).quickly();
    for _ in 0..3 {
        run().await.expect("it runs");
    }
    assert_eq!(controls.seen(operations::GET_MODEL_VERSIONING), 1);
    let inputs = json!({ "photo": file }).to_string();
    service.publish_version("atelier", "sketch", &inputs, &outputs).await.expect("it is published");
    let refused = run().await.expect_err("the model takes something else now");
    assert!(matches!(refused, Error::Api(_)) && refused.to_string().contains("photo"), "{refused:?}");
    let error = run().await.expect_err("the model takes something else now");
    let Error::Inputs(invalid) = &error else { panic!("{error:?}") };
    assert!(invalid.violations.iter().any(|violation| violation.field == "photo"), "{invalid}");
    let requests = (controls.seen(operations::GET_MODEL_VERSIONING), controls.seen(operations::CREATE_TASK));
    assert_eq!(requests, (2, 4));
}
