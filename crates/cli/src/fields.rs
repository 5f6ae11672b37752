//! The documented fields of responses, read from the types of the client: a response leaves optional ones out.

use inferstore::types;
use serde::de::value::Error;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};

/// Whether a record of some response can have a field of this name.
pub(crate) fn is_documented(name: &str) -> bool {
    let records = [
        fields_of::<types::AccountBalance>(),
        fields_of::<types::ModelSummary>(),
        fields_of::<types::ModelDetail>(),
        fields_of::<types::ModelVersioning>(),
        fields_of::<types::TaskRecord>(),
        fields_of::<types::TaskDetail>(),
        fields_of::<types::ServingStatus>(),
        fields_of::<types::StorageFile>(),
        fields_of::<types::StorageStatistics>(),
        fields_of::<types::TaskCost>(),
    ];
    records.into_iter().any(|fields| fields.contains(&name))
}

/// The names of the fields of a type.
fn fields_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
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
    use super::is_documented;

    #[test]
    fn the_fields_of_every_record_are_known() {
        for field in ["free_balance", "price", "commit_hash", "message", "mime"] {
            assert!(is_documented(field), "{field}");
        }
        assert!(!is_documented("mesage"));
    }
}
