//! The vocabularies of the document as Rust enums: closed ones (`enum`) for requests, open ones
//! (`x-extensible-enum`), which keep an unknown word, for responses.

use openapi_impact::pascal_case;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use serde_json::Value;

pub(crate) const OPEN: &str = "x-extensible-enum";

pub(crate) const TERMINAL: &str = "x-terminal";

pub(crate) const OTHER: &str = "Other";

pub(crate) struct Words {
    pub(crate) name: String,
    pub(crate) description: String,
    open: bool,
    list: Vec<Word>,
}

struct Word {
    variant: String,
    word: String,
    description: Option<String>,
    is_terminal: bool,
}

impl Words {
    pub(crate) fn read(name: &str, schema: &Value) -> Option<Self> {
        let open = schema.get(OPEN).is_some();
        let (description, meanings) = meanings(schema["description"].as_str().unwrap_or_default());
        let words = if open { &schema[OPEN] } else { &schema["enum"] };
        let list = words.as_array()?.iter().enumerate().filter_map(|(index, word)| {
            let word = word.as_str()?;
            let variant =
                schema["x-enum-varnames"][index].as_str().map_or_else(|| pascal_case(word), str::to_owned);
            let meaning = meanings.iter().find(|(described, _)| *described == word);
            let description = meaning.map(|(_, meaning)| (*meaning).to_owned());
            let is_terminal = schema[TERMINAL].as_array().is_some_and(|words| words.contains(&word.into()));
            Some(Word { variant, word: word.to_owned(), description, is_terminal })
        });
        Some(Self { name: name.to_owned(), description, open, list: list.collect() })
    }

    pub(crate) fn undescribed(&self) -> impl Iterator<Item = &str> {
        self.list.iter().filter(|word| word.description.is_none()).map(|word| word.word.as_str())
    }

    /// The words that `x-terminal` lists without such a meaning, or the reverse, each with what is missing.
    pub(crate) fn half_terminal(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.list.iter().filter_map(|word| {
            let says_so = word.description.as_ref().is_some_and(|text| text.contains("Terminal."));
            let missing = match (word.is_terminal, says_so) {
                (true, false) => "its meaning must say `Terminal.`",
                (false, true) => "its meaning says `Terminal.`, so x-terminal must list it",
                _ => return None,
            };
            Some((word.word.as_str(), missing))
        })
    }

    pub(crate) fn variants(&self) -> impl Iterator<Item = (&str, &str)> {
        self.list.iter().map(|word| (word.variant.as_str(), word.word.as_str()))
    }

    pub(crate) fn path(&self) -> String {
        format!("crate::types::{}", self.name)
    }

    pub(crate) fn items(&self) -> TokenStream {
        let name = format_ident!("{}", self.name);
        let description = &self.description;
        let docs = self
            .list
            .iter()
            .map(|word| word.description.clone().unwrap_or_else(|| format!("`{}`", word.word)));
        let variants: Vec<_> = self.list.iter().map(|word| format_ident!("{}", word.variant)).collect();
        let words = self.list.iter().map(|word| &word.word);
        let terminal: Vec<_> = self
            .list
            .iter()
            .zip(&variants)
            .filter(|(word, _)| word.is_terminal)
            .map(|(_, name)| name)
            .collect();
        let is_terminal = (!terminal.is_empty()).then(|| {
            quote! {
                impl #name {
                    /// Returns whether the word is terminal: nothing follows it. A word that the document does not
                    /// know is not.
                    pub fn is_terminal(&self) -> bool {
                        [#(Self::#terminal),*].contains(self)
                    }
                }
            }
        });
        let (attributes, other, implement) = if self.open {
            let variant = format_ident!("{OTHER}");
            let other = quote! {
                /// A word that is not in the document, as the service sent it.
                #variant(String),
            };
            (quote!(#[derive(Clone, Debug)] #[non_exhaustive]), other, quote!(open_words))
        } else {
            let derive = quote!(#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]);
            (derive, quote!(), quote!(closed_words))
        };
        quote! {
            #[doc = #description]
            #attributes
            pub enum #name {
                #(#[doc = #docs] #variants,)*
                #other
            }
            crate::words::#implement!(#name: #(#variants = #words),*);
            #is_terminal
        }
    }
}

/// Splits the description of a vocabulary into its text and the meanings of words: items such as ``- `word`: meaning``.
fn meanings(description: &str) -> (String, Vec<(&str, &str)>) {
    let mut text = Vec::new();
    let mut meanings = Vec::new();
    for line in description.trim().lines() {
        match line.strip_prefix("- `").and_then(|item| item.split_once("`: ")) {
            Some((word, meaning)) => meanings.push((word, meaning.trim())),
            None => text.push(line),
        }
    }
    (text.join("\n").trim().to_owned(), meanings)
}
