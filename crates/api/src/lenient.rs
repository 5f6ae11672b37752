//! Lenient deserialization of responses: a number instead of a string, a string instead of a number, or null
//! instead of a value. Such a difference does not change the meaning, so it must not lose the response.
//! Generated fields name these functions in `deserialize_with`.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use crate::decimal::whole;
use crate::scalar::RAW_TEXT;

/// Type that is deserialized from any scalar with the same meaning.
pub(crate) trait Lenient: Sized {
    /// Expected value, for error messages.
    const EXPECTED: &'static str;

    fn from_text(text: &str) -> Option<Self>;

    fn from_bool(value: bool) -> Option<Self> {
        Self::from_text(if value { "true" } else { "false" })
    }

    fn from_u64(number: u64) -> Option<Self> {
        Self::from_text(&number.to_string())
    }

    fn from_i64(number: i64) -> Option<Self> {
        Self::from_text(&number.to_string())
    }

    /// Converts a number with a fraction or an exponent, or one beyond 64 bits. Amounts, timestamps and
    /// samples are read from their text instead, which keeps every digit.
    fn from_f64(number: f64) -> Option<Self> {
        Self::from_text(&serde_json::to_string(&number).ok()?)
    }
}

impl Lenient for String {
    const EXPECTED: &'static str = "a text";

    #[inline]
    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl Lenient for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_text(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }

    #[inline]
    fn from_bool(value: bool) -> Option<Self> {
        Some(value)
    }
}

impl Lenient for f64 {
    const EXPECTED: &'static str = "a number";

    fn from_text(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }

    fn from_bool(_: bool) -> Option<Self> {
        None
    }

    #[inline]
    fn from_f64(number: f64) -> Option<Self> {
        Some(number)
    }
}

macro_rules! whole_numbers {
    ($($type:ty: $expected:literal),+) => {
        $(impl Lenient for $type {
            const EXPECTED: &'static str = $expected;

            /// JSON has no integer type: `5.0` means `5`.
            fn from_text(text: &str) -> Option<Self> {
                let text = text.trim();
                text.parse().ok().or_else(|| whole(text)?.parse().ok())
            }

            #[inline]
            fn from_u64(number: u64) -> Option<Self> {
                number.try_into().ok()
            }

            #[inline]
            fn from_i64(number: i64) -> Option<Self> {
                number.try_into().ok()
            }

            /// Rejects a float that stands for several integers.
            fn from_f64(number: f64) -> Option<Self> {
                if number.abs() >= AMBIGUOUS {
                    return None;
                }
                Self::from_text(&number.to_string())
            }
        })+
    };
}

whole_numbers!(
    i32: "a whole number of 32 bits",
    i64: "a whole number",
    u32: "a whole number that is not negative",
    u64: "a whole number that is not negative"
);

/// Limit from which floats are further apart than integers.
const AMBIGUOUS: f64 = 9_007_199_254_740_992.0;

struct Word<T>(T);

impl<T: for<'a> From<&'a str>> Lenient for Word<T> {
    const EXPECTED: &'static str = String::EXPECTED;

    #[inline]
    fn from_text(text: &str) -> Option<Self> {
        Some(Self(T::from(text)))
    }
}

struct LenientVisitor<T>(PhantomData<T>);

impl<T: Lenient> LenientVisitor<T> {
    #[inline]
    fn fit<E: Error>(value: Option<T>) -> Result<Option<T>, E> {
        value.map(Some).ok_or_else(unfit::<T, E>)
    }
}

impl<'de, T: Lenient> Visitor<'de> for LenientVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    #[inline]
    fn visit_str<E: Error>(self, text: &str) -> Result<Option<T>, E> {
        Self::fit(T::from_text(text))
    }

    #[inline]
    fn visit_bool<E: Error>(self, value: bool) -> Result<Option<T>, E> {
        Self::fit(T::from_bool(value))
    }

    #[inline]
    fn visit_u64<E: Error>(self, number: u64) -> Result<Option<T>, E> {
        Self::fit(T::from_u64(number))
    }

    #[inline]
    fn visit_i64<E: Error>(self, number: i64) -> Result<Option<T>, E> {
        Self::fit(T::from_i64(number))
    }

    #[inline]
    fn visit_f64<E: Error>(self, number: f64) -> Result<Option<T>, E> {
        Self::fit(T::from_f64(number))
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    #[inline]
    fn visit_none<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Returns the error of a value of an unexpected type.
fn unfit<T: Lenient, E: Error>() -> E {
    E::custom(format_args!("expected {}", T::EXPECTED))
}

#[inline]
pub(crate) fn required<'de, D: Deserializer<'de>, T: Lenient>(deserializer: D) -> Result<T, D::Error> {
    optional(deserializer)?.ok_or_else(unfit::<T, D::Error>)
}

#[inline]
pub(crate) fn optional<'de, D: Deserializer<'de>, T: Lenient>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_any(LenientVisitor(PhantomData))
}

#[inline]
pub(crate) fn word<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: for<'a> From<&'a str>,
{
    required(deserializer).map(|Word(word)| word)
}

/// Deserializes a nullable list, and skips nulls in it.
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    Ok(Option::<List<T>>::deserialize(deserializer)?.map(|List(items)| items))
}

struct List<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<List<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<Option<T>>()? {
            items.extend(item);
        }
        Ok(List(items))
    }
}

/// Deserializes a nullable list of texts; numbers become texts.
pub(crate) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let texts: Option<Vec<Text>> = list(deserializer)?;
    Ok(texts.map(|texts| texts.into_iter().map(|Text(text)| text).collect()))
}

#[derive(serde::Deserialize)]
struct Text(#[serde(deserialize_with = "required")] String);

/// Deserializes a nullable map; a null value keeps its name.
pub(crate) fn map<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, T>>, D::Error> {
    let map = Option::<BTreeMap<String, Option<T>>>::deserialize(deserializer)?;
    Ok(map.map(|map| map.into_iter().map(|(name, value)| (name, value.unwrap_or_default())).collect()))
}

/// Deserializes an advisory value: an unreadable one counts as absent.
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

    /// serde_json: the raw text keeps every digit.
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
        let text = Box::<RawValue>::deserialize(MapAccessDeserializer::new(map))?;
        // serde would deserialize a list as an object without names.
        let is_list = text.get().starts_with('[');
        Ok(if is_list { None } else { serde_json::from_str(text.get()).unwrap_or_default() })
    }

    /// Other formats, such as serde's buffer for `flatten`.
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use serde::Deserialize;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Record {
        #[serde(deserialize_with = "super::optional")]
        text: Option<String>,
        #[serde(deserialize_with = "super::optional")]
        flag: Option<bool>,
        #[serde(deserialize_with = "super::optional")]
        count: Option<i64>,
        #[serde(deserialize_with = "super::optional")]
        ratio: Option<f64>,
        #[serde(deserialize_with = "super::texts")]
        texts: Option<Vec<String>>,
    }

    fn from_every_source(json: &str) -> [serde_json::Result<Record>; 3] {
        [
            serde_json::from_str(json),
            serde_json::from_slice(json.as_bytes()),
            serde_json::from_reader(json.as_bytes()),
        ]
    }

    #[test]
    fn a_number_is_read_as_a_text() {
        for (number, text) in [
            ("7", "7"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("18446744073709551615", "18446744073709551615"),
            ("1.50", "1.5"),
            ("1E-7", "1e-7"),
        ] {
            for read in from_every_source(&format!(r#"{{"text": {number}, "texts": [{number}, null]}}"#)) {
                let read = read.unwrap();
                assert_eq!(read.text.as_deref(), Some(text));
                assert_eq!(read.texts, Some(vec![text.to_owned()]));
            }
        }
    }

    #[test]
    fn escapes_are_resolved() {
        for read in from_every_source(r#"{"text": "a\"b\\\u00fc\ud83d\ude00", "texts": ["\n", "ü"]}"#) {
            let read = read.unwrap();
            assert_eq!(read.text.as_deref(), Some("a\"b\\ü😀"));
            assert_eq!(read.texts, Some(vec!["\n".to_owned(), "ü".to_owned()]));
        }
        for broken in [r#"{"text": "\ud83d"}"#, r#"{"text": "\x"}"#, "{\"text\": \"\n\"}", r#"{"text": "a}"#]
        {
            assert!(from_every_source(broken).iter().all(Result::is_err), "{broken}");
        }
    }

    #[test]
    fn truth_values_and_numbers_are_read_from_texts_too() {
        for read in from_every_source(r#"{"flag": " true ", "count": "5.0", "ratio": " 0.1"}"#) {
            let expected = Record { flag: Some(true), count: Some(5), ratio: Some(0.1), ..Record::default() };
            assert_eq!(read.unwrap(), expected);
        }
        for read in
            from_every_source(r#"{"text": true, "flag": false, "count": 9007199254740991.0, "ratio": 1}"#)
        {
            let read = read.unwrap();
            assert_eq!((read.text.as_deref(), read.flag), (Some("true"), Some(false)));
            assert_eq!((read.count, read.ratio), (Some(9_007_199_254_740_991), Some(1.0)));
        }
        for unclear in ["9007199254740993.0", "5.5", "1e30", "true", "\"five\""] {
            assert!(
                from_every_source(&format!(r#"{{"count": {unclear}}}"#)).iter().all(Result::is_err),
                "{unclear}"
            );
        }
    }

    #[test]
    fn a_null_is_a_missing_value_and_a_compound_is_an_error() {
        let nulls = r#"{"text": null, "flag": null, "count": null, "ratio": null, "texts": null}"#;
        for read in from_every_source(nulls) {
            assert_eq!(read.unwrap(), Record::default());
        }
        for field in ["text", "flag", "count", "ratio"] {
            for compound in ["{}", "[]", r#"{"a": 1}"#, "[1]"] {
                let json = format!(r#"{{"{field}": {compound}}}"#);
                assert!(from_every_source(&json).iter().all(Result::is_err), "{json}");
            }
        }
    }

    #[test]
    fn values_are_read_from_serdes_own_buffer() {
        #[derive(Deserialize)]
        struct Outer {
            #[serde(flatten)]
            record: Record,
        }
        let json = r#"{"text": 7, "flag": "true", "count": "5", "ratio": 0.5, "texts": [1, "a", null]}"#;
        let expected = Record {
            text: Some("7".to_owned()),
            flag: Some(true),
            count: Some(5),
            ratio: Some(0.5),
            texts: Some(vec!["1".to_owned(), "a".to_owned()]),
        };
        assert_eq!(serde_json::from_str::<Outer>(json).unwrap().record, expected);
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::from_value::<Record>(value).unwrap(), expected);
        assert!(serde_json::from_str::<Outer>(r#"{"text": {"a": 1}}"#).is_err());
    }
}
