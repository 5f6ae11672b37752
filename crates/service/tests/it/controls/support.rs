//! Bench: a service with test controls, and a caller of its API.

use std::ops::Deref;
use std::time::{Duration, Instant};

use inferstore_service::{Config, Controls, Service};
use serde_json::{Value, json};

pub(crate) use crate::caller::{Caller, TestResult};

pub(crate) const MODEL: &str = "color-extraction";

fn input() -> Value {
    json!({"input": "https://files.example/street.png"})
}

pub(crate) struct Bench {
    pub(crate) service: Service,
    pub(crate) controls: Controls,
    pub(crate) caller: Caller,
}

impl Deref for Bench {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Bench {
    pub(crate) async fn start() -> TestResult<Self> {
        Self::with(Config::ephemeral().with_controls()).await
    }

    pub(crate) async fn with(config: Config) -> TestResult<Self> {
        let service = Service::start(config).await?;
        let controls = service.controls()?;
        let caller = Caller::new(&service, service.api_key().unwrap_or_default())?;
        Ok(Self { service, controls, caller })
    }

    pub(crate) async fn create(&self) -> TestResult<String> {
        self.caller.create(MODEL, input()).await
    }

    pub(crate) async fn try_create(&self) -> TestResult<(u16, Value)> {
        self.caller.try_create(MODEL, &input()).await
    }

    pub(crate) async fn until(&self, id: &str, statuses: &[&str]) -> TestResult<Value> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(30) {
            let task = self.task(id).await?;
            if statuses.iter().any(|status| task["status"] == *status) {
                return Ok(task);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(format!("{id} never came to be one of {statuses:?}").into())
    }

    pub(crate) async fn tasks(&self) -> TestResult<u64> {
        Ok(self.get("/api-key/task/histories").await?["total"].as_u64().unwrap_or_default())
    }

    pub(crate) async fn balance(&self) -> TestResult<Value> {
        self.get("/api-key/balance").await
    }

    pub(crate) async fn audit(&self) -> TestResult {
        let faults = self.service.audit().await?.faults;
        if faults.is_empty() { Ok(()) } else { Err(faults.join("\n").into()) }
    }
}
