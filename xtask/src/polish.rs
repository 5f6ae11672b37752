//! Post-processing of progenitor's output. Adds what people and programs rely on: a description on every item, lenient
//! readers, enumerations, the pairing of model kinds, short paths. Removes a constructor that panics, and a prelude.

mod docs;
mod kinds;
mod readers;
mod serde_options;
mod spelling;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use serde_json::Value;
use syn::visit_mut::VisitMut;
use syn::{Attribute, ExprPath, Field, Fields, File, ImplItem, Item, ItemMod, ItemStruct, Meta, parse_quote};

use crate::lower::Lowered;
use crate::validate::{members, operations, target};

pub(crate) fn polish(file: &mut File, lowered: &Lowered) -> Result<()> {
    drop_items(file)?;
    let types = types_module(file)?;
    let descriptions = descriptions(types, lowered);
    for item in types.iter_mut() {
        if let Item::Struct(item) = item {
            describe_fields(item, &descriptions)?;
        }
    }
    readers::add(types, lowered)?;
    let kinds = kinds::add(types, lowered)?;
    derive_defaults(types);
    let sent = sent(&lowered.document);
    close_responses(types, &sent);
    add_constructors(types, |name| {
        sent.contains(name) && !lowered.kinds.iter().any(|kind| kind.input == name)
    });
    let words = lowered.words.iter().map(|words| words.items());
    let items: TokenStream = lowered.ids.iter().map(|id| id.items()).chain(words).collect();
    types.extend(syn::parse2::<File>(items)?.items);
    drop_conversion_error(types);
    separate_client(file);
    read_bodies(file)?;
    file.items.extend(syn::parse2::<File>(kinds)?.items);
    spelling::shorten(file)?;
    docs::DocComments::new(&lowered.document).visit_file_mut(file);
    Ok(())
}

/// The generated `Client::new` follows redirects to other origins with the API key, limits the whole
/// of a call to 15 seconds, and panics; `crates/api` has its own constructors. The prelude has one item.
fn drop_items(file: &mut File) -> Result<()> {
    let before = file.items.len();
    file.items.retain(|item| !matches!(item, Item::Mod(module) if module.ident == "prelude"));
    ensure!(file.items.len() + 1 == before, "progenitor no longer writes the prelude that polish.rs drops");
    let constructors = file.items.iter_mut().filter_map(|item| match item {
        Item::Impl(item) if item.trait_.is_none() => Some(&mut item.items),
        _ => None,
    });
    let mut dropped = 0;
    for items in constructors {
        let before = items.len();
        items.retain(|item| {
            !matches!(item, ImplItem::Fn(item) if item.sig.ident == "new" || item.sig.ident == "new_with_client")
        });
        dropped += before - items.len();
    }
    ensure!(dropped == 2, "progenitor no longer writes the constructors that polish.rs drops");
    file.items
        .retain(|item| !matches!(item, Item::Impl(item) if item.trait_.is_none() && item.items.is_empty()));
    Ok(())
}

fn read_bodies(file: &mut File) -> Result<()> {
    struct Bodies(usize);

    impl VisitMut for Bodies {
        fn visit_expr_path_mut(&mut self, path: &mut ExprPath) {
            if path.path == parse_quote!(ResponseValue::from_response) {
                path.path = parse_quote!(crate::body::read);
                self.0 += 1;
            }
        }
    }

    let mut bodies = Bodies(0);
    bodies.visit_file_mut(file);
    ensure!(bodies.0 > 0, "progenitor no longer reads bodies by the function that polish.rs replaces");
    Ok(())
}

/// The names of the types that requests and inputs of models hold: components, and titles within them.
fn sent(document: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Value> = Vec::new();
    for (.., shared, operation) in operations(document) {
        open.extend([shared, &operation["parameters"], &operation["requestBody"]]);
    }
    for (name, schema) in members(&document["components"]["schemas"]) {
        if schema.get("x-model-kind").is_some() {
            found.insert(name.to_owned());
            open.push(schema);
        }
    }
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                found.extend(map.get("title").and_then(Value::as_str).map(str::to_owned));
                if let Some(reference) = map.get("$ref").and_then(Value::as_str)
                    && let Some(name) = reference.rsplit('/').next()
                    && found.insert(name.to_owned())
                {
                    open.extend(target(document, reference));
                }
                open.extend(map.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    found
}

/// progenitor derives no `Default` where further fields are kept.
fn derive_defaults(types: &mut [Item]) {
    for item in types {
        let Item::Struct(ItemStruct { attrs, fields: Fields::Named(fields), .. }) = item else { continue };
        let is_extra = |field: &Field| field.ident.as_ref().is_some_and(|name| name == "extra");
        let is_optional = |field: &Field| readers::outline(&field.ty).0 == "Option";
        let has_default = fields.named.iter().all(|field| is_extra(field) || is_optional(field));
        let derive = attrs.iter_mut().find(|attribute| attribute.path().is_ident("derive"));
        if fields.named.iter().any(is_extra)
            && has_default
            && let Some(Attribute { meta: Meta::List(list), .. }) = derive
        {
            list.tokens.extend(quote!(, Default));
        }
    }
}

/// A later version may add fields to what is only received.
fn close_responses(types: &mut [Item], sent: &BTreeSet<String>) {
    for item in types {
        if let Item::Struct(item) = item
            && !sent.contains(&item.ident.to_string())
        {
            item.attrs.push(parse_quote!(#[non_exhaustive]));
        }
    }
}

/// Adds constructors to types without `Default`, of the required fields alone: a later version may add optional ones.
fn add_constructors(types: &mut Vec<Item>, is_constructed: impl Fn(&str) -> bool) {
    let mut constructors = Vec::new();
    for item in types.iter() {
        let Item::Struct(item) = item else { continue };
        let has_default = item.attrs.iter().any(|attribute| {
            attribute.path().is_ident("derive") && attribute.to_token_stream().to_string().contains("Default")
        });
        let Fields::Named(fields) = &item.fields else { continue };
        if has_default || !is_constructed(&item.ident.to_string()) {
            continue;
        }
        let (mut parameters, mut values) = (Vec::new(), Vec::new());
        let mut description = "With the fields that are required.";
        for Field { ident, ty, .. } in &fields.named {
            match readers::outline(ty).0.as_str() {
                "Option" => {
                    description = "With the fields that are required; `Self { field, ..Self::new(required) }` has others too.";
                    values.push(quote!(#ident: None));
                }
                "String" => {
                    parameters.push(quote!(#ident: impl Into<String>));
                    values.push(quote!(#ident: #ident.into()));
                }
                _ => {
                    parameters.push(quote!(#ident: #ty));
                    values.push(quote!(#ident));
                }
            }
        }
        let name = &item.ident;
        constructors.push(parse_quote! {
            impl #name {
                #[doc = #description]
                pub fn new(#(#parameters),*) -> Self {
                    Self { #(#values),* }
                }
            }
        });
    }
    types.extend(constructors);
}

/// Its error serves newtypes that refuse texts; where there are none, nothing returns it.
fn drop_conversion_error(types: &mut Vec<Item>) {
    let is_error = |item: &Item| matches!(item, Item::Mod(module) if module.ident == "error");
    let is_used = types
        .iter()
        .any(|item| !is_error(item) && item.to_token_stream().to_string().contains("ConversionError"));
    if !is_used {
        types.retain(|item| !is_error(item));
    }
}

fn separate_client(file: &mut File) {
    let (modules, client): (Vec<Item>, Vec<Item>) =
        std::mem::take(&mut file.items).into_iter().partition(|item| matches!(item, Item::Mod(_)));
    file.items = modules;
    file.items.push(parse_quote! {
        /// The client: one method for each operation.
        #[cfg(feature = "client")]
        pub mod client {
            use crate::types;
            #(#client)*
        }
    });
}

fn types_module(file: &mut File) -> Result<&mut Vec<Item>> {
    file.items
        .iter_mut()
        .find_map(|item| match item {
            Item::Mod(ItemMod { ident, content: Some((_, items)), .. }) if ident == "types" => Some(items),
            _ => None,
        })
        .context("progenitor no longer writes a module of types")
}

fn descriptions(types: &[Item], lowered: &Lowered) -> BTreeMap<String, String> {
    let structs = types.iter().filter_map(|item| match item {
        Item::Struct(item) => Some((item.ident.to_string(), item.attrs.iter().find_map(docs::text)?)),
        _ => None,
    });
    let schemas = lowered.document["components"]["schemas"].as_object().into_iter().flatten();
    let schemas =
        schemas.filter_map(|(name, schema)| Some((name.clone(), schema["description"].as_str()?.to_owned())));
    let words = lowered.words.iter().map(|words| (words.name.clone(), words.description.clone()));
    structs.chain(schemas).chain(words).collect()
}

/// A property that is a `$ref` has no description of its own, so its field takes that of its type.
fn describe_fields(item: &mut ItemStruct, descriptions: &BTreeMap<String, String>) -> Result<()> {
    for field in &mut item.fields {
        let Some(name) = &field.ident else { continue };
        if field.attrs.iter().any(|attribute| attribute.path().is_ident("doc")) {
            continue;
        }
        let kind = &field.ty;
        let spelling = quote!(#kind).to_string();
        let mut words = spelling.split(|letter: char| !letter.is_alphanumeric());
        let description = match words.find_map(|word| descriptions.get(word)) {
            Some(description) => description,
            // progenitor's own, for `additionalProperties` beside `properties`.
            None if name == "extra" => "Further fields, by name.",
            None => bail!("{}.{name} has no description", item.ident),
        };
        field.attrs.insert(0, parse_quote!(#[doc = #description]));
    }
    Ok(())
}
