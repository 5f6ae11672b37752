//! Answers as the service wrote them, and requests that have no method of their own.

use inferstore::{ApiKey, Client, Error, with_payload};
use serde_json::json;

use crate::support::scripted::{Fault, Route, ScriptedService};

fn client(service: &ScriptedService) -> Client {
    Client::new(&service.base_url(), ApiKey::new(service.key())).expect("a client can be made")
}

#[tokio::test]
async fn the_payload_keeps_every_digit_and_every_field_that_no_type_knows() {
    let service = ScriptedService::start().await;
    let client = client(&service);
    let data = r#"{"balance":"1.50","free_balance": 0.10000000000000000001, "new":{"z":1,"a":[1.0]}}"#;
    let answer = Fault::Status {
        code: 200,
        headers: Vec::new(),
        content_type: "application/json".to_owned(),
        body: format!(r#"{{"status":"success","message":"ok","data":{data}}}"#),
        committed: false,
    };
    service.fault(Route::GetBalance, answer).await;
    let (balance, payload) = with_payload(client.account().balance()).await;
    assert_eq!(payload.map(|payload| payload.to_string()).as_deref(), Some(data));
    let free = balance.expect("it is read").free_balance.map(|free| free.to_string());
    assert_eq!(free.as_deref(), Some("0.10000000000000000001"));
}

#[tokio::test]
async fn the_payload_is_that_of_the_last_answer() {
    let service = ScriptedService::start().await;
    let client = client(&service);
    service.fault(Route::GetBalance, Fault::html_page(502)).await;
    let (_, payload) = with_payload(async {
        client.models().page(&Default::default()).await?;
        // Repeated once; only an answer that succeeds counts.
        client.account().balance().await
    })
    .await;
    assert!(payload.is_some_and(|payload| payload.get().contains("wallet_address")));
    let (refused, payload) = with_payload(client.model("no-such-model").get()).await;
    assert!(matches!(refused, Err(Error::Api(_))) && payload.is_none());
}

#[tokio::test]
async fn any_request_goes_through_the_same_funnel() {
    let service = ScriptedService::start().await;
    let client = client(&service);
    let method = |text: &str| text.parse().expect("it is a method");
    service.fault(Route::GetBalance, Fault::html_page(502)).await;
    let balance = client.request(method("get"), "/api-key/balance", None).await.expect("it is repeated");
    assert!(balance.contains(r#""status":"success""#), "{balance}");

    let query = serde_json::value::to_raw_value(&json!({"limit": 1})).expect("it is JSON");
    let models = client.request(method("POST"), "/api-key/model/list", Some(&query)).await;
    assert!(models.expect("it is answered").contains("records"));

    service.fault(Route::ListModels, Fault::html_page(502)).await;
    let once = client.request(method("POST"), "/api-key/model/list", Some(&query)).await;
    let Err(Error::Api(context)) = once else { unreachable!("only a GET is repeated: {once:?}") };
    assert_eq!((context.status, context.attempts), (Some(502), 1));

    let refused = client.request(method("GET"), "api-key/balance", None).await;
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "a path begins with a slash: {refused:?}");
    assert!("STEAL".parse::<inferstore::Method>().is_err());
}

#[tokio::test]
async fn checking_sends_nothing_that_stays() {
    let service = ScriptedService::start().await;
    let model = client(&service).model("color-harmonization");
    let inputs = inferstore::Inputs::new()
        .file("input_image", inferstore::File::bytes("a.png", &b"\x89PNG\r\n\x1a\n"[..]))
        .set("template", "v_shape")
        .set("angle", 30);
    let checked = model.check(inputs.clone(), Default::default()).await.expect("they fit");
    assert_eq!(json!(checked), json!({"template": "v_shape", "angle": "30"}));
    let wrong = model.check(inputs.set("angle", 95), Default::default()).await;
    assert!(matches!(wrong, Err(Error::Inputs(_))), "{wrong:?}");
    assert!(service.created().is_empty() && service.uploads().is_empty());
}
