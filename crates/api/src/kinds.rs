//! Model kinds: the pairing of input and output types.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::lenient;
use crate::types::TaskInput;

/// Values of an input without its files, and the files by field name; an error if a value cannot be
/// serialized.
pub type KindParts<F> = serde_json::Result<(Map<String, Value>, Vec<(&'static str, F)>)>;

/// A model kind of the catalog, implemented by the type of its input.
///
/// The files of an input are URLs by default. They can be of any other type, such as a path, which
/// [`into_parts`](Self::into_parts) returns for an upload:
///
/// ```
/// use std::path::PathBuf;
/// use inferstore_api::{ModelKind, types};
///
/// let input = types::FaceDetectionInput {
///     input: PathBuf::from("crowd.jpg"),
///     model: types::FaceDetectionModel::ShortRange,
///     confidence: 0.5,
/// };
/// let (values, files) = input.into_parts()?;
/// assert_eq!(values["confidence"], "0.5");
/// assert_eq!(files, [("input", PathBuf::from("crowd.jpg"))]);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub trait ModelKind {
    /// Name of the kind in the document. Not the identifier of a model: a catalog may have several models of
    /// one kind.
    const NAME: &'static str;

    /// Output type of the kind.
    type Output: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Type of the input files.
    type File;

    /// Separates the files from the other inputs. An absent optional file is in neither part.
    ///
    /// # Errors
    ///
    /// A value cannot be written as JSON, such as a number that is not finite.
    fn into_parts(self) -> KindParts<Self::File>;
}

/// Serializes the values and separates the files, for implementations of [`ModelKind::into_parts`]. In
/// `values`, any placeholder may stand for a file.
///
/// # Errors
///
/// The values cannot be written as a JSON object.
pub fn kind_parts<F, const N: usize>(
    values: &impl Serialize,
    files: [(&'static str, Option<F>); N],
) -> KindParts<F> {
    let mut values: Map<String, Value> = Map::deserialize(serde_json::to_value(values)?)?;
    for (name, _) in &files {
        values.remove(*name);
    }
    let files = files.into_iter().filter_map(|(name, file)| Some((name, file?)));
    Ok((values, files.collect()))
}

impl TaskInput {
    /// Writes an input of a known kind as the body of `create_task`, with numbers as the strings that travel.
    ///
    /// ```
    /// use inferstore_api::types::{ColorHarmonizationInput, HarmonizationTemplate, TaskInput};
    ///
    /// let input_image = "https://files.example/street.png".to_owned();
    /// let input = ColorHarmonizationInput { input_image, template: HarmonizationTemplate::VShape, angle: 30 };
    /// assert_eq!(TaskInput::from_typed(&input)?["angle"], "30");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A value cannot be written as JSON, such as a number that is not finite.
    pub fn from_typed(input: &(impl ModelKind<File = String> + Serialize)) -> serde_json::Result<Self> {
        Map::deserialize(serde_json::to_value(input)?).map(Self)
    }
}

/// Deserializes a file of an input from its URL.
pub(crate) fn file<'de, D: Deserializer<'de>, F: From<String>>(deserializer: D) -> Result<F, D::Error> {
    lenient::required::<D, String>(deserializer).map(F::from)
}

/// Deserializes an optional file from its URL.
#[expect(clippy::allow_attributes, reason = "whether it is used depends on the document")]
#[allow(dead_code, reason = "only a kind with an optional file uses it")]
pub(crate) fn optional_file<'de, D: Deserializer<'de>, F: From<String>>(
    deserializer: D,
) -> Result<Option<F>, D::Error> {
    Ok(lenient::optional::<D, String>(deserializer)?.map(F::from))
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]
mod tests {
    use serde_json::json;

    use super::{ModelKind, kind_parts};
    use crate::types::{
        ColorHarmonizationInput, FaceDetectionInput, FaceDetectionModel, HarmonizationTemplate,
    };

    /// File type that can only be moved, not serialized or compared.
    struct Upload(&'static str);

    #[test]
    fn files_of_any_type_are_separated_from_the_values() {
        let input = ColorHarmonizationInput {
            input_image: Upload("street.png"),
            template: HarmonizationTemplate::VShape,
            angle: 30,
        };
        let (values, files) = input.into_parts().expect("its values can be written");
        assert_eq!(json!(values), json!({"template": "v_shape", "angle": "30"}));
        let files: Vec<_> = files.into_iter().map(|(name, file)| (name, file.0)).collect();
        assert_eq!(files, [("input_image", "street.png")]);
    }

    #[test]
    fn an_optional_file_that_is_not_given_is_in_neither_part() {
        let values = json!({"image": null, "mask": null, "count": 1});
        let files = [("image", Some(Upload("a.png"))), ("mask", None)];
        let (values, files) = kind_parts(&values, files).expect("it is an object");
        assert_eq!(json!(values), json!({"count": 1}));
        assert_eq!(files.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["image"]);
    }

    #[test]
    fn a_number_that_cannot_be_written_is_an_error() {
        let input =
            FaceDetectionInput { input: (), model: FaceDetectionModel::ShortRange, confidence: f64::NAN };
        let error = input.into_parts().expect_err("it is no number");
        assert_eq!(error.to_string(), "NaN is not a finite number");
    }

    #[test]
    fn an_input_is_read_with_urls_in_place_of_files() {
        let json =
            json!({"input_image": "https://files.example/a.png", "template": "v_shape", "angle": "30"});
        let input: ColorHarmonizationInput = serde_json::from_value(json.clone()).expect("it is an input");
        assert_eq!(input.input_image, "https://files.example/a.png");
        assert_eq!(json!(input), json);
    }
}
