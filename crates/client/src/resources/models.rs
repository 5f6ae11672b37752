//! The catalog of models, and one model by its identifier.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use inferstore_api::operations;
use inferstore_api::types::{
    ModelDetail, ModelId, ModelListRequest, ModelSummary, ModelVersioning, ServingStatus, TaskCost,
};

use crate::memory::DeclaredInputs;
use crate::resources::{Listing, Page, identifier};
use crate::transport::{Core, Deadline, Result};

/// How many records a stream asks for at once, unless the query says otherwise. The document states no
/// limit; this is below any plausible one.
const RECORDS_PER_PAGE: u32 = 50;

/// How long declared inputs are cached.
const DECLARATION_TTL: Duration = Duration::from_secs(300);

/// The catalog of models.
#[derive(Clone, Debug)]
pub struct Models {
    pub(crate) core: Arc<Core>,
}

/// One model, by its identifier. Making the handle sends nothing.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) core: Arc<Core>,
    pub(crate) id: String,
}

impl Models {
    /// All models that match the query, as a stream that reads page after page.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// use inferstore::types::{ModelListRequest, ModelSort};
    ///
    /// let query = ModelListRequest { sort: Some(ModelSort::Trending), ..Default::default() };
    /// let mut models = client.models().list(query);
    /// while let Some(model) = models.next().await {
    ///     let model = model?;
    ///     println!("{} costs {}", model.id, model.price.unwrap_or_default());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `limit` is the size of a page and `offset` where to start. The stream ends with its first error.
    pub fn list(&self, query: ModelListRequest) -> Listing<ModelSummary> {
        let models = self.clone();
        let limit = query.limit.or(Some(RECORDS_PER_PAGE));
        Listing::new(query.offset.unwrap_or(0), move |offset| {
            models.page(ModelListRequest { limit, offset: Some(offset), ..query.clone() })
        })
    }

    /// One page of the models that match the query.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub fn page(&self, query: ModelListRequest) -> BoxFuture<'static, Result<Page<ModelSummary>>> {
        let core = Arc::clone(&self.core);
        async move {
            let page = core.call(operations::LIST_MODELS).send(|api| api.list_models(&query)).await?;
            Ok(Page::new(page.records, page.total))
        }
        .boxed()
    }
}

impl Model {
    /// The identifier, as it was given.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn checked_id(&self) -> Result<ModelId> {
        identifier("identifier of a model", &self.id)
    }

    /// The full record.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub fn get(&self) -> BoxFuture<'static, Result<ModelDetail>> {
        let model = self.clone();
        async move {
            let id = model.checked_id()?;
            model.core.call(operations::GET_MODEL).send(|api| api.get_model(&id)).await
        }
        .boxed()
    }

    /// The price of one run.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub fn cost(&self) -> BoxFuture<'static, Result<TaskCost>> {
        let model = self.clone();
        async move { model.cost_until(Deadline::never()).await }.boxed()
    }

    pub(crate) async fn cost_until(&self, deadline: Deadline) -> Result<TaskCost> {
        let id = self.checked_id()?;
        let call = self.core.call(operations::GET_MODEL_COST).until(deadline);
        call.send(|api| api.get_model_cost(&id)).await
    }

    /// Whether a node serves the model now.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub fn serving(&self) -> BoxFuture<'static, Result<ServingStatus>> {
        let model = self.clone();
        async move { model.serving_until(Deadline::never()).await }.boxed()
    }

    pub(crate) async fn serving_until(&self, deadline: Deadline) -> Result<ServingStatus> {
        let id = self.checked_id()?;
        let call = self.core.call(operations::GET_MODEL_SERVING).until(deadline);
        call.send(|api| api.get_model_serving(&id)).await
    }

    /// The active version with its declared inputs and outputs, read anew.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub fn versioning(&self) -> BoxFuture<'static, Result<ModelVersioning>> {
        let model = self.clone();
        async move { model.versioning_until(Deadline::never()).await }.boxed()
    }

    async fn versioning_until(&self, deadline: Deadline) -> Result<ModelVersioning> {
        let id = self.checked_id()?;
        let call = self.core.call(operations::GET_MODEL_VERSIONING).until(deadline);
        call.send(|api| api.get_model_versioning(&id)).await
    }

    /// The declared inputs, if the cache has fresh ones.
    pub(crate) fn declared_before(&self) -> Option<DeclaredInputs> {
        self.core.memory.declarations.get(&self.id, DECLARATION_TTL)
    }

    /// The declared inputs, read anew.
    pub(crate) async fn declared(&self, deadline: Deadline) -> Result<DeclaredInputs> {
        let version = self.versioning_until(deadline).await?;
        let declared = DeclaredInputs::new(version.input_format.unwrap_or_default());
        self.core.memory.declarations.insert(self.id.clone(), Arc::clone(&declared));
        Ok(declared)
    }
}
