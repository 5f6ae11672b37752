//! Refused starts, with the reason.

use inferstore_service::Service;

use super::support::{TestResult, config};

#[tokio::test]
async fn a_first_key_that_cannot_be_sent_or_guessed_too_easily_is_refused() -> TestResult {
    for key in [
        "a",
        " ",
        "fifteen-letters",
        "a key with some spaces",
        "a-key-with-a\nline-break",
        "ключ-ключ-ключ-ключ",
    ] {
        let mut config = config();
        config.first_account.api_key = Some(key.to_owned());
        let refusal = Service::start(config).await.err().ok_or("it started")?.to_string();
        assert!(refusal.contains("16"), "{refusal}");
        assert!(!refusal.contains(key) || key.len() < 3, "{refusal}");
    }
    let mut config = config();
    config.first_account.api_key = Some("sixteen-letters!".to_owned());
    drop(Service::start(config).await?);
    Ok(())
}

#[tokio::test]
async fn storage_on_every_address_needs_the_address_that_others_reach() -> TestResult {
    let mut refused = config();
    refused.storage = ([0, 0, 0, 0], 0).into();
    let refusal = Service::start(refused.clone()).await.err().ok_or("it started")?.to_string();
    assert!(refusal.contains("0.0.0.0"), "{refusal}");
    refused.storage_url = Some("http://files.example".to_owned());
    drop(Service::start(refused).await?);
    Ok(())
}
