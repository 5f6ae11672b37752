//! What progenitor's output still lacks before people read it and programs rely on it: a description
//! on every item, answers read leniently, the enumerations, the pairing of the model kinds. And what
//! it has too much of: a constructor that panics, and a prelude.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use serde_json::Value;
use syn::visit_mut::VisitMut;
use syn::{Attribute, Fields, File, ImplItem, Item, ItemMod, ItemStruct, parse_quote};

use crate::lower::Lowered;
use crate::validate::operations;

/// Edits progenitor's output in place.
pub(crate) fn polish(file: &mut File, lowered: &Lowered) -> Result<()> {
    drop_items(file)?;
    let types = types_module(file)?;
    for item in types {
        if let Item::Struct(item) = item {
            describe_fields(item, &lowered.document)?;
            read_leniently(item);
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

/// A property that is a `$ref` has no description of its own, so its field takes that of the schema,
/// which its type is named after.
fn describe_fields(item: &mut ItemStruct, document: &Value) -> Result<()> {
    let schemas = &document["components"]["schemas"];
    for field in &mut item.fields {
        let Some(name) = &field.ident else { continue };
        if field.attrs.iter().any(|attribute| attribute.path().is_ident("doc")) {
            continue;
        }
        let kind = &field.ty;
        let spelling = quote!(#kind).to_string();
        let mut descriptions = spelling
            .split(|letter: char| !letter.is_alphanumeric())
            .filter_map(|word| schemas[word]["description"].as_str());
        let Some(description) = descriptions.next() else {
            bail!("{}.{name} has no description", item.ident)
        };
        field.attrs.insert(0, parse_quote!(#[doc = #description]));
    }
    Ok(())
}

/// Gives every field whose type could refuse a harmless deviation a reader that does not.
fn read_leniently(item: &mut ItemStruct) {
    let Fields::Named(fields) = &mut item.fields else { return };
    for field in &mut fields.named {
        let kind = &field.ty;
        let spelling = quote!(#kind).to_string().replace([' ', ':'], "");
        let reader = match unwrapped(&spelling, "stdoptionOption") {
            None if is_scalar(&spelling) => "crate::lenient::required",
            None => continue,
            Some(inner) if is_scalar(inner) => "crate::lenient::optional",
            Some(inner) if inner.starts_with("stdvecVec") && inner.contains("stdstringString") => {
                "crate::lenient::texts"
            }
            Some(inner) if inner.starts_with("stdvecVec") => "crate::lenient::list",
            Some(inner) if inner.starts_with("stdcollectionsBTreeMap") => "crate::lenient::map",
            Some(_) => continue,
        };
        if reader.ends_with("required") {
            field.attrs.push(parse_quote!(#[serde(deserialize_with = #reader)]));
        } else {
            field.attrs.push(parse_quote!(#[serde(default, deserialize_with = #reader)]));
        }
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
        let text = match &attribute.meta {
            syn::Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => text.value(),
                _ => return vec![attribute],
            },
            _ => return vec![attribute],
        };
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
