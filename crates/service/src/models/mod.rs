//! The table of models that this process can run, by the identifier under which the catalog lists them.

use std::collections::BTreeMap;
use std::sync::Arc;

use inferstore_models::{Model, built_in};

/// The models of this process, by identifier.
pub(crate) type Models = BTreeMap<String, Arc<dyn Model>>;

/// Returns the built-in models and `further` ones; a further model replaces a built-in one of its kind.
pub(crate) fn table(further: Vec<Arc<dyn Model>>) -> Models {
    built_in().into_iter().chain(further).map(|model| (model.kind().to_owned(), model)).collect()
}
