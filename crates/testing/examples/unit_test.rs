//! A function that runs a model, with unit tests that need no network: `cargo test --example unit_test`.

#![cfg_attr(not(test), expect(dead_code, reason = "only the tests run it"))]

use inferstore::{Client, File, Inputs, Result};

async fn dehaze(client: &Client, picture: Vec<u8>) -> Result<Vec<u8>> {
    let inputs = Inputs::new().file("input_image", File::bytes("hazy.png", picture));
    let outcome = client.model("haze-removal").run(inputs).await?;
    Ok(outcome.download("output_image")?.bytes().await?.to_vec())
}

fn main() {}

#[cfg(test)]
mod tests {
    use inferstore::{Error, Result};
    use inferstore_testing::ScriptedService;
    use serde_json::json;

    // Tokio's paused clock skips every wait.
    #[tokio::test(start_paused = true)]
    async fn a_picture_is_uploaded_and_its_output_downloaded() -> Result<()> {
        let service = ScriptedService::new();
        let output = service.stores("clear.png", "image/png", b"clear".to_vec());
        service.model("haze-removal").succeeds(json!({ "output_image": output }));
        assert_eq!(super::dehaze(&service.client()?, b"hazy".to_vec()).await?, b"clear");
        let created = service.created();
        let uploaded = created[0].inputs["input_image"].as_str().and_then(|url| service.content(url));
        assert_eq!(uploaded.as_deref(), Some(&b"hazy"[..]));
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn the_failure_of_a_task_is_returned() -> Result<()> {
        let service = ScriptedService::new();
        service.model("haze-removal").fails("out of memory");
        let failed = super::dehaze(&service.client()?, b"hazy".to_vec()).await;
        assert!(
            matches!(failed, Err(Error::TaskFailed(failure)) if failure.message.as_deref() == Some("out of memory"))
        );
        Ok(())
    }
}
