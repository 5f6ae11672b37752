//! Raw responses of the service, and requests without a method of their own.

use inferstore::Error;
use inferstore::reqwest::Method;
use inferstore_api::operations;
use inferstore_service::Fault;
use serde_json::json;
use serde_json::value::RawValue;

use crate::client::on_the_service::{MODEL, start, tasks};

fn query() -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(&json!({"limit": 1})).ok()
}

#[tokio::test]
async fn a_raw_response_keeps_every_digit_and_every_field_that_no_type_knows() {
    let (_service, controls, client) = start().await;
    let data = r#"{"balance":"1.50","free_balance": 0.10000000000000000001, "new":{"z":1,"a":[1.0]}}"#;
    let body = format!(r#"{{"status":"success","message":"ok","data":{data}}}"#);
    let response = Fault::status(200).body("application/json", &body).on(operations::GET_BALANCE);
    controls.add_fault(response.times(2)).expect("it is a fault");
    let raw = client.request(Method::GET, "/api-key/balance", None).await.expect("it is read");
    assert_eq!(raw, body);
    let free = client.balance().await.expect("it is read").free_balance;
    assert_eq!(free.map(|free| free.to_string()).as_deref(), Some("0.10000000000000000001"));
}

#[tokio::test]
async fn any_request_goes_through_the_same_funnel() {
    let (_service, controls, client) = start().await;
    let page = || Fault::status(502).body("text/html", "<h1>Bad gateway</h1>").once();
    controls.add_fault(page().on(operations::GET_BALANCE)).expect("it is a fault");
    let balance = client.request(Method::GET, "/api-key/balance", None).await.expect("it is retried");
    assert!(balance.contains(r#""status":"success""#), "{balance}");

    let models = client.request(Method::POST, "/api-key/model/list", query()).await;
    assert!(models.expect("it is answered").contains("records"));

    controls.add_fault(page().on(operations::LIST_MODELS)).expect("it is a fault");
    let once = client.request(Method::POST, "/api-key/model/list", query()).await;
    let Err(Error::Api(context)) = once else { unreachable!("only a GET is retried: {once:?}") };
    assert_eq!((context.status, context.attempts), (Some(502), 1));

    let refused = client.request(Method::GET, "api-key/balance", None).await;
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "a path begins with a slash: {refused:?}");
}

#[tokio::test]
async fn checking_sends_nothing_that_stays() {
    let (_service, controls, client) = start().await;
    let model = client.model(MODEL);
    let inputs = inferstore::Inputs::new()
        .file("input_image", inferstore::File::bytes("a.png", &b"\x89PNG\r\n\x1a\n"[..]))
        .set("template", "v_shape")
        .set("angle", 30);
    let checked = model.run(inputs.clone()).check().await.expect("they fit");
    assert_eq!(json!(checked), json!({"template": "v_shape", "angle": "30"}));
    let wrong = model.run(inputs.set("angle", 95)).check().await;
    assert!(matches!(wrong, Err(Error::Inputs(_))), "{wrong:?}");
    assert_eq!((controls.seen(operations::CREATE_PRESIGNED_UPLOAD), tasks(&controls).await), (0, 0));
}
