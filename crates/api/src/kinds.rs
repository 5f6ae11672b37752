//! The pairing of what a model takes with what it returns.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A model kind of the catalog, implemented by the type of its input.
///
/// ```
/// use inferstore_api::{ModelKind, types};
///
/// fn output_of<K: ModelKind>(json: &str) -> serde_json::Result<K::Output> {
///     serde_json::from_str(json)
/// }
///
/// let colors = output_of::<types::ColorExtractionInput>(r##"{"output": "#1f3a5f, #c8b08a"}"##)?;
/// assert_eq!(colors.output, "#1f3a5f, #c8b08a");
/// # Ok::<(), serde_json::Error>(())
/// ```
pub trait ModelKind: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name of the kind in the document. It is not the identifier of a model: a catalog may hold
    /// several models of one kind.
    const NAME: &'static str;

    /// What a run of such a model returns.
    type Output: Serialize + DeserializeOwned + Send + Sync + 'static;
}
