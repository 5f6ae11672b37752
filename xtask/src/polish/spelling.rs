//! Paths the way people write them: what the prelude has is named by its name, what a module uses often is
//! imported, and an attribute holds all options of serde.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Expr, ExprLit, File, Item, ItemMod, Lit, LitStr, Meta, Path, Token, parse_quote};

use super::serde_options;

const PRELUDE: [(&str, &str); 9] = [
    ("clone", "Clone"),
    ("convert", "From"),
    ("convert", "Into"),
    ("convert", "TryFrom"),
    ("default", "Default"),
    ("option", "Option"),
    ("result", "Result"),
    ("string", "String"),
    ("vec", "Vec"),
];

const IMPORTED: [&str; 2] = ["serde", "std::collections"];

pub(super) fn shorten(file: &mut File) -> Result<()> {
    let mut spelling = Spelling::default();
    spelling.visit_file_mut(file);
    spelling.failure.map_or(Ok(()), Err)
}

#[derive(Default)]
struct Spelling {
    module: Option<Module>,
    failure: Option<anyhow::Error>,
}

struct Module {
    name: String,
    defined: BTreeSet<String>,
    imports: BTreeMap<String, BTreeSet<String>>,
}

impl VisitMut for Spelling {
    fn visit_item_mod_mut(&mut self, item: &mut ItemMod) {
        let Some((_, items)) = &item.content else { return };
        let module = Module {
            name: item.ident.to_string(),
            defined: items.iter().filter_map(name_of).collect(),
            imports: BTreeMap::new(),
        };
        let outer = self.module.replace(module);
        visit_mut::visit_item_mod_mut(self, item);
        let module = std::mem::replace(&mut self.module, outer);
        let imports = module.map(|module| module.imports).unwrap_or_default();
        if let Some((_, items)) = &mut item.content {
            items.splice(0..0, imports.iter().map(|(path, names)| import(path, names)));
        }
    }

    fn visit_path_mut(&mut self, path: &mut Path) {
        visit_mut::visit_path_mut(self, path);
        self.shorten(path);
    }

    fn visit_attributes_mut(&mut self, attributes: &mut Vec<Attribute>) {
        if let Err(error) = self.attributes(attributes) {
            self.failure.get_or_insert(error);
        }
    }

    /// They are tokens to syn.
    fn visit_macro_mut(&mut self, _: &mut syn::Macro) {}
}

impl Spelling {
    fn shorten(&mut self, path: &mut Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let is_free = |name: &str| self.module.as_ref().is_none_or(|module| !module.defined.contains(name));
        let dropped = match &names[..] {
            ["std", folder, name] if PRELUDE.contains(&(folder, name)) && is_free(name) => 2,
            ["std", "option", "Option", _] if is_free("Option") => 2,
            ["crate", "types", _] if self.is_in("types") => 2,
            ["crate", "types", _] if self.is_in("client") => 1,
            ["crate", name] if is_free(name) => self.import("crate", name, 1),
            ["crate", name, _] if self.module.is_some() && is_free(name) => self.import("crate", name, 1),
            [folder @ .., name] if IMPORTED.contains(&folder.join("::").as_str()) && is_free(name) => {
                self.import(&folder.join("::"), name, folder.len())
            }
            _ => 0,
        };
        if path.leading_colon.is_some() || dropped > 0 {
            path.leading_colon = None;
            path.segments = std::mem::take(&mut path.segments).into_iter().skip(dropped).collect();
        }
    }

    fn is_in(&self, name: &str) -> bool {
        self.module.as_ref().is_some_and(|module| module.name == name)
    }

    /// Remembers the import, and returns how much of the path is superfluous. The root of the file imports nothing.
    fn import(&mut self, path: &str, name: &str, length: usize) -> usize {
        let Some(module) = &mut self.module else { return 0 };
        module.imports.entry(path.to_owned()).or_default().insert(name.to_owned());
        length
    }

    fn attributes(&mut self, attributes: &mut Vec<Attribute>) -> Result<()> {
        for attribute in attributes.iter_mut().filter(|attribute| attribute.path().is_ident("derive")) {
            let parsed = attribute.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated)?;
            let mut derives: Vec<Path> = parsed.into_iter().collect();
            derives.iter_mut().for_each(|derive| self.shorten(derive));
            derives.sort_by_key(|derive| (is_of_serde(derive), derive.to_token_stream().to_string()));
            *attribute = parse_quote!(#[derive(#(#derives),*)]);
        }
        let mut options = serde_options::take(attributes)?;
        for option in &mut options {
            if let Meta::NameValue(option) = option
                && let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &mut option.value
                && let Ok(mut path) = text.parse::<Path>()
                && path.segments.len() > 1
            {
                self.shorten(&mut path);
                *text = LitStr::new(&path.to_token_stream().to_string().replace(' ', ""), text.span());
            }
        }
        serde_options::put(attributes, options);
        Ok(())
    }
}

fn is_of_serde(derive: &Path) -> bool {
    derive.segments.last().is_some_and(|last| last.ident == "Deserialize" || last.ident == "Serialize")
}

fn name_of(item: &Item) -> Option<String> {
    match item {
        Item::Struct(item) => Some(item.ident.to_string()),
        Item::Enum(item) => Some(item.ident.to_string()),
        Item::Type(item) => Some(item.ident.to_string()),
        Item::Mod(item) => Some(item.ident.to_string()),
        _ => None,
    }
}

fn import(path: &str, names: &BTreeSet<String>) -> Item {
    let path: TokenStream = path.parse().unwrap_or_default();
    let names: Vec<_> = names.iter().map(|name| format_ident!("{name}")).collect();
    let tree = if let [name] = &names[..] { quote!(#name) } else { quote!({#(#names),*}) };
    parse_quote!(use #path::#tree;)
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]
mod tests {
    use super::shorten;

    fn shortened(code: &str) -> String {
        let mut file = syn::parse_str(code).expect("it is Rust");
        shorten(&mut file).expect("its attributes can be read");
        prettyplease::unparse(&file)
    }

    #[test]
    fn a_struct_reads_as_if_written_by_hand() {
        let code = "pub mod types {
            #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
            pub struct Thing {
                #[serde(skip_serializing_if = \"::std::option::Option::is_none\")]
                #[serde(default, deserialize_with = \"crate::lenient::optional\")]
                pub name: ::std::option::Option<::std::string::String>,
                pub kind: crate::types::Kind,
                pub cost: crate::Decimal,
                pub more: ::std::collections::BTreeMap<String, ::serde_json::Value>,
            }
        }";
        let expected = "pub mod types {
    use crate::{Decimal, lenient};
    use serde::{Deserialize, Serialize};
    use std::collections::BTreeMap;
    #[derive(Clone, Debug, Deserialize, Serialize)]
    pub struct Thing {
        #[serde(
            default,
            deserialize_with = \"lenient::optional\",
            skip_serializing_if = \"Option::is_none\"
        )]
        pub name: Option<String>,
        pub kind: Kind,
        pub cost: Decimal,
        pub more: BTreeMap<String, serde_json::Value>,
    }
}
";
        assert_eq!(shortened(code), expected);
    }

    #[test]
    fn a_name_that_the_module_defines_is_not_used_for_another() {
        let code = "pub mod types {
            pub struct String(::std::string::String);
            pub type Outcome = ::std::fmt::Result;
            pub struct Decimal(crate::Decimal);
        }";
        let expected = "pub mod types {
    pub struct String(std::string::String);
    pub type Outcome = std::fmt::Result;
    pub struct Decimal(crate::Decimal);
}
";
        assert_eq!(shortened(code), expected);
    }
}
