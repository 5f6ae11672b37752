//! A JSON scalar as it came: its exact text, and whether it stood in quotes. Everything that must
//! not lose a digit, a stamp or a shape on its way through serde is read and written by this.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;

/// The name under which serde_json hands out the untouched text of a value. A format that does not
/// know it hands out the value itself, which is then as exact as that format is.
pub(crate) const RAW_TEXT: &str = "$serde_json::private::RawValue";

/// What an unquoted `null` is written as.
const NULL: &str = "null";

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Scalar {
    text: String,
    quoted: bool,
}

impl Scalar {
    pub(crate) fn quoted(text: impl Into<String>) -> Self {
        Self { text: text.into(), quoted: true }
    }

    /// The text must be JSON.
    pub(crate) fn unquoted(text: impl Into<String>) -> Self {
        Self { text: text.into(), quoted: false }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    pub(crate) fn is_quoted(&self) -> bool {
        self.quoted
    }

    pub(crate) fn is_null(&self) -> bool {
        !self.quoted && self.text == NULL
    }

    /// Whether it is an array or an object after all.
    pub(crate) fn is_compound(&self) -> bool {
        !self.quoted && self.text.starts_with(['[', '{'])
    }
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.quoted { fmt::Debug::fmt(&self.text, f) } else { f.write_str(&self.text) }
    }
}

impl Serialize for Scalar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.quoted {
            return serializer.serialize_str(&self.text);
        }
        // Where the plain way is exact it is taken, since every format knows it.
        match self.text.parse::<i64>() {
            Ok(number) if number.to_string() == self.text => serializer.serialize_i64(number),
            _ => RawValue::from_string(self.text.clone()).map_err(S::Error::custom)?.serialize(serializer),
        }
    }
}

/// How many digits the service reads behind a point.
const MAX_FRACTION_DIGITS: usize = 18;

/// Writes a number as the string that the service expects: plain digits, rounded where a float has more of
/// them than the service reads. Generated fields name it in `serialize_with`.
pub(crate) fn as_string<T: fmt::Display, S: Serializer>(
    number: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut text = number.to_string();
    if text.split_once('.').is_some_and(|(_, fraction)| fraction.len() > MAX_FRACTION_DIGITS) {
        let rounded = format!("{number:.MAX_FRACTION_DIGITS$}");
        text = rounded.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    if text == "-0" {
        text.remove(0);
    }
    if !text.ends_with(|last: char| last.is_ascii_digit()) {
        return Err(S::Error::custom(format_args!("{text} is not a finite number")));
    }
    serializer.serialize_str(&text)
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(RAW_TEXT, ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a number or a truth value")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Scalar, A::Error> {
        let raw = Box::<RawValue>::deserialize(MapAccessDeserializer::new(map))?;
        let text = raw.get();
        if text.starts_with('"') {
            serde_json::from_str::<String>(text).map(Scalar::quoted).map_err(de::Error::custom)
        } else {
            Ok(Scalar::unquoted(text))
        }
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::quoted(text))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::unquoted(value.to_string()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::unquoted(number.to_string()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar::unquoted(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Scalar, E> {
        serde_json::to_string(&number).map(Scalar::unquoted).map_err(de::Error::custom)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Scalar, E> {
        Ok(Scalar::unquoted(NULL))
    }

    fn visit_none<E: de::Error>(self) -> Result<Scalar, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(self)
    }
}
