//! JSON scalar as received: its exact text, and whether it was quoted. Lossless basis of decimals, timestamps
//! and samples.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;
use smol_str::SmolStr;

/// Name of the newtype with which serde_json passes raw text. Other formats ignore the name and pass the
/// value, with their own precision.
pub(crate) const RAW_TEXT: &str = "$serde_json::private::RawValue";

/// Text of an unquoted `null`.
const NULL: &str = "null";

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Scalar {
    /// `SmolStr`, because amounts are short: no allocation per amount.
    text: SmolStr,
    quoted: bool,
}

impl Scalar {
    pub(crate) fn quoted(text: impl Into<SmolStr>) -> Self {
        Self { text: text.into(), quoted: true }
    }

    /// Wraps JSON text.
    pub(crate) fn unquoted(text: impl Into<SmolStr>) -> Self {
        Self { text: text.into(), quoted: false }
    }

    /// Unquotes and unescapes a string; other JSON stays unchanged.
    fn from_json(json: &str) -> serde_json::Result<Self> {
        match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            None => Ok(Self::unquoted(json)),
            Some(text) if !text.as_bytes().contains(&b'\\') => Ok(Self::quoted(text)),
            Some(_) => serde_json::from_str::<String>(json).map(Self::quoted),
        }
    }

    /// Returns another text, quoted like this one.
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
        // Prefers `i64` where it is exact, because every format supports it.
        match self.text.parse::<i64>() {
            Ok(number) if number.to_string() == self.text => serializer.serialize_i64(number),
            _ => {
                RawValue::from_string(self.text.to_string()).map_err(S::Error::custom)?.serialize(serializer)
            }
        }
    }
}

/// Number of decimal places that the service reads.
const MAX_FRACTION_DIGITS: usize = 18;

/// Serializes a number as the string that the service expects: plain digits, rounded to
/// `MAX_FRACTION_DIGITS`. Generated fields name this function in `serialize_with`.
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

    /// serde_json passes the raw text as the only value of a map.
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

/// Raw text of serde_json: borrowed from a slice, owned from a reader.
#[derive(serde::Deserialize)]
struct RawText<'a> {
    #[serde(borrow, rename = "$serde_json::private::RawValue")]
    json: Cow<'a, str>,
}
