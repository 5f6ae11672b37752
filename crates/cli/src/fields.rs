//! The documented fields of responses, read from the types of the client: a response leaves optional ones out.

use serde::de::value::Error;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};

pub(crate) fn of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut fields: &'static [&'static str] = &[];
    // Fails after it has recorded the names of the fields.
    let _ = T::deserialize(Fields(&mut fields));
    fields
}

struct Fields<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("there is no value"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use inferstore::types;

    use super::of;

    #[test]
    fn the_fields_of_a_record_are_those_of_its_kind() {
        assert_eq!(of::<types::TaskCost>(), ["cost", "symbol", "unit"]);
        assert!(of::<types::TaskDetail>().contains(&"message"));
        assert!(!of::<types::TaskRecord>().contains(&"message"));
    }
}
