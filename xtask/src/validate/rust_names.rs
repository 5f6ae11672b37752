//! Validation of the names of the document, so that each gives one name in Rust.

use std::collections::BTreeSet;

use openapi_impact::snake_case;
use serde_json::Value;
use syn::visit::{self, Visit};
use syn::{File, FnArg, ImplItem, ImplItemFn, Item, ItemMod, ItemStruct, Pat};

use super::operations;
use crate::document::{Mistake, Pointer};

pub(super) fn has_one_capital_a_word(name: &str) -> bool {
    let letters: Vec<char> = name.chars().chain(['\0']).collect();
    // `ATask` is two words, and `URL` would come back as `Url`.
    let runs = |three: &[char]| {
        three[0].is_ascii_uppercase() && three[1].is_ascii_uppercase() && !three[2].is_ascii_lowercase()
    };
    name.chars().all(|letter| letter.is_ascii_alphanumeric()) && !letters.windows(3).any(runs)
}

pub(super) fn is_rust_name(name: &str) -> bool {
    syn::parse_str::<syn::Ident>(name).is_ok()
}

/// Different names of the document that are one in the generated code, which shows how the generator turns names.
pub(crate) fn clashes(file: &File, document: &Value) -> Vec<Mistake> {
    let mut clashes = Clashes { document, mistakes: Vec::new() };
    clashes.visit_file(file);
    clashes.mistakes
}

struct Clashes<'a> {
    document: &'a Value,
    mistakes: Vec<Mistake>,
}

impl Clashes<'_> {
    /// A type that is not named after a schema is named after a title somewhere below.
    fn schema(&self, name: &str) -> Pointer {
        let schemas = Pointer::of(&["components", "schemas"]);
        let is_one = self.document["components"]["schemas"].get(name).is_some();
        if is_one { schemas.at(name) } else { schemas }
    }

    fn operation(&self, method: &str) -> Pointer {
        operations(self.document)
            .find(|(.., operation)| {
                operation["operationId"].as_str().map(snake_case).as_deref() == Some(method)
            })
            .map_or_else(Pointer::root, |(path, verb, ..)| Pointer::of(&["paths", path, verb]))
    }

    fn record(&mut self, pointer: Pointer, what: &str, name: &str) {
        self.mistakes.push(Mistake::new(pointer, format!("two {what} become {name} in Rust; rename one")));
    }
}

impl<'ast> Visit<'ast> for Clashes<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let items = module.content.iter().flat_map(|(_, items)| items);
        let names = items.filter_map(|item| match item {
            Item::Struct(item) => Some(item.ident.to_string()),
            Item::Enum(item) => Some(item.ident.to_string()),
            Item::Type(item) => Some(item.ident.to_string()),
            _ => None,
        });
        for name in twice(names) {
            self.record(self.schema(&name), "schemas or titles", &name);
        }
        visit::visit_item_mod(self, module);
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        for name in
            twice(item.fields.iter().filter_map(|field| field.ident.as_ref()).map(ToString::to_string))
        {
            self.record(
                self.schema(&item.ident.to_string()),
                &format!("properties of {}", item.ident),
                &name,
            );
        }
    }

    fn visit_file(&mut self, file: &'ast File) {
        let own = file.items.iter().filter_map(|item| match item {
            Item::Impl(item) if item.trait_.is_none() => Some(&item.items),
            _ => None,
        });
        let methods = own.flatten().filter_map(|item| match item {
            ImplItem::Fn(function) => Some(function.sig.ident.to_string()),
            _ => None,
        });
        for name in twice(methods) {
            self.record(self.operation(&name).at("operationId"), "methods of the client", &name);
        }
        visit::visit_file(self, file);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        let method = function.sig.ident.to_string();
        let names = function.sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(input) => match &*input.pat {
                Pat::Ident(pattern) => Some(pattern.ident.to_string()),
                _ => None,
            },
            FnArg::Receiver(_) => None,
        });
        for name in twice(names) {
            self.record(self.operation(&method).at("parameters"), "parameters", &name);
        }
    }
}

fn twice(names: impl Iterator<Item = String>) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    names.filter(|name| !seen.insert(name.clone())).collect()
}
