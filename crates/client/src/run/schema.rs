//! What models declare, remembered for a while.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use inferstore_api::types::Descriptor;
use tokio::time::Instant;

use crate::resources::models::Model;
use crate::transport::call::Call;
use crate::transport::deadline::Deadline;
use crate::transport::error::Result;

/// The declared inputs of a model, by name.
pub(crate) type Declared = Arc<BTreeMap<String, Descriptor>>;

/// The declared inputs of the models that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Schemas(Mutex<HashMap<String, (Instant, Declared)>>);

impl Schemas {
    fn get(&self, model: &str, lifetime: Duration) -> Option<Declared> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (read, declared) = known.get(model)?;
        (read.elapsed() < lifetime).then(|| Arc::clone(declared))
    }

    fn put(&self, model: &str, declared: &Declared) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(model.to_owned(), (Instant::now(), Arc::clone(declared)));
    }

    fn forget(&self, model: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(model);
    }
}

impl Model {
    /// What the model declares as its inputs, read at most once in a while.
    pub(crate) async fn declared(&self, deadline: Deadline) -> Result<Declared> {
        let client = &*self.client.inner;
        if let Some(declared) = client.schemas.get(self.id(), client.settings.schema_cache_ttl) {
            return Ok(declared);
        }
        self.declared_now(deadline).await
    }

    /// What the model declares now, after something hinted that it may have changed.
    pub(crate) async fn declared_now(&self, deadline: Deadline) -> Result<Declared> {
        let (client, id) = (&*self.client.inner, &self.checked_id()?);
        client.schemas.forget(self.id());
        let call = Call::repeatable("getModelVersioning").until(deadline);
        let version = call.send(client, || client.api.get_model_versioning(id)).await?;
        let declared = Arc::new(version.input_format.unwrap_or_default());
        client.schemas.put(self.id(), &declared);
        Ok(declared)
    }
}
