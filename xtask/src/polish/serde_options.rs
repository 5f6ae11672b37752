//! The options in the `serde` attributes of a field or type.

use anyhow::Result;
use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token, parse_quote};

const ORDER: [&str; 6] =
    ["rename", "default", "deserialize_with", "serialize_with", "skip_serializing_if", "bound"];

pub(super) fn take(attributes: &mut Vec<Attribute>) -> Result<Vec<Meta>> {
    let mut found = Vec::new();
    let mut others = Vec::new();
    for attribute in std::mem::take(attributes) {
        if attribute.path().is_ident("serde") {
            found.extend(attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?);
        } else {
            others.push(attribute);
        }
    }
    *attributes = others;
    Ok(found)
}

pub(super) fn put(attributes: &mut Vec<Attribute>, mut options: Vec<Meta>) {
    if options.is_empty() {
        return;
    }
    options.sort_by_key(|option| ORDER.iter().position(|name| option.path().is_ident(name)));
    attributes.push(parse_quote!(#[serde(#(#options),*)]));
}
