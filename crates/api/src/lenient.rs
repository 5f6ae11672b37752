//! How the generated types read a response: a number where a string was announced, a string where a
//! number was, a null where a value was. None of them changes what the response says, so none of them
//! may lose it. The generated fields name these functions in `deserialize_with`.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use crate::decimal::whole;
use crate::scalar::{self, RAW_TEXT};

/// A type that is read from any scalar that says the same.
pub(crate) trait Lenient: Sized {
    /// What a value has to be, for error messages.
    const EXPECTED: &'static str;

    /// Reads a value, or `None` for a null.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error>;
}

/// Reads a value by its text, so that no digit is lost.
macro_rules! read_by_text {
    ($($type:ty: $expected:literal, $convert:expr);+) => {
        $(impl Lenient for $type {
            const EXPECTED: &'static str = $expected;

            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
                scalar::read(deserializer, |token| {
                    if token.is_null() {
                        return Ok(None);
                    }
                    let scalar = if token.is_compound() { None } else { Some(token) };
                    scalar.and_then($convert).map(Some).ok_or(Unfit::of::<Self>())
                })
            }
        })+
    };
}

read_by_text!(
    String: "a text", |token| Some(token.into_text());
    f64: "a number", |token| token.text().trim().parse().ok();
    i64: "a whole number", |token| whole_number(token.text());
    u32: "a whole number that is not negative", |token| whole_number(token.text());
    u64: "a whole number that is not negative", |token| whole_number(token.text())
);

/// JSON knows no whole numbers: `5.0` says the same as `5`.
fn whole_number<T: FromStr>(text: &str) -> Option<T> {
    let text = text.trim();
    text.parse().ok().or_else(|| whole(text)?.parse().ok())
}

/// No digits to lose, so the text is not needed.
impl Lenient for bool {
    const EXPECTED: &'static str = "true or false";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        deserializer.deserialize_any(BoolVisitor)
    }
}

struct BoolVisitor;

impl<'de> Visitor<'de> for BoolVisitor {
    type Value = Option<bool>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(bool::EXPECTED)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Option<bool>, E> {
        Ok(Some(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<bool>, E> {
        text.trim().parse().map(Some).map_err(|_| E::custom(Unfit::of::<bool>()))
    }

    fn visit_unit<E: Error>(self) -> Result<Option<bool>, E> {
        Ok(None)
    }

    fn visit_none<E: Error>(self) -> Result<Option<bool>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<bool>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// A value of another kind than the document announces.
pub(crate) struct Unfit {
    expected: &'static str,
}

impl Unfit {
    fn of<T: Lenient>() -> Self {
        Self { expected: T::EXPECTED }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.expected)
    }
}

/// A value that must be there.
pub(crate) fn required<'de, D: Deserializer<'de>, T: Lenient>(deserializer: D) -> Result<T, D::Error> {
    T::read(deserializer)?.ok_or_else(|| D::Error::custom(Unfit::of::<T>()))
}

/// A value that may be null.
pub(crate) fn optional<'de, D: Deserializer<'de>, T: Lenient>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::read(deserializer)
}

/// A word of an enumeration.
pub(crate) fn word<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: for<'a> From<&'a str>,
{
    scalar::read(deserializer, |token| {
        if token.is_compound() || token.is_null() {
            return Err(Unfit::of::<String>());
        }
        Ok(T::from(token.text()))
    })
}

/// A list that may be null; a null in it says nothing and is left out.
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    Ok(Option::<List<T>>::deserialize(deserializer)?.map(|List(items)| items))
}

/// A list without its nulls.
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

/// A list of texts that may be null, with numbers read as texts.
pub(crate) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let texts: Option<Vec<Text>> = list(deserializer)?;
    Ok(texts.map(|texts| texts.into_iter().map(|Text(text)| text).collect()))
}

/// A text in a list, or a number that is read as one.
#[derive(serde::Deserialize)]
struct Text(#[serde(deserialize_with = "required")] String);

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
    fn a_number_read_as_text_keeps_its_spelling() {
        for number in
            ["7", "-0", "1.50", "1e400", "1E-7", "123456789012345678901234567890", "0.30000000000000000001"]
        {
            for read in from_every_source(&format!(r#"{{"text": {number}, "texts": [{number}, null]}}"#)) {
                let read = read.unwrap();
                assert_eq!(read.text.as_deref(), Some(number));
                assert_eq!(read.texts, Some(vec![number.to_owned()]));
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
            from_every_source(r#"{"text": true, "flag": false, "count": 9007199254740993.0, "ratio": 1}"#)
        {
            let read = read.unwrap();
            assert_eq!((read.text.as_deref(), read.flag), (Some("true"), Some(false)));
            assert_eq!((read.count, read.ratio), (Some(9_007_199_254_740_993), Some(1.0)));
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
