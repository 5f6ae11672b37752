//! The catalog, and what one model says of itself.

use futures_util::Stream;
use inferstore_api::types::{
    self, ModelId, ModelListRequest, ModelSummary, ModelVersioning, ServingStatus, TaskCost,
};

use crate::client::Client;
use crate::resources::page::{self, Page};
use crate::resources::segment::identifier;
use crate::transport::call::Call;
use crate::transport::deadline::Deadline;
use crate::transport::error::Result;

/// How many records a stream asks for at once, unless the query says otherwise. The service does not
/// tell the most that it accepts; this is far below any plausible limit.
const RECORDS_PER_PAGE: u32 = 50;

/// The catalog of models.
#[derive(Clone, Debug)]
pub struct Models {
    client: Client,
}

/// One model, by its identifier. Making the handle sends nothing.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) client: Client,
    id: String,
}

impl Client {
    /// The catalog of models.
    pub fn models(&self) -> Models {
        Models { client: self.clone() }
    }

    /// The model with this identifier.
    pub fn model(&self, id: impl ToString) -> Model {
        Model { client: self.clone(), id: id.to_string() }
    }
}

impl Models {
    /// All models that match, as a stream that reads page after page.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// use futures_util::TryStreamExt;
    /// use inferstore::types::{ModelListRequest, ModelSort};
    ///
    /// let query = ModelListRequest { sort: Some(ModelSort::Trending), ..Default::default() };
    /// let mut models = std::pin::pin!(client.models().list(query));
    /// while let Some(model) = models.try_next().await? {
    ///     println!("{} costs {:?}", model.id, model.price);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `limit` is the size of a page and `offset` where to begin. The stream ends with its first error.
    pub fn list(&self, query: ModelListRequest) -> impl Stream<Item = Result<ModelSummary>> + Send + use<> {
        let (models, first) = (self.clone(), query.offset.unwrap_or(0));
        page::records(first, move |position| {
            let (models, query) = (models.clone(), query.clone());
            async move {
                let limit = query.limit.or(Some(RECORDS_PER_PAGE));
                models.page(&ModelListRequest { limit, offset: Some(position.offset), ..query }).await
            }
        })
    }

    /// One page of the models that match.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub async fn page(&self, query: &ModelListRequest) -> Result<Page<ModelSummary>> {
        let client = &*self.client.inner;
        let page = Call::repeatable("listModels").send(client, || client.api.list_models(query)).await?;
        Ok(Page::new(page.records, page.total))
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
    pub async fn get(&self) -> Result<types::ModelDetail> {
        let (client, id) = (&*self.client.inner, &self.checked_id()?);
        Call::repeatable("getModel").send(client, || client.api.get_model(id)).await
    }

    /// What one run costs.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub async fn cost(&self) -> Result<TaskCost> {
        self.cost_until(Deadline::never()).await
    }

    pub(crate) async fn cost_until(&self, deadline: Deadline) -> Result<TaskCost> {
        let (client, id) = (&*self.client.inner, &self.checked_id()?);
        Call::repeatable("getModelCost").until(deadline).send(client, || client.api.get_model_cost(id)).await
    }

    /// Whether a node serves the model now.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub async fn serving(&self) -> Result<ServingStatus> {
        self.serving_until(Deadline::never()).await
    }

    pub(crate) async fn serving_until(&self, deadline: Deadline) -> Result<ServingStatus> {
        let (client, id) = (&*self.client.inner, &self.checked_id()?);
        Call::repeatable("getModelServing")
            .until(deadline)
            .send(client, || client.api.get_model_serving(id))
            .await
    }

    /// The active version with its declared inputs and outputs, read anew.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub async fn versioning(&self) -> Result<ModelVersioning> {
        let (client, id) = (&*self.client.inner, &self.checked_id()?);
        Call::repeatable("getModelVersioning").send(client, || client.api.get_model_versioning(id)).await
    }
}
