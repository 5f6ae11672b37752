//! Models that this process can run, by their identifier in the catalog, and the worker process of the built-in models.

mod failed;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use inferstore_models::{Input, Limits, Model, built_in, largest_picture};
use serde_json::Value;

pub(crate) use failed::{Failed, NODE};
#[cfg(unix)]
pub(crate) use worker::Request;
pub use worker::serve_models;

pub(crate) struct Runner {
    pub(crate) model: Arc<dyn Model>,
    /// True for built-in models. A model of the embedding program runs in this process, where the program created it.
    pub(crate) is_built_in: bool,
}

pub(crate) type Models = BTreeMap<String, Runner>;

/// Returns the limits of a run without a deadline. Its largest picture is the one that the catalog declares.
pub(crate) fn run_limits(model: &dyn Model, pixels: u64, memory: u64) -> Limits {
    let limits = Limits { pixels, memory, deadline: None };
    Limits { pixels: largest_picture(model, &limits).unwrap_or(pixels), ..limits }
}

pub(crate) fn without_file(value: &Value) -> Input {
    match value {
        Value::String(text) => Input::Text(text.clone()),
        Value::Number(number) => Input::Number(number.as_f64().unwrap_or(f64::NAN)),
        other => Input::Text(other.to_string()),
    }
}

/// Returns the built-in models without the excluded ones, and `further` models, which replace those of their kind.
pub(crate) fn table(excluded: &BTreeSet<String>, further: Vec<Arc<dyn Model>>) -> Models {
    let built_in = built_in();
    for unknown in excluded.iter().filter(|name| built_in.iter().all(|model| model.kind() != name.as_str())) {
        let names: Vec<&str> = built_in.iter().map(|model| model.kind()).collect();
        tracing::warn!("no built-in model is called {unknown:?}; there are: {}", names.join(", "));
    }
    let built_in = built_in.into_iter().filter(|model| !excluded.contains(model.kind()));
    let built_in = built_in.map(|model| Runner { model, is_built_in: true });
    let further = further.into_iter().map(|model| Runner { model, is_built_in: false });
    built_in.chain(further).map(|runner| (runner.model.kind().to_owned(), runner)).collect()
}
