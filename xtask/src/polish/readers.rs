//! Gives every field that could refuse a harmless deviation a lenient reader; writes numbers that travel as strings.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::Value;
use syn::{Field, Fields, GenericArgument, Item, ItemStruct, Meta, PathArguments, Type, parse_quote};

use super::serde_options;
use crate::lower::{Lowered, STAND_INS};
use crate::words::OPEN;

const SCALARS: [&str; 7] = ["String", "bool", "f64", "i32", "i64", "u32", "u64"];

/// Edits the fields of all structs. Fails where the document has a scalar that no field reads leniently,
/// so that a generator that spells its types differently cannot remove readers unnoticed.
pub(super) fn add(types: &mut [Item], lowered: &Lowered) -> Result<()> {
    let advisory = advisory(&lowered.document);
    let mut scalars = 0;
    for item in types {
        if let Item::Struct(item) = item {
            scalars += read_leniently(item, &advisory, &lowered.advisory)?;
            write_numbers_as_strings(item, &lowered.numbers_as_strings);
        }
    }
    let expected = count_scalars(&lowered.document, &replaced(lowered));
    ensure!(
        scalars == expected,
        "the document has {expected} scalar properties, and {scalars} of their fields got a lenient reader: \
         xtask/src/polish/readers.rs does not recognize the type of the others"
    );
    Ok(())
}

fn replaced(lowered: &Lowered) -> BTreeSet<&str> {
    lowered.envelopes.iter().map(|envelope| envelope.name.as_str()).collect()
}

fn count_scalars(value: &Value, replaced: &BTreeSet<&str>) -> usize {
    let Value::Object(map) = value else { return 0 };
    let own = map.get("properties").and_then(Value::as_object).into_iter().flatten();
    let own = own.filter(|(_, property)| is_scalar_schema(property)).count();
    let children = map.iter().filter(|(key, _)| !replaced.contains(key.as_str()) && !key.contains("example"));
    own + children.map(|(_, child)| count_scalars(child, replaced)).sum::<usize>()
}

fn is_scalar_schema(schema: &Value) -> bool {
    let format = schema["format"].as_str();
    let has_stand_in = format.is_some_and(|format| STAND_INS.iter().any(|known| known.format == format));
    let is_vocabulary = schema.get("enum").is_some() || schema.get(OPEN).is_some();
    let is_scalar = matches!(schema["type"].as_str(), Some("string" | "boolean" | "integer" | "number"));
    is_scalar && !has_stand_in && !is_vocabulary
}

/// The names of the types that only help: a component has its own, a schema within another has a title.
fn advisory(document: &Value) -> BTreeSet<String> {
    fn collect(name: &str, value: &Value, found: &mut BTreeSet<String>) {
        if value["x-advisory"] == true {
            found.insert(value["title"].as_str().unwrap_or(name).to_owned());
        }
        match value {
            Value::Object(members) => members.iter().for_each(|(name, value)| collect(name, value, found)),
            Value::Array(items) => items.iter().for_each(|item| collect("", item, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    collect("", document, &mut found);
    found
}

/// Returns the number of scalar fields. `advisory_fields` are pairs of type and field.
fn read_leniently(
    item: &mut ItemStruct,
    advisory: &BTreeSet<String>,
    advisory_fields: &BTreeSet<(String, String)>,
) -> Result<usize> {
    let owner = item.ident.to_string();
    let is_advisory = advisory.contains(&owner);
    let Fields::Named(fields) = &mut item.fields else { return Ok(0) };
    let mut scalars = 0;
    for field in &mut fields.named {
        let (name, argument) = outline(&field.ty);
        let pair = (owner.clone(), field.ident.as_ref().map(ToString::to_string).unwrap_or_default());
        let is_advisory = is_advisory || advisory_fields.contains(&pair);
        let is_optional = name == "Option";
        let (inner, element) = argument.filter(|_| is_optional).map_or((name, argument), outline);
        let is_scalar = SCALARS.contains(&inner.as_str());
        scalars += usize::from(is_scalar);
        let reader = match inner.as_str() {
            _ if is_optional && (is_advisory || advisory.contains(&inner)) => "crate::lenient::advisory",
            _ if is_optional && is_scalar => "crate::lenient::optional",
            _ if is_scalar => "crate::lenient::required",
            "Vec" if is_optional && element.is_some_and(|element| outline(element).0 == "String") => {
                "crate::lenient::texts"
            }
            "Vec" if is_optional => "crate::lenient::list",
            "BTreeMap" if is_optional => "crate::lenient::map",
            _ => continue,
        };
        set_reader(field, reader, is_optional)?;
    }
    Ok(scalars)
}

/// The last name in the path of a type, however the path begins, and its first argument.
pub(super) fn outline(kind: &Type) -> (String, Option<&Type>) {
    let Type::Path(path) = kind else { return (String::new(), None) };
    let Some(last) = path.path.segments.last() else { return (String::new(), None) };
    let argument = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => {
            arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(argument) => Some(argument),
                _ => None,
            })
        }
        _ => None,
    };
    (last.ident.to_string(), argument)
}

/// Replaces any other reader. An optional field may be absent too, unless progenitor requires or defaults it.
fn set_reader(field: &mut Field, reader: &str, is_optional: bool) -> Result<()> {
    let mut options = serde_options::take(&mut field.attrs)?;
    let is = |option: &Meta, name: &str| option.path().is_ident(name);
    let must_be_there = options.iter().any(|option| is(option, "deserialize_with"));
    let has_default = options.iter().any(|option| is(option, "default"));
    options.retain(|option| !is(option, "deserialize_with"));
    if is_optional && !must_be_there && !has_default {
        options.push(parse_quote!(default));
    }
    options.push(parse_quote!(deserialize_with = #reader));
    serde_options::put(&mut field.attrs, options);
    Ok(())
}

fn write_numbers_as_strings(item: &mut ItemStruct, numbers: &BTreeSet<(String, String)>) {
    let name = item.ident.to_string();
    for field in &mut item.fields {
        let Some(property) = &field.ident else { continue };
        if numbers.contains(&(name.clone(), property.to_string())) {
            field.attrs.push(parse_quote!(#[serde(serialize_with = "crate::scalar::as_string")]));
        }
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;
    use syn::{File, Item};

    use super::{add, count_scalars};
    use crate::lower::lower;

    fn added(text: &str) -> anyhow::Result<String> {
        let document = json!({"components": {"schemas": {"Thing": {
            "type": "object",
            "properties": {"name": {"type": "string", "nullable": true}, "size": {"type": "integer"}},
        }}}});
        let item = format!("pub struct Thing {{ pub name: Option<{text}>, pub size: i64 }}");
        let mut types = vec![syn::parse_str::<Item>(&item)?];
        add(&mut types, &lower(&document))?;
        Ok(prettyplease::unparse(&File { shebang: None, attrs: Vec::new(), items: types }))
    }

    #[test]
    fn a_scalar_gets_its_reader_however_the_path_to_its_type_begins() {
        for text in ["String", "::std::string::String", "::alloc::string::String"] {
            let code = added(text).expect("the type is known");
            assert!(
                code.contains(r#"#[serde(default, deserialize_with = "crate::lenient::optional")]"#),
                "{code}"
            );
            assert!(code.contains(r#"#[serde(deserialize_with = "crate::lenient::required")]"#), "{code}");
        }
    }

    #[test]
    fn a_field_that_only_helps_is_read_as_absent_where_it_is_unreadable() {
        let schemas = json!({"Thing": {"type": "object", "properties": {
            "name": {"type": "string", "nullable": true, "x-advisory": true},
            "begin": {"type": "string", "nullable": true, "x-keep-shape": true, "x-advisory": true},
            "size": {"type": "integer", "nullable": true},
        }}});
        let item =
            "pub struct Thing { pub name: Option<String>, pub begin: Option<Sample>, pub size: Option<i64> }";
        let mut types = vec![syn::parse_str::<Item>(item).expect("it is a struct")];
        add(&mut types, &lower(&json!({"components": {"schemas": schemas}}))).expect("the types are known");
        let code = prettyplease::unparse(&File { shebang: None, attrs: Vec::new(), items: types });
        let readers: Vec<&str> = code.lines().filter_map(|line| line.split("lenient::").nth(1)).collect();
        assert_eq!(readers, ["advisory\")]", "advisory\")]", "optional\")]"], "{code}");
    }

    #[test]
    fn a_scalar_without_a_reader_is_refused() {
        let message = added("::smol_str::SmolStr").expect_err("the type is not known").to_string();
        assert!(
            message.starts_with("the document has 2 scalar properties, and 1 of their fields"),
            "{message}"
        );
    }

    #[test]
    fn stand_ins_vocabularies_and_examples_are_no_scalars() {
        let document = json!({
            "properties": {
                "time": {"type": "string", "format": "date-time"},
                "word": {"type": "string", "enum": ["a"]},
                "inner": {"type": "object", "properties": {"size": {"type": "number"}}},
            },
            "example": {"properties": {"a": {"type": "string"}}},
        });
        assert_eq!(count_scalars(&document, &BTreeSet::new()), 1);
    }
}
