//! A model of one's own inside the process, for programs that embed the service.

use std::sync::Arc;
use std::time::Duration;

use inferstore_service::model::{Error, Inputs, Limits, Model, Output};
use inferstore_service::{Config, Service};
use serde_json::json;

use crate::support::{Bench, Outcome, PUBLISHER, echo};

struct Echo;

impl Model for Echo {
    fn kind(&self) -> &'static str {
        "echo"
    }

    fn run(&self, inputs: &Inputs, _: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let said = inputs.text("say")?.to_owned();
        let picture = Output::File { bytes: said.clone().into_bytes(), mime: "image/png", extension: "png" };
        Ok(vec![("said", Output::Text(said)), ("picture", picture)])
    }
}

#[tokio::test]
async fn a_model_of_ones_own_runs_inside_the_process() -> Outcome {
    let service = Service::start_with_models(Config::ephemeral(), vec![Arc::new(Echo)]).await?;
    let bench = Bench::around(service).await?;
    bench.service.publish_model(PUBLISHER, echo("echo")?).await?;
    let task = bench.create("echo", json!({ "say": "hello" })).await?;
    let ended = loop {
        let read = bench.task(&task).await?;
        if read["status"] == "success" || read["status"] == "failed" {
            break read;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(ended["result"]["result"]["said"], "hello");
    assert_eq!(bench.get_as_publisher("/api-key/balance").await?["earnings"], "0.25");
    Ok(())
}
