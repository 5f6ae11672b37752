//! A JSON scalar as it came: its exact text, and whether it stood in quotes. Everything that must
//! not lose a digit, a stamp or a shape on its way through serde is read and written by this.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, Unexpected, Visitor};
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
        read(deserializer, |token| Ok::<_, Infallible>(token.into_scalar()))
    }
}

/// A JSON value while it is being read. Text without escapes is borrowed from the body, so that it is
/// copied once: into the field that keeps it.
pub(crate) struct Token<'a> {
    text: Cow<'a, str>,
    is_quoted: bool,
}

impl<'a> Token<'a> {
    #[inline]
    fn quoted(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: text.into(), is_quoted: true }
    }

    #[inline]
    fn unquoted(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: text.into(), is_quoted: false }
    }

    /// Takes the quotes and the escapes off a string; anything else stays as it is.
    #[inline]
    fn from_json(json: &'a str) -> serde_json::Result<Self> {
        let Some(inner) = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
            return Ok(Self::unquoted(json));
        };
        if inner.as_bytes().contains(&b'\\') {
            serde_json::from_str::<String>(json).map(Self::quoted)
        } else {
            Ok(Self::quoted(inner))
        }
    }

    #[inline]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    #[inline]
    pub(crate) fn into_scalar(self) -> Scalar {
        Scalar { quoted: self.is_quoted, text: SmolStr::from(self.text) }
    }
}

/// Reads one value by its exact text and converts it.
pub(crate) fn read<'de, D, T, E>(
    deserializer: D,
    convert: impl FnOnce(Token<'_>) -> Result<T, E>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    E: fmt::Display,
{
    deserializer.deserialize_newtype_struct(RAW_TEXT, TokenVisitor(convert))
}

struct TokenVisitor<F>(F);

impl<F> TokenVisitor<F> {
    #[inline]
    fn convert<T, P, E>(self, token: Token<'_>) -> Result<T, E>
    where
        F: FnOnce(Token<'_>) -> Result<T, P>,
        P: fmt::Display,
        E: de::Error,
    {
        (self.0)(token).map_err(E::custom)
    }
}

impl<'de, F, T, P> Visitor<'de> for TokenVisitor<F>
where
    F: FnOnce(Token<'_>) -> Result<T, P>,
    P: fmt::Display,
{
    type Value = T;

    #[inline]
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a number or a truth value")
    }

    /// serde_json, with the untouched text as the only value of a map.
    #[inline]
    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        match map.next_key()? {
            Some(RawKey) => map.next_value_seed(RawText(self.0)),
            None => Err(de::Error::invalid_type(Unexpected::Map, &self)),
        }
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }

    #[inline]
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        self.convert(Token::quoted(text))
    }

    #[inline]
    fn visit_string<E: de::Error>(self, text: String) -> Result<T, E> {
        self.convert(Token::quoted(text))
    }

    #[inline]
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<T, E> {
        self.convert(Token::unquoted(if value { "true" } else { "false" }))
    }

    #[inline]
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.convert(Token::unquoted(number.to_string()))
    }

    #[inline]
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.convert(Token::unquoted(number.to_string()))
    }

    #[inline]
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        let text = serde_json::to_string(&number).map_err(E::custom)?;
        self.convert(Token::unquoted(text))
    }

    #[inline]
    fn visit_unit<E: de::Error>(self) -> Result<T, E> {
        self.convert(Token::unquoted(NULL))
    }

    #[inline]
    fn visit_none<E: de::Error>(self) -> Result<T, E> {
        self.visit_unit()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// The key under which serde_json hands out the text.
struct RawKey;

impl<'de> Deserialize<'de> for RawKey {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(RawKeyVisitor)
    }
}

struct RawKeyVisitor;

impl Visitor<'_> for RawKeyVisitor {
    type Value = RawKey;

    #[inline]
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a number or a truth value")
    }

    #[inline]
    fn visit_str<E: de::Error>(self, key: &str) -> Result<RawKey, E> {
        if key == RAW_TEXT { Ok(RawKey) } else { Err(E::invalid_type(Unexpected::Map, &self)) }
    }
}

/// The text under that key: borrowed from a slice, owned from a reader.
struct RawText<F>(F);

impl<'de, F, T, P> DeserializeSeed<'de> for RawText<F>
where
    F: FnOnce(Token<'_>) -> Result<T, P>,
    P: fmt::Display,
{
    type Value = T;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<F, T, P> Visitor<'_> for RawText<F>
where
    F: FnOnce(Token<'_>) -> Result<T, P>,
    P: fmt::Display,
{
    type Value = T;

    #[inline]
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text of a value")
    }

    #[inline]
    fn visit_str<E: de::Error>(self, json: &str) -> Result<T, E> {
        let token = Token::from_json(json).map_err(E::custom)?;
        (self.0)(token).map_err(E::custom)
    }
}
