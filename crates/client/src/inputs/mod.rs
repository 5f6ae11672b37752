//! Inputs of a run: values of any kind, and files that are uploaded on the way.

mod check;
mod names;
mod shown;
mod violation;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

pub(crate) use check::{Candidate, check};
pub use violation::{InvalidInputs, Problem, Violation};

use crate::files::source::File;
use crate::transport::error::{Error, Result};

/// The inputs of a run, by the names that the model declares.
///
/// ```
/// use inferstore::Inputs;
///
/// let inputs = Inputs::new().file("input_image", "photo.jpg").set("template", "v_shape").set("angle", 30);
/// ```
///
/// They are checked against what the model declares before anything is sent, and each is brought to
/// the spelling that the model wants: `30` goes out as `"30"` where the samples are strings.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    fields: BTreeMap<String, Input>,
    /// Values that are not JSON, told when the inputs are used.
    broken: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Input {
    Value(Value),
    File(File),
}

impl Inputs {
    /// No inputs yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a parameter to a value: a number, a word, a URL, anything that serializes.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        let name = name.into();
        match as_json(value) {
            Ok(value) => drop(self.fields.insert(name, Input::Value(value))),
            Err(error) => self.broken.push(format!("{name} cannot be written as JSON: {error}")),
        }
        self
    }

    /// Sets a parameter to a file, which is uploaded and replaced by its URL: a path, or any
    /// [`File`].
    #[must_use]
    pub fn file(mut self, name: impl Into<String>, file: impl Into<File>) -> Self {
        self.fields.insert(name.into(), Input::File(file.into()));
        self
    }

    /// The fields of anything that serializes to a JSON object, such as the input of a model kind.
    pub(crate) fn of(value: &impl Serialize) -> Result<Self> {
        match as_json(value) {
            Ok(Value::Object(fields)) => Ok(Self {
                fields: fields.into_iter().map(|(name, value)| (name, Input::Value(value))).collect(),
                broken: Vec::new(),
            }),
            Ok(_) => Err(Error::InvalidArgument("inputs must serialize to a JSON object".to_owned())),
            Err(error) => {
                Err(Error::InvalidArgument(format!("the inputs cannot be written as JSON: {error}")))
            }
        }
    }

    /// The fields, if all of them can be sent.
    pub(crate) fn into_fields(self) -> Result<BTreeMap<String, Input>> {
        match self.broken.first() {
            None => Ok(self.fields),
            Some(problem) => Err(Error::InvalidArgument(problem.clone())),
        }
    }
}

/// The value as JSON, with the digits that its author would write: `0.1_f32` is 0.1, while
/// `to_value` alone would make it an `f64` and 0.10000000149011612 of it.
fn as_json(value: impl Serialize) -> serde_json::Result<Value> {
    // Only this one refuses a number that no JSON value can hold.
    serde_json::to_value(&value)?;
    serde_json::from_str(&serde_json::to_string(&value)?)
}

/// What a run can be given: [`Inputs`], or anything that serializes to a JSON object: the input of a
/// model kind, a type of your own, a `serde_json::Value`.
pub trait IntoInputs {
    /// The inputs.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the value does not serialize to a JSON object.
    fn into_inputs(self) -> Result<Inputs>;
}

impl IntoInputs for Inputs {
    fn into_inputs(self) -> Result<Inputs> {
        Ok(self)
    }
}

impl<T: Serialize> IntoInputs for T {
    fn into_inputs(self) -> Result<Inputs> {
        Inputs::of(&self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(value: impl Serialize) -> Option<Value> {
        match Inputs::new().set("x", value).into_fields().ok()?.remove("x")? {
            Input::Value(value) => Some(value),
            Input::File(_) => None,
        }
    }

    #[test]
    fn a_number_is_sent_with_the_digits_that_it_was_written_with() {
        assert_eq!(set(0.1_f32), Some(json!(0.1)));
        assert_eq!(set([0.1_f32, 2.5e-7, 16_777_216.0]), Some(json!([0.1, 2.5e-7, 16_777_216.0])));
        for number in [0.1, 1.0 / 3.0, 2.2250738585072014e-308, f64::MAX, 9_007_199_254_740_993.0] {
            assert_eq!(set(number), Some(json!(number)));
        }
        assert_eq!(set(u64::MAX), Some(json!(u64::MAX)));
        assert_eq!(set(u128::MAX), None, "no JSON value holds it");
    }

    #[test]
    fn fields_of_a_type_of_ones_own_are_sent_in_the_same_way() -> Result<()> {
        #[derive(Serialize)]
        struct Own {
            strength: f32,
        }
        let fields = Own { strength: 0.3 }.into_inputs()?.into_fields()?;
        assert!(matches!(&fields["strength"], Input::Value(value) if *value == json!(0.3)), "{fields:?}");
        Ok(())
    }
}
