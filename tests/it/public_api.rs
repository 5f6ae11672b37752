//! The public surface of the generated crate, as a snapshot: a change of the document shows here as
//! what it means to the users of the types.

use std::path::Path;

use syn::visit_mut::{VisitMut, visit_impl_item_fn_mut};
use syn::{Attribute, Fields, ImplItem, ImplItemFn, Item, Visibility};

#[test]
fn the_generated_public_api() {
    let mut file = syn::parse_file(include_str!("../../crates/api/src/generated.rs")).expect("it is Rust");
    keep_public(&mut file.items);
    Outline.visit_file_mut(&mut file);
    insta::assert_snapshot!("generated", prettyplease::unparse(&file));
}

#[test]
fn the_hand_written_public_api() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/api/src");
    let text = std::fs::read_to_string(source.join("lib.rs")).expect("the crate has a root");
    let mut root = syn::parse_file(&text).expect("it is Rust");
    root.items.retain(|item| matches!(item, Item::Use(item) if matches!(item.vis, Visibility::Public(_))));
    let mut files = vec![root];
    for module in [
        "body",
        "client",
        "decimal",
        "envelope",
        "ids",
        "kinds",
        "operation",
        "sample",
        "secret",
        "timestamp",
        "tls",
        "words",
    ] {
        let text =
            std::fs::read_to_string(source.join(module).with_extension("rs")).expect("the module has a file");
        let mut file = syn::parse_file(&text).expect("it is Rust");
        keep_public(&mut file.items);
        files.push(file);
    }
    let outlines = files.iter_mut().map(|file| {
        Outline.visit_file_mut(file);
        prettyplease::unparse(file)
    });
    insta::assert_snapshot!("hand_written", outlines.collect::<Vec<_>>().join("\n"));
}

/// What can be named or called from outside: public items, traits that they implement by hand, and
/// the macro calls that give enumerations their methods.
fn keep_public(items: &mut Vec<Item>) {
    items.retain_mut(|item| match item {
        Item::Mod(item) => {
            if let Some((_, items)) = &mut item.content {
                keep_public(items);
            }
            matches!(item.vis, Visibility::Public(_))
        }
        Item::Struct(item) => {
            keep_public_fields(&mut item.fields);
            matches!(item.vis, Visibility::Public(_))
        }
        Item::Impl(item) if item.trait_.is_none() => {
            item.items.retain(
                |item| matches!(item, ImplItem::Fn(item) if matches!(item.vis, Visibility::Public(_))),
            );
            !item.items.is_empty()
        }
        Item::Impl(_) => true,
        Item::Macro(item) => item.ident.is_none(),
        Item::Const(item) => matches!(item.vis, Visibility::Public(_)),
        Item::Enum(item) => matches!(item.vis, Visibility::Public(_)),
        Item::Fn(item) => matches!(item.vis, Visibility::Public(_)),
        Item::Trait(item) => matches!(item.vis, Visibility::Public(_)),
        Item::Use(item) => matches!(item.vis, Visibility::Public(_)),
        _ => false,
    });
}

fn keep_public_fields(fields: &mut Fields) {
    if let Fields::Named(fields) = fields {
        fields.named = std::mem::take(&mut fields.named)
            .into_iter()
            .filter(|field| matches!(field.vis, Visibility::Public(_)))
            .collect();
    }
}

/// Drops bodies, and every attribute but derives.
struct Outline;

impl VisitMut for Outline {
    fn visit_attributes_mut(&mut self, attributes: &mut Vec<Attribute>) {
        attributes.retain(|attribute| attribute.path().is_ident("derive"));
    }

    fn visit_impl_item_fn_mut(&mut self, item: &mut ImplItemFn) {
        item.block.stmts.clear();
        visit_impl_item_fn_mut(self, item);
    }

    fn visit_item_fn_mut(&mut self, item: &mut syn::ItemFn) {
        item.block.stmts.clear();
        item.attrs.clear();
    }
}
