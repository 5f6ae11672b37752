//! Handle of one model.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use inferstore_api::types::{ModelDetail, ModelVersioning, ServingStatus, TaskCost};
use inferstore_api::{ModelKind, operations};

use crate::inputs::{Input, Inputs};
use crate::run::{Outcome, PreparedRun, Run};
use crate::transport::{Core, Deadline, Result, model_id};

/// Handle of one model, by its identifier. Making the handle sends nothing.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) core: Arc<Core>,
    pub(crate) id: String,
}

impl Model {
    /// Returns the identifier as given.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Runs the model. The run starts when it is awaited.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// use inferstore::{File, Inputs};
    ///
    /// let inputs = Inputs::new().file("input", File::path("photo.jpg"));
    /// let outcome = client.model("background-removal").run(inputs).await?;
    /// println!("{}", outcome.url("output")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(&self, inputs: impl Into<Inputs>) -> Run {
        Run::new(Arc::clone(&self.core), self.id.clone(), Ok(inputs.into()), Ok)
    }

    /// Runs a model of a known kind, with typed inputs and outputs. A file is a path, a URL or a [`File`](crate::File).
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// use inferstore::{File, types::ColorExtractionInput};
    ///
    /// let input = ColorExtractionInput { input: File::path("photo.jpg") }; // or a `PathBuf`, or a URL as text
    /// let outcome = client.model("color-extraction").run_typed(input).await?;
    /// println!("{}", outcome.output.output);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The run fails with [`Error::OutputType`](crate::Error::OutputType) if the model returns something else.
    pub fn run_typed<K: ModelKind<File: Into<Input>>>(&self, input: K) -> Run<K::Output> {
        let inputs = input.into_parts().map(|(values, files)| {
            files.into_iter().fold(Inputs::from(values), |inputs, (name, file)| inputs.file(name, file))
        });
        let inputs = inputs.map_err(|error| format!("the inputs cannot be written as JSON: {error}"));
        Run::new(Arc::clone(&self.core), self.id.clone(), inputs, Outcome::typed)
    }

    /// Checks the inputs and uploads the files: see [`Run::prepare`].
    pub fn prepare(&self, inputs: impl Into<Inputs>) -> BoxFuture<'static, Result<PreparedRun>> {
        self.run(inputs).prepare()
    }

    /// Returns the full record.
    pub fn get(&self) -> BoxFuture<'static, Result<ModelDetail>> {
        let model = self.clone();
        Box::pin(async move {
            let id = model_id(&model.id)?;
            model.core.call(operations::GET_MODEL).send(|api| api.get_model(&id)).await
        })
    }

    /// Returns the price of one run.
    pub fn cost(&self) -> BoxFuture<'static, Result<TaskCost>> {
        let model = self.clone();
        async move { model.core.model_cost(&model_id(&model.id)?, Deadline::never()).await }.boxed()
    }

    /// Returns whether a node serves the model now.
    pub fn serving(&self) -> BoxFuture<'static, Result<ServingStatus>> {
        let model = self.clone();
        async move { model.core.model_serving(&model_id(&model.id)?, Deadline::never()).await }.boxed()
    }

    /// Returns the active version with its declared inputs and outputs, bypassing the cache.
    pub fn versioning(&self) -> BoxFuture<'static, Result<ModelVersioning>> {
        let model = self.clone();
        async move { model.core.versioning(&model_id(&model.id)?, Deadline::never()).await }.boxed()
    }
}
