//! A run is refused before any money moves: for its inputs, its price, or when nothing serves the
//! model.

use inferstore::{Decimal, Error, Run};
use serde_json::json;

use super::{Quickly, client, inputs};
use crate::support::scripted::{DEFAULT_MODEL, Route, ScriptedService};

#[tokio::test]
async fn a_run_that_costs_more_than_it_may_is_refused() {
    let service = ScriptedService::start().await;
    let model = client(&service).model(DEFAULT_MODEL);
    let at_most = |limit: &str| -> Run { model.run(inputs()).quickly().max_cost(limit) };
    let error = at_most("0.049999999999999999999").await.expect_err("it costs 0.05");
    let Error::CostLimitExceeded(exceeded) = &error else { panic!("{error:?}") };
    assert_eq!(exceeded.quote.to_string(), "0.05");
    assert_eq!(service.count(Route::CreateTask), 0);
    at_most("0.050").await.expect("it costs no more");
}

#[tokio::test]
async fn a_price_that_is_not_reported_is_not_a_price_of_zero() {
    let service = ScriptedService::start().await;
    service.set_price(DEFAULT_MODEL, json!(null));
    let run = client(&service).model(DEFAULT_MODEL).run(inputs()).quickly().max_cost(Decimal::from(1));
    run.await.expect_err("the price is unknown");
    assert_eq!(service.count(Route::CreateTask), 0);
}

#[tokio::test]
async fn a_model_that_nothing_serves_is_refused_when_the_caller_wants_that() {
    let service = ScriptedService::start().await;
    service.set_serving(DEFAULT_MODEL, false);
    let run = client(&service).model(DEFAULT_MODEL).run(inputs()).quickly().require_serving(true);
    let error = run.await.expect_err("nothing serves it");
    assert!(matches!(error, Error::ModelOffline(_)), "{error:?}");
    assert_eq!(service.count(Route::CreateTask), 0);
}

#[tokio::test]
async fn inputs_that_do_not_fit_are_reported_all_at_once_and_nothing_is_sent() {
    let service = ScriptedService::start().await;
    let client = client(&service);
    let wrong =
        inferstore::Inputs::new().set("input_img", super::IMAGE).set("template", "V_shape").set("angle", 91);
    let error = client.model(DEFAULT_MODEL).run(wrong).quickly().await.expect_err("none of it fits");
    let Error::Inputs(invalid) = &error else { panic!("{error:?}") };
    let fields: Vec<_> = invalid.violations.iter().map(|violation| violation.field.to_owned()).collect();
    for field in ["input_image", "input_img", "template", "angle"] {
        assert!(fields.contains(&field.to_owned()), "{field} is not among {fields:?}");
    }
    assert_eq!((service.count(Route::CreateTask), service.uploads().len()), (0, 0));
}

#[tokio::test]
async fn what_a_model_declares_is_read_once_and_again_after_a_create_was_refused() {
    let service = ScriptedService::start().await;
    let model = client(&service).model(DEFAULT_MODEL);
    for _ in 0..3 {
        model.run(inputs()).quickly().await.expect("it runs");
    }
    assert_eq!(service.count(Route::GetModelVersioning), 1);
    let changed = json!({"photo": {"type": "file", "required": true, "mime_type": ["image/*"]}});
    service.set_version(DEFAULT_MODEL, "version-2", changed);
    let refused = model.run(inputs()).quickly().await.expect_err("the model takes something else now");
    assert!(matches!(refused, Error::Api(_)) && refused.to_string().contains("photo"), "{refused:?}");
    let error = model.run(inputs()).quickly().await.expect_err("the model takes something else now");
    let Error::Inputs(invalid) = &error else { panic!("{error:?}") };
    assert!(invalid.violations.iter().any(|violation| violation.field == "photo"), "{invalid}");
    assert_eq!((service.count(Route::GetModelVersioning), service.count(Route::CreateTask)), (2, 4));
}
