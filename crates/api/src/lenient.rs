//! How the generated types read an answer: a number where a string was announced, a string where a
//! number was, a null where a value was. None of them changes what the answer says, so none of them
//! may lose it. The generated fields name these functions in `deserialize_with`.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::decimal::whole;
use crate::scalar::{RAW_TEXT, Scalar};

/// A type that can be read from the text of a scalar.
pub(crate) trait FromScalar: Sized {
    /// What a text has to be, for error messages.
    const EXPECTED: &'static str;

    fn from_scalar(scalar: Scalar) -> Option<Self>;
}

impl FromScalar for String {
    const EXPECTED: &'static str = "a text";

    fn from_scalar(scalar: Scalar) -> Option<Self> {
        Some(scalar.into_text())
    }
}

macro_rules! from_scalar_by_parsing {
    ($($type:ty: $expected:literal),+) => {
        $(impl FromScalar for $type {
            const EXPECTED: &'static str = $expected;

            fn from_scalar(scalar: Scalar) -> Option<Self> {
                scalar.text().trim().parse().ok()
            }
        })+
    };
}

from_scalar_by_parsing!(bool: "true or false", f64: "a number");

macro_rules! from_whole_number {
    ($($type:ty: $expected:literal),+) => {
        $(impl FromScalar for $type {
            const EXPECTED: &'static str = $expected;

            /// JSON knows no whole numbers: `5.0` says the same as `5`.
            fn from_scalar(scalar: Scalar) -> Option<Self> {
                let text = scalar.text().trim();
                text.parse().ok().or_else(|| whole(text)?.parse().ok())
            }
        })+
    };
}

from_whole_number!(
    i64: "a whole number",
    u32: "a whole number that is not negative",
    u64: "a whole number that is not negative"
);

fn convert<E: Error, T: FromScalar>(scalar: Scalar) -> Result<T, E> {
    if scalar.is_compound() || scalar.is_null() {
        return Err(E::custom(format_args!("expected {}", T::EXPECTED)));
    }
    T::from_scalar(scalar).ok_or_else(|| E::custom(format_args!("expected {}", T::EXPECTED)))
}

/// A value that must be there.
pub(crate) fn required<'de, D: Deserializer<'de>, T: FromScalar>(deserializer: D) -> Result<T, D::Error> {
    convert(Scalar::deserialize(deserializer)?)
}

/// A value that may be null.
pub(crate) fn optional<'de, D: Deserializer<'de>, T: FromScalar>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let scalar = Scalar::deserialize(deserializer)?;
    if scalar.is_null() { Ok(None) } else { convert(scalar).map(Some) }
}

/// A list that may be null; a null in it says nothing and is left out.
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let list = Option::<Vec<Option<T>>>::deserialize(deserializer)?;
    Ok(list.map(|list| list.into_iter().flatten().collect()))
}

/// A list of texts that may be null, with numbers read as texts.
pub(crate) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let scalars: Option<Vec<Scalar>> = list(deserializer)?;
    scalars.map(|list| list.into_iter().map(convert).collect()).transpose()
}

/// A map that may be null; a null in it still says that its name is there.
pub(crate) fn map<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, T>>, D::Error> {
    let map = Option::<BTreeMap<String, Option<T>>>::deserialize(deserializer)?;
    Ok(map.map(|map| map.into_iter().map(|(name, value)| (name, value.unwrap_or_default())).collect()))
}

/// Something that only helps: where it cannot be read, it is as if it were not there.
pub(crate) fn advisory<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_newtype_struct(RAW_TEXT, Advisory(PhantomData))
}

struct Advisory<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for Advisory<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    /// serde_json, with the untouched text: no digit is lost.
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
        let text = Box::<RawValue>::deserialize(MapAccessDeserializer::new(map))?;
        // serde would read a list as an object whose names were left out.
        let is_list = text.get().starts_with('[');
        Ok(if is_list { None } else { serde_json::from_str(text.get()).unwrap_or_default() })
    }

    /// Any other format, such as serde's own buffer behind `flatten`.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Readable<T> {
            Fits(Option<T>),
            Other(IgnoredAny),
        }
        Ok(match Readable::deserialize(deserializer)? {
            Readable::Fits(value) => value,
            Readable::Other(_) => None,
        })
    }
}
