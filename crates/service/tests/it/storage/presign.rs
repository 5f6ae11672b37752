//! Presigned upload targets: requests and refusals.

use inferstore_service::{Config, Money};
use reqwest::Method;
use serde_json::{Value, json};

use super::support::{Bench, TestResult};

const PATH: &str = "/api-key/storage/upload/create-presigned-url";

#[tokio::test]
async fn a_target_is_a_form_up_to_five_mebibytes_and_a_signed_url_above() -> TestResult {
    let bench = Bench::start().await?;
    let form = bench.presign("cat.png", "image/png", 5_242_880).await?;
    assert!(!form.is_put() && !form.endpoint.contains('?'));
    assert!(form.download_url.starts_with(&format!("{}/", form.endpoint)));
    assert!(form.download_url.ends_with("/documents/cat.png"));
    let fields: Vec<_> = form.fields.keys().map(String::as_str).collect();
    for name in ["key", "Content-Type", "x-amz-algorithm", "x-amz-date", "policy", "x-amz-signature"] {
        assert!(fields.contains(&name), "{fields:?}");
    }
    assert_eq!((form.field("key"), form.field("Content-Type")), ("documents/cat.png", "image/png"));

    let put = bench.presign("cat.png", "image/png", 5_242_881).await?;
    assert_eq!(Value::Object(put.fields), json!({"Content-Type": "image/png"}));
    assert!(put.endpoint.starts_with(&format!("{}?X-Amz-Algorithm=", put.download_url)));
    assert_eq!(put.download_url, form.download_url);
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_stored_gets_no_target() -> TestResult {
    let bench = Bench::start().await?;
    let good = json!({"folder": "samples", "mime": "image/png", "name": "a.png", "size": 10});
    assert_eq!(bench.call(Method::POST, PATH, Some(good.clone())).await?.0, 200);
    let long = "x".repeat(1_024 - "samples/".len() + 1);
    let changes = [
        ("folder", json!("outputs")),
        ("folder", json!("Samples")),
        ("folder", json!("")),
        ("folder", Value::Null),
        ("size", json!(0)),
        ("size", json!(-1)),
        ("size", json!(104_857_601)),
        ("size", json!(1.5)),
        ("size", json!("10")),
        ("size", Value::Null),
        ("mime", json!("")),
        ("mime", json!("png")),
        ("mime", json!("image/*/png")),
        ("mime", json!("image/png\r\nx: y")),
        ("name", json!("")),
        ("name", json!(".")),
        ("name", json!("..")),
        ("name", json!("../../etc/passwd")),
        ("name", json!("a/b.png")),
        ("name", json!("a\u{0}b")),
        ("name", json!("a\nb")),
        ("name", json!(long)),
    ];
    for (field, value) in changes {
        let mut body = good.clone();
        body[field] = value.clone();
        let (status, response) = bench.call(Method::POST, PATH, Some(body)).await?;
        assert_eq!(
            (status, response["status"].as_str()),
            (422, Some("fail")),
            "{field} = {value}: {response}"
        );
        let message = response["message"].as_str().unwrap_or_default();
        assert!(message.contains(field) || message.starts_with("the body"), "{response}");
    }
    let mut body = good;
    body["org_username"] = json!("inferstore");
    assert_eq!(bench.call(Method::POST, PATH, Some(body)).await?.0, 403);
    Ok(())
}

#[tokio::test]
async fn without_anything_to_spend_there_is_no_target() -> TestResult {
    let body = || Some(json!({"folder": "samples", "mime": "image/png", "name": "a.png", "size": 10}));
    let mut config = Config::ephemeral();
    (config.first_account.balance, config.first_account.free_balance) = (Money::ZERO, Money::ZERO);
    let poor = Bench::with(config.clone()).await?;
    assert_eq!(poor.call(Method::POST, PATH, body()).await?.0, 402);
    config.first_account.free_balance = Money::from_smallest(1);
    assert_eq!(Bench::with(config).await?.call(Method::POST, PATH, body()).await?.0, 200);
    Ok(())
}
