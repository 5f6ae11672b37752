//! A JSON scalar as it came: its exact text, and whether it stood in quotes. Everything that must
//! not lose a digit, a stamp or a shape on its way through serde is read and written by this.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;
use smol_str::SmolStr;

/// The name under which serde_json hands out the untouched text of a value. A format that does not
/// know it hands out the value itself, which is then as exact as that format is.
pub(crate) const RAW_TEXT: &str = "$serde_json::private::RawValue";

/// What an unquoted `null` is written as.
const NULL: &str = "null";

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Scalar {
    /// Amounts are short: without an allocation each.
    text: SmolStr,
    quoted: bool,
}

impl Scalar {
    pub(crate) fn quoted(text: impl Into<SmolStr>) -> Self {
        Self { text: text.into(), quoted: true }
    }

    /// The text must be JSON.
    pub(crate) fn unquoted(text: impl Into<SmolStr>) -> Self {
        Self { text: text.into(), quoted: false }
    }

    /// Takes the quotes and the escapes off a string; anything else stays as it is.
    fn from_json(json: &str) -> serde_json::Result<Self> {
        match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            None => Ok(Self::unquoted(json)),
            Some(text) if !text.as_bytes().contains(&b'\\') => Ok(Self::quoted(text)),
            Some(_) => serde_json::from_str::<String>(json).map(Self::quoted),
        }
    }

    /// Another text in the same form.
    pub(crate) fn with_text(&self, text: String) -> Self {
        Self { text: text.into(), quoted: self.quoted }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_quoted(&self) -> bool {
        self.quoted
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
            _ => {
                RawValue::from_string(self.text.to_string()).map_err(S::Error::custom)?.serialize(serializer)
            }
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

    /// serde_json, with the untouched text as the only value of a map.
    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Scalar, A::Error> {
        let raw = RawText::deserialize(MapAccessDeserializer::new(map));
        let raw = raw.map_err(|_: A::Error| de::Error::invalid_type(Unexpected::Map, &self))?;
        Scalar::from_json(&raw.json).map_err(de::Error::custom)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::quoted(text))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::unquoted(if value { "true" } else { "false" }))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::unquoted(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar::unquoted(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Scalar, E> {
        serde_json::to_string(&number).map(Scalar::unquoted).map_err(E::custom)
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::unquoted(NULL))
    }

    fn visit_none<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::unquoted(NULL))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// What serde_json hands out: text that is borrowed from a slice, owned from a reader.
#[derive(serde::Deserialize)]
struct RawText<'a> {
    #[serde(borrow, rename = "$serde_json::private::RawValue")]
    json: Cow<'a, str>,
}
