//! Documentation as one comment a line, the way it is written by hand.

use std::collections::BTreeMap;

use openapi_impact::snake_case;
use serde_json::Value;
use syn::visit_mut::VisitMut;
use syn::{Attribute, Meta, parse_quote};

use crate::validate::operations;

const WIDTH: usize = 96;

pub(super) fn text(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

pub(super) struct DocComments {
    /// In descriptions, operations are named as the document names them; in Rust they are methods.
    links: BTreeMap<String, String>,
}

impl DocComments {
    pub(super) fn new(document: &Value) -> Self {
        let ids = operations(document).filter_map(|(.., operation)| operation["operationId"].as_str());
        let links = ids.map(|id| {
            let method = snake_case(id);
            (format!("`{id}`"), format!("[`{method}`](crate::Client::{method})"))
        });
        Self { links: links.collect() }
    }

    fn split(&self, attribute: Attribute) -> Vec<Attribute> {
        let Some(text) = text(&attribute) else { return vec![attribute] };
        let text = self.links.iter().fold(text, |text, (id, link)| text.replace(id, link));
        let mut was_blank = true;
        let mut lines: Vec<String> = Vec::new();
        for line in text.trim().lines().map(str::trim_end) {
            if !line.is_empty() {
                lines.extend(wrapped(line).into_iter().map(|line| format!(" {line}")));
            } else if !was_blank {
                lines.push(String::new());
            }
            was_blank = line.is_empty();
        }
        lines.iter().map(|line| parse_quote!(#[doc = #line])).collect()
    }
}

impl VisitMut for DocComments {
    fn visit_attributes_mut(&mut self, attributes: &mut Vec<Attribute>) {
        *attributes =
            std::mem::take(attributes).into_iter().flat_map(|attribute| self.split(attribute)).collect();
    }
}

/// The line in lines of limited width. A table cannot be wrapped, and what is indented may be code.
fn wrapped(line: &str) -> Vec<String> {
    if line.starts_with(['|', ' ']) {
        return vec![line.to_owned()];
    }
    let indent = if line.starts_with("- ") { "  " } else { "" };
    let mut lines: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match lines.last_mut() {
            None => lines.push(word.to_owned()),
            Some(last) if last.chars().count() + 1 + word.chars().count() <= WIDTH => {
                last.push(' ');
                last.push_str(word);
            }
            Some(_) => lines.push(format!("{indent}{word}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn a_long_line_is_wrapped_between_words() {
        let line = format!("- {}", "seven77 ".repeat(20).trim_end());
        let lines = wrapped(&line);
        assert_eq!(lines.len(), 2);
        assert!(lines[1].starts_with("  seven77"));
        assert!(lines.iter().all(|line| line.len() <= super::WIDTH));
        assert_eq!(wrapped("short"), ["short"]);
    }
}
