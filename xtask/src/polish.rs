//! What progenitor's output still lacks before people read it and programs rely on it: a description
//! on every item, answers read leniently, the enumerations, the pairing of the model kinds. And what
//! it has too much of: a constructor that panics, and a prelude.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use serde_json::Value;
use syn::punctuated::Punctuated;
use syn::visit_mut::VisitMut;
use syn::{Attribute, Field, Fields, File, ImplItem, Item, ItemMod, ItemStruct, Meta, Token, parse_quote};

use crate::lower::Lowered;
use crate::validate::operations;

/// Edits progenitor's output in place.
pub(crate) fn polish(file: &mut File, lowered: &Lowered) -> Result<()> {
    drop_items(file)?;
    let types = types_module(file)?;
    let descriptions = descriptions(types, lowered);
    let advisory = advisory(&lowered.document);
    for item in types {
        if let Item::Struct(item) = item {
            describe_fields(item, &descriptions)?;
            read_leniently(item, &advisory)?;
            write_numbers_as_strings(item, &lowered.numbers_as_strings);
        }
    }
    let words: TokenStream = lowered.words.iter().map(|words| words.items()).collect();
    types_module(file)?.extend(syn::parse2::<File>(words)?.items);
    let kinds = lowered.kinds.iter().map(|kind| {
        let (name, input, output) =
            (&kind.name, format_ident!("{}", kind.input), format_ident!("{}", kind.output));
        quote! {
            impl crate::ModelKind for types::#input {
                const NAME: &'static str = #name;
                type Output = types::#output;
            }
        }
    });
    file.items.extend(syn::parse2::<File>(kinds.collect())?.items);
    DocComments { links: links(&lowered.document) }.visit_file_mut(file);
    Ok(())
}

/// The generated `Client::new` follows redirects to other origins with the API key, limits the whole
/// of a call to 15 seconds, and panics; `crates/api` has its own. The prelude has one item.
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
        items.retain(|item| !matches!(item, ImplItem::Fn(function) if function.sig.ident == "new"));
        dropped += before - items.len();
    }
    ensure!(dropped == 1, "progenitor no longer writes the Client::new that polish.rs drops");
    Ok(())
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

/// The description of every type by its name: those that progenitor writes, and those in their place.
fn descriptions(types: &[Item], lowered: &Lowered) -> BTreeMap<String, String> {
    let structs = types.iter().filter_map(|item| match item {
        Item::Struct(item) => Some((item.ident.to_string(), item.attrs.iter().find_map(doc_text)?)),
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

fn doc_text(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// The names of the types that only help, wherever they stand: a component has its own, a schema within
/// another has a title.
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

/// Gives every field whose type could refuse a harmless deviation a reader that does not.
fn read_leniently(item: &mut ItemStruct, advisory: &BTreeSet<String>) -> Result<()> {
    let is_advisory = advisory.contains(&item.ident.to_string());
    let Fields::Named(fields) = &mut item.fields else { return Ok(()) };
    for field in &mut fields.named {
        let kind = &field.ty;
        let spelling = quote!(#kind).to_string().replace([' ', ':'], "");
        let reader = match unwrapped(&spelling, "stdoptionOption") {
            None if is_scalar(&spelling) => "crate::lenient::required",
            None => continue,
            Some(inner) if is_advisory || advisory.contains(inner) => "crate::lenient::advisory",
            Some(inner) if is_scalar(inner) => "crate::lenient::optional",
            Some(inner) if inner.starts_with("stdvecVec") && inner.contains("stdstringString") => {
                "crate::lenient::texts"
            }
            Some(inner) if inner.starts_with("stdvecVec") => "crate::lenient::list",
            Some(inner) if inner.starts_with("stdcollectionsBTreeMap") => "crate::lenient::map",
            Some(_) => continue,
        };
        let is_told = SerdeOptions::take_reader(field)?;
        if reader.ends_with("required") || is_told.reader || is_told.default {
            field.attrs.push(parse_quote!(#[serde(deserialize_with = #reader)]));
        } else {
            field.attrs.push(parse_quote!(#[serde(default, deserialize_with = #reader)]));
        }
    }
    Ok(())
}

/// Has a number written as the string that travels.
fn write_numbers_as_strings(item: &mut ItemStruct, numbers: &BTreeSet<(String, String)>) {
    let name = item.ident.to_string();
    for field in &mut item.fields {
        let Some(property) = &field.ident else { continue };
        if numbers.contains(&(name.clone(), property.to_string())) {
            field.attrs.push(parse_quote!(#[serde(serialize_with = "crate::scalar::as_string")]));
        }
    }
}

/// What progenitor already tells serde about a field.
#[derive(Default)]
struct SerdeOptions {
    /// A reader, for a field that may be null and must be there all the same.
    reader: bool,
    /// What to take for a field that is not there.
    default: bool,
}

impl SerdeOptions {
    /// Takes the reader out, to make room for another.
    fn take_reader(field: &mut Field) -> Result<Self> {
        let mut found = Self::default();
        let mut attributes = Vec::new();
        for attribute in std::mem::take(&mut field.attrs) {
            if !attribute.path().is_ident("serde") {
                attributes.push(attribute);
                continue;
            }
            let mut options: Punctuated<Meta, Token![,]> =
                attribute.parse_args_with(Punctuated::parse_terminated)?;
            found.default |= options.iter().any(|option| option.path().is_ident("default"));
            let before = options.len();
            options =
                options.into_iter().filter(|option| !option.path().is_ident("deserialize_with")).collect();
            found.reader |= options.len() < before;
            if !options.is_empty() {
                attributes.push(parse_quote!(#[serde(#options)]));
            }
        }
        field.attrs = attributes;
        Ok(found)
    }
}

fn unwrapped<'a>(spelling: &'a str, wrapper: &str) -> Option<&'a str> {
    spelling.strip_prefix(wrapper)?.strip_prefix('<')?.strip_suffix('>')
}

fn is_scalar(spelling: &str) -> bool {
    ["stdstringString", "bool", "f64", "i64", "u32", "u64"].contains(&spelling)
}

/// In descriptions, operations are named as the document names them; in Rust they are methods.
fn links(document: &Value) -> BTreeMap<String, String> {
    operations(document)
        .filter_map(|(.., operation)| operation["operationId"].as_str())
        .map(|id| {
            let method = snake_case(id);
            (format!("`{id}`"), format!("[`{method}`](crate::Client::{method})"))
        })
        .collect()
}

pub(crate) fn snake_case(camel: &str) -> String {
    camel.chars().flat_map(|c| c.is_uppercase().then_some('_').into_iter().chain(c.to_lowercase())).collect()
}

/// Documentation as one comment a line, the way it is written by hand.
struct DocComments {
    links: BTreeMap<String, String>,
}

impl VisitMut for DocComments {
    fn visit_attributes_mut(&mut self, attributes: &mut Vec<Attribute>) {
        *attributes =
            std::mem::take(attributes).into_iter().flat_map(|attribute| self.split(attribute)).collect();
    }
}

impl DocComments {
    fn split(&self, attribute: Attribute) -> Vec<Attribute> {
        let Some(text) = doc_text(&attribute) else { return vec![attribute] };
        let text = self.links.iter().fold(text, |text, (id, link)| text.replace(id, link));
        let mut blank = true;
        let mut lines: Vec<String> = Vec::new();
        for line in text.trim().lines().map(str::trim_end) {
            // progenitor leaves more blank lines than Markdown needs.
            if !line.is_empty() || !blank {
                lines.push(if line.is_empty() { String::new() } else { format!(" {line}") });
            }
            blank = line.is_empty();
        }
        lines.iter().map(|line| parse_quote!(#[doc = #line])).collect()
    }
}
