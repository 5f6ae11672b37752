//! Constants beside the types: the operations, the largest accepted numbers, and the names that cannot stand in a path.

use std::collections::{BTreeMap, BTreeSet};

use openapi_impact::snake_case;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use serde_json::Value;

use crate::lower::Lowered;
use crate::validate::{items, members, operations, resolved};

pub(crate) fn types_of_tests(document: &Value, lowered: &Lowered) -> TokenStream {
    let bodies: BTreeSet<&str> = operations(document)
        .flat_map(|(.., operation)| {
            let responses = members(&operation["responses"]).map(|(_, response)| response);
            responses.chain(operation.get("requestBody"))
        })
        .filter_map(|body| resolved(document, body)["content"]["application/json"]["schema"]["$ref"].as_str())
        .filter_map(|reference| reference.rsplit('/').next())
        .collect();
    let types = bodies.iter().map(|name| {
        let known = lowered.envelopes.iter().find(|envelope| envelope.name == **name);
        let path = known.map_or_else(|| format!("crate::types::{name}"), |envelope| envelope.path());
        let path: TokenStream = path.replace("crate::", "::inferstore_api::").parse().unwrap_or_default();
        path
    });
    let inputs = members(&document["components"]["schemas"])
        .filter(|(_, schema)| schema["x-model-kind"].is_object())
        .map(|(name, _)| format_ident!("{name}"));
    let bodies = bodies.iter();
    quote! {
        /// Reads a body as the generated type of this schema, and writes it again.
        pub fn rewritten(schema: &str, body: &str) -> ::serde_json::Result<String> {
            match schema {
                #(#bodies => super::through::<#types>(body),)*
                other => panic!("the document declares no body of the schema {other:?}"),
            }
        }

        /// All model kinds.
        pub fn kinds() -> Vec<super::Kind> {
            vec![#(super::kind::<::inferstore_api::types::#inputs>()),*]
        }
    }
}

/// The words of `x-safety`, each with its variant of `Safety` in `crates/api`.
pub(crate) const SAFETIES: [(&str, &str); 3] =
    [("repeatable", "Repeatable"), ("once", "Once"), ("billed", "Billed")];

pub(crate) fn modules(document: &Value) -> TokenStream {
    let (constants, names): (Vec<_>, Vec<_>) =
        operations(document).map(|(path, method, _, operation)| constant(path, method, operation)).unzip();
    let maxima = maxima(document);
    let reserved = reserved_names(document);
    quote! {
        /// The operations of the document, one constant each.
        pub mod operations {
            use crate::{Operation, Safety};
            #(#constants)*
            /// All operations, in the order of their paths.
            pub const ALL: &[&Operation] = &[#(&#names),*];
        }
        /// Limits on numbers and names in requests.
        pub mod limits {
            #(#maxima)*
            #(#reserved)*
        }
    }
}

fn constant(path: &str, method: &str, operation: &Value) -> (TokenStream, proc_macro2::Ident) {
    let id = operation["operationId"].as_str().unwrap_or_default();
    let name = format_ident!("{}", constant_case(id));
    let method = method.to_uppercase();
    let word = operation["x-safety"].as_str().unwrap_or_default();
    let variant = SAFETIES.iter().find(|(known, _)| *known == word).map_or("", |(_, variant)| variant);
    let safety = format_ident!("{variant}");
    let text = format!("{}: `{method} {path}`.", operation["summary"].as_str().unwrap_or_default());
    let constant = quote! {
        #[doc = #text]
        pub const #name: Operation =
            Operation { id: #id, method: #method, path: #path, safety: Safety::#safety };
    };
    (constant, name)
}

/// The `maximum` of every property and parameter: responses have no limits.
fn maxima(document: &Value) -> Vec<TokenStream> {
    let properties = members(&document["components"]["schemas"]).flat_map(|(owner, schema)| {
        members(&schema["properties"]).map(move |(name, property)| (owner, name, property))
    });
    let parameters = operations(document).flat_map(|(.., shared, operation)| {
        let owner = operation["operationId"].as_str().unwrap_or_default();
        let all = parameters(document, shared, operation);
        all.filter_map(move |parameter| Some((owner, parameter["name"].as_str()?, &parameter["schema"])))
    });
    let maxima = properties.chain(parameters).filter_map(|(owner, name, schema)| {
        let schema = resolved(document, schema);
        let maximum = schema["maximum"].as_u64().filter(|_| schema["type"] == "integer")?;
        let constant = format_ident!("MAX_{}_{}", constant_case(owner), constant_case(name));
        let text = format!("The largest accepted `{name}` of `{owner}`.");
        let kind = if schema["format"] == "int64" { format_ident!("u64") } else { format_ident!("u32") };
        let maximum: TokenStream = grouped(maximum).parse().ok()?;
        Some(quote!(#[doc = #text] pub const #constant: #kind = #maximum;))
    });
    maxima.collect()
}

/// `104_857_600`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let groups = digits.as_bytes()[first..].chunks(3).map(String::from_utf8_lossy);
    let groups: Vec<_> = std::iter::once(digits[..first].into()).chain(groups).collect();
    groups.join("_").trim_start_matches('_').to_owned()
}

/// For every type of a parameter that ends a path: the literal segments that other paths have there.
fn reserved_names(document: &Value) -> Vec<TokenStream> {
    let mut reserved: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, _, shared, operation) in operations(document) {
        let Some((folder, last)) = path.rsplit_once('/') else { continue };
        let Some(name) = parameter_name(last) else { continue };
        let Some(kind) = parameters(document, shared, operation)
            .filter(|parameter| parameter["in"] == "path" && parameter["name"] == name)
            .find_map(|parameter| parameter["schema"]["$ref"].as_str()?.rsplit('/').next())
        else {
            continue;
        };
        let others = members(&document["paths"]).filter_map(|(other, _)| {
            let (beside, segment) = other.rsplit_once('/')?;
            (beside == folder && parameter_name(segment).is_none()).then_some(segment)
        });
        reserved.entry(kind).or_default().extend(others);
    }
    let constants = reserved.into_iter().filter(|(_, names)| !names.is_empty()).map(|(kind, names)| {
        let constant = format_ident!("RESERVED_{}S", constant_case(kind));
        let text =
            format!("Texts that cannot be a `{kind}` in a path: they make it the path of another operation.");
        let names = names.iter();
        quote!(#[doc = #text] pub const #constant: &[&str] = &[#(#names),*];)
    });
    constants.collect()
}

fn parameter_name(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

fn parameters<'a>(
    document: &'a Value,
    shared: &'a Value,
    operation: &'a Value,
) -> impl Iterator<Item = &'a Value> {
    items(&operation["parameters"]).chain(items(shared)).map(|parameter| resolved(document, parameter))
}

/// `PresignRequest` and `presignRequest` as `PRESIGN_REQUEST`.
pub(crate) fn constant_case(name: &str) -> String {
    snake_case(name).to_uppercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_maximum_behind_a_reference_becomes_a_constant() {
        let reference = |section: &str| json!({"$ref": format!("#/components/{section}/Size")});
        let document = json!({
            "paths": {"/a": {"get": {"operationId": "listFiles", "parameters": [reference("parameters")]}}},
            "components": {
                "parameters": {"Size": {"name": "size", "in": "query", "schema": reference("schemas")}},
                "schemas": {
                    "Size": {"type": "integer", "maximum": 2000},
                    "Page": {"properties": {"size": reference("schemas")}},
                },
            },
        });
        let maxima: Vec<String> = maxima(&document).iter().map(ToString::to_string).collect();
        assert!(maxima[0].contains("MAX_PAGE_SIZE : u32 = 2_000"), "{maxima:?}");
        assert!(maxima[1].contains("MAX_LIST_FILES_SIZE : u32 = 2_000"), "{maxima:?}");
    }
}
