//! The inputs of the model kinds: generic over the type of a file, and paired with their outputs.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{
    Expr, ExprLit, Field, GenericArgument, Item, ItemStruct, Lit, Meta, PathArguments, Type, parse_quote,
};

use super::serde_options;
use crate::lower::{Kind, Lowered};

pub(super) fn add(types: &mut [Item], lowered: &Lowered) -> Result<TokenStream> {
    let mut implementations = TokenStream::new();
    for item in types {
        if let Item::Struct(item) = item
            && let Some(kind) = lowered.kinds.iter().find(|kind| item.ident == kind.input)
        {
            implementations.extend(implementation(item, kind));
            make_generic(item, &kind.files)?;
        }
    }
    Ok(implementations)
}

fn implementation(item: &ItemStruct, kind: &Kind) -> TokenStream {
    let input = &item.ident;
    let name = &kind.name;
    let output = format_ident!("{}", kind.output);
    let pairing = quote! {
        const NAME: &'static str = #name;
        type Output = types::#output;
    };
    if kind.files.is_empty() {
        return quote! {
            impl crate::ModelKind for types::#input {
                #pairing
                type File = String;
                fn into_parts(self) -> crate::KindParts<String> {
                    crate::kind_parts(&self, [])
                }
            }
        };
    }
    let mut values = Vec::new();
    let mut files = Vec::new();
    for field in &item.fields {
        let ident = &field.ident;
        let name = wire_name(field);
        if !kind.files.contains(&name) {
            values.push(quote!(#ident: self.#ident));
        } else if file_in_option(&mut field.ty.clone()).is_some() {
            values.push(quote!(#ident: None));
            files.push(quote!((#name, self.#ident)));
        } else {
            values.push(quote!(#ident: ()));
            files.push(quote!((#name, Some(self.#ident))));
        }
    }
    quote! {
        impl<F> crate::ModelKind for types::#input<F> {
            #pairing
            type File = F;
            fn into_parts(self) -> crate::KindParts<F> {
                let values = types::#input::<()> { #(#values),* };
                crate::kind_parts(&values, [#(#files),*])
            }
        }
    }
}

fn make_generic(item: &mut ItemStruct, files: &BTreeSet<String>) -> Result<()> {
    let mut seen = 0;
    for field in item.fields.iter_mut().filter(|field| files.contains(&wire_name(field))) {
        let file: Type = parse_quote!(F);
        let reader = match file_in_option(&mut field.ty) {
            Some(inner) => {
                *inner = file;
                "crate::kinds::optional_file"
            }
            None => {
                field.ty = file;
                "crate::kinds::file"
            }
        };
        let mut options = serde_options::take(&mut field.attrs)?;
        options.retain(|option| !option.path().is_ident("deserialize_with"));
        options.push(parse_quote!(deserialize_with = #reader));
        serde_options::put(&mut field.attrs, options);
        seen += 1;
    }
    ensure!(seen == files.len(), "{} has {} files, and {seen} fields for them", item.ident, files.len());
    if seen > 0 {
        item.generics = parse_quote!(<F = String>);
        item.attrs.push(parse_quote!(#[serde(bound(deserialize = "F: From<String>"))]));
    }
    Ok(())
}

fn file_in_option(kind: &mut Type) -> Option<&mut Type> {
    let Type::Path(path) = kind else { return None };
    let last = path.path.segments.last_mut().filter(|last| last.ident == "Option")?;
    let PathArguments::AngleBracketed(arguments) = &mut last.arguments else { return None };
    arguments.args.iter_mut().find_map(|argument| match argument {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    })
}

fn wire_name(field: &Field) -> String {
    let mut field = field.clone();
    let options = serde_options::take(&mut field.attrs).unwrap_or_default();
    let renamed = options.iter().find_map(|option| match option {
        Meta::NameValue(option) if option.path.is_ident("rename") => match &option.value {
            Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) => Some(name.value()),
            _ => None,
        },
        _ => None,
    });
    renamed.or_else(|| field.ident.as_ref().map(ToString::to_string)).unwrap_or_default()
}
