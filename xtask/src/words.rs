//! The enumerations of the document as Rust enums: closed ones for what is sent, open ones, which
//! keep a word that they do not know, for what the service may answer.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use serde_json::Value;

/// The variant of an open enumeration that keeps the words the document does not know.
pub(crate) const OTHER: &str = "Other";

/// An enumeration of the document.
pub(crate) struct Words {
    pub(crate) name: String,
    description: String,
    open: bool,
    list: Vec<Word>,
}

struct Word {
    variant: String,
    word: String,
    description: String,
}

impl Words {
    /// The schema as an enumeration, if it is one.
    pub(crate) fn read(name: &str, schema: &Value) -> Option<Self> {
        let list = schema["enum"].as_array()?.iter().enumerate().filter_map(|(index, word)| {
            let word = word.as_str()?;
            let variant =
                schema["x-enum-varnames"][index].as_str().map_or_else(|| pascal_case(word), str::to_owned);
            let description = schema["x-enumDescriptions"][word]
                .as_str()
                .map_or_else(|| format!("`{word}`"), str::to_owned);
            Some(Word { variant, word: word.to_owned(), description })
        });
        Some(Self {
            name: name.to_owned(),
            description: schema["description"].as_str().unwrap_or_default().trim().to_owned(),
            open: schema["x-open-enum"] == true,
            list: list.collect(),
        })
    }

    /// The variants, each with its word.
    pub(crate) fn variants(&self) -> impl Iterator<Item = (&str, &str)> {
        self.list.iter().map(|word| (word.variant.as_str(), word.word.as_str()))
    }

    /// The path under which generated code finds the enum.
    pub(crate) fn path(&self) -> String {
        format!("crate::types::{}", self.name)
    }

    /// The enum, and the call of the macro in `crates/api` that gives it its behaviour.
    pub(crate) fn items(&self) -> TokenStream {
        let name = format_ident!("{}", self.name);
        let description = &self.description;
        let docs = self.list.iter().map(|word| &word.description);
        let variants: Vec<_> = self.list.iter().map(|word| format_ident!("{}", word.variant)).collect();
        let words = self.list.iter().map(|word| &word.word);
        let (derives, other, implement) = if self.open {
            let variant = format_ident!("{OTHER}");
            let other = quote! {
                /// A word that the document does not know, kept as it came.
                #variant(String),
            };
            (quote!(Clone, Debug), other, quote!(open_words))
        } else {
            (quote!(Clone, Copy, Debug, PartialEq, Eq, Hash), quote!(), quote!(closed_words))
        };
        quote! {
            #[doc = #description]
            #[derive(#derives)]
            pub enum #name {
                #(#[doc = #docs] #variants,)*
                #other
            }
            crate::words::#implement!(#name: #(#variants = #words),*);
        }
    }
}

fn pascal_case(word: &str) -> String {
    word.split(|c: char| !c.is_alphanumeric())
        .map(|part| {
            let mut letters = part.chars();
            letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
        })
        .collect()
}
