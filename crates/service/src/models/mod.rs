//! The models that this process can run, by the identifier under which the catalog lists them.

use std::collections::BTreeMap;
use std::sync::Arc;

use inferstore_models::{Error, Inputs, Limits, Output, built_in};

/// Something that runs one model: turns inputs into outputs, on a thread of its own.
pub(crate) trait Runner: Send + Sync {
    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(String, Output)>, Error>;
}

/// A built-in model.
struct BuiltIn(&'static dyn inferstore_models::Model);

impl Runner for BuiltIn {
    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(String, Output)>, Error> {
        let outputs = self.0.run(inputs, limits)?;
        Ok(outputs.into_iter().map(|(name, output)| (name.to_owned(), output)).collect())
    }
}

/// The runners of this process, by model.
pub(crate) type Runners = BTreeMap<String, Arc<dyn Runner>>;

/// One runner for every built-in model.
pub(crate) fn built_in_runners() -> Runners {
    let runner = |model: &&'static dyn inferstore_models::Model| -> (String, Arc<dyn Runner>) {
        (model.kind().to_owned(), Arc::new(BuiltIn(*model)))
    };
    built_in().iter().map(runner).collect()
}
