//! The models that this process can run, by the identifier under which the catalog lists them.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use inferstore_models::{Error, Inputs, Limits, Model, Output, built_in};

/// Something that runs one model: turns inputs into outputs, on a thread of its own.
pub(crate) trait Runner: Send + Sync {
    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(String, Output)>, Error>;
}

/// A model that has a kind, built in or not.
struct Named<M>(M);

impl<M: Deref<Target = dyn Model> + Send + Sync> Runner for Named<M> {
    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(String, Output)>, Error> {
        let outputs = self.0.run(inputs, limits)?;
        Ok(outputs.into_iter().map(|(name, output)| (name.to_owned(), output)).collect())
    }
}

/// The runners of this process, by model.
pub(crate) type Runners = BTreeMap<String, Arc<dyn Runner>>;

/// One runner for every built-in model, and for every one of these; they come first.
pub(crate) fn runners(models: Vec<Arc<dyn Model>>) -> Runners {
    let built_in = built_in().iter().map(|model| (model.kind().to_owned(), runner(*model)));
    built_in.chain(models.into_iter().map(|model| (model.kind().to_owned(), runner(model)))).collect()
}

fn runner(model: impl Deref<Target = dyn Model> + Send + Sync + 'static) -> Arc<dyn Runner> {
    Arc::new(Named(model))
}
