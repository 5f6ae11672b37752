//! Rust for one model, from what it declares: its input and output as types.

use inferstore::types::{Descriptor, DescriptorType, ModelVersioning};
use quote::quote;
use schemars::schema::{
    InstanceType, Metadata, NumberValidation, ObjectValidation, RootSchema, Schema, SchemaObject,
};
use syn::visit_mut::VisitMut;
use typify::{TypeSpace, TypeSpaceSettings};

use crate::schema::{explanation, ordered};
use crate::table::printable;

/// A module that runs the model with types of its own.
pub(crate) fn module(version: &ModelVersioning) -> Result<String, String> {
    let inputs = ordered(version.input_format.as_ref());
    let outputs = ordered(version.output_format.as_ref());
    if inputs.is_empty() {
        return Err("it declares no inputs".to_owned());
    }
    let id = version.model_id.to_string();
    let mut types = TypeSpace::new(TypeSpaceSettings::default().with_derive("PartialEq".to_owned()));
    for (name, description, fields) in [
        ("Input", format!("Inputs of the model {id}."), &inputs),
        ("Output", format!("Outputs of the model {id}."), &outputs),
    ] {
        let schema = object(name, description, fields);
        types.add_root_schema(schema).map_err(|error| error.to_string())?;
    }
    let types = types.to_stream();
    let file = quote! {
        /// The identifier of the model.
        pub const MODEL: &str = #id;

        #types

        impl inferstore::ModelKind for Input {
            const NAME: &'static str = MODEL;
            type Output = Output;
            type File = String;

            fn into_parts(self) -> inferstore::KindParts<String> {
                inferstore::kind_parts(&self, [])
            }
        }

        /// Runs the model. The run starts when it is awaited, and takes options before that.
        pub fn run(client: &inferstore::Client, input: Input) -> inferstore::Run<Output> {
            client.model(MODEL).run_typed(input)
        }
    };
    let mut file = syn::parse2::<syn::File>(file).map_err(|error| error.to_string())?;
    SpacedDocs.visit_file_mut(&mut file);
    let version = version.commit_hash.as_deref().unwrap_or("of unknown version");
    // A line of text that others wrote must stay one.
    let version = printable(version);
    let mut head = format!(
        "//! The model {}, version {version}, in types. Written by `inferstore models code`.\n//!\n{NEEDS_SERDE}",
        printable(&id)
    );
    if inputs.iter().any(|(_, descriptor)| descriptor.type_ == Some(DescriptorType::File)) {
        head += NEEDS_UPLOAD;
    }
    Ok(format!("{head}\n{}", prettyplease::unparse(&file)))
}

const NEEDS_SERDE: &str = "//! The types need serde: `cargo add serde --features derive`.\n";

/// Comment on inputs that are files: this module has no catalog that knows which texts are URLs of files.
const NEEDS_UPLOAD: &str = "\
//! An input that is a file is a URL, such as that of an upload:
//! `client.folder(\"samples\").upload(inferstore::File::path(\"photo.jpg\")).await?.download_url`.
";

/// typify writes `///Text`, people write `/// Text`.
struct SpacedDocs;

impl VisitMut for SpacedDocs {
    fn visit_attribute_mut(&mut self, attribute: &mut syn::Attribute) {
        if let syn::Meta::NameValue(doc) = &mut attribute.meta
            && doc.path.is_ident("doc")
            && let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &mut doc.value
            && !text.value().starts_with(' ')
        {
            *text = syn::LitStr::new(&format!(" {}", text.value()), text.span());
        }
    }
}

/// An object with these fields as JSON Schema.
fn object(name: &str, description: String, fields: &[(&String, &Descriptor)]) -> RootSchema {
    let mut object = ObjectValidation::default();
    for (field, descriptor) in fields {
        if descriptor.required == Some(true) || name == "Output" {
            object.required.insert((*field).clone());
        }
        object.properties.insert((*field).clone(), Schema::Object(schema(descriptor)));
    }
    let schema = SchemaObject {
        instance_type: Some(InstanceType::Object.into()),
        object: Some(Box::new(object)),
        metadata: described(Some(name.to_owned()), description),
        ..SchemaObject::default()
    };
    RootSchema { schema, ..RootSchema::default() }
}

fn described(title: Option<String>, description: String) -> Option<Box<Metadata>> {
    Some(Box::new(Metadata { title, description: Some(description), ..Metadata::default() }))
}

/// One parameter as JSON Schema. What a type cannot say, such as the range, is in its description; the
/// client checks it before anything is sent.
fn schema(descriptor: &Descriptor) -> SchemaObject {
    let samples: Vec<&str> = descriptor.samples.iter().flatten().map(|sample| sample.as_str()).collect();
    let range = descriptor.num_config.as_ref();
    let bound =
        |bound: Option<&inferstore::Decimal>| bound.and_then(|bound| bound.as_str().parse::<f64>().ok());
    let number = NumberValidation {
        minimum: bound(range.and_then(|range| range.min.as_ref())),
        maximum: bound(range.and_then(|range| range.max.as_ref())),
        ..NumberValidation::default()
    };
    let (instance, values) = match descriptor.type_ {
        Some(DescriptorType::Int) => (Some(InstanceType::Integer), None),
        Some(DescriptorType::Float) => (Some(InstanceType::Number), None),
        Some(DescriptorType::Options) if !samples.is_empty() => (
            Some(InstanceType::String),
            Some(samples.iter().map(|word| serde_json::Value::from(*word)).collect()),
        ),
        Some(DescriptorType::File | DescriptorType::Options | DescriptorType::String) => {
            (Some(InstanceType::String), None)
        }
        // An unknown type may mean any JSON.
        Some(_) | None => (None, None),
    };
    let is_integer = instance == Some(InstanceType::Integer);
    SchemaObject {
        metadata: described(None, description(descriptor, &samples)),
        instance_type: instance.map(Into::into),
        enum_values: values,
        // Without it typify picks a type by the range, and another one when the range changes.
        format: is_integer.then(|| "int64".to_owned()),
        number: (!is_integer && (number.minimum.is_some() || number.maximum.is_some()))
            .then(|| Box::new(number)),
        ..SchemaObject::default()
    }
}

fn description(descriptor: &Descriptor, samples: &[&str]) -> String {
    let mut sentences = Vec::new();
    let explanation = printable(&explanation(descriptor));
    if !explanation.is_empty() {
        sentences.push(explanation);
    }
    match (&descriptor.type_, &descriptor.mime_type) {
        (Some(DescriptorType::File), Some(patterns)) => {
            sentences.push(format!("The URL of a file of type {}.", patterns.join(" or ")));
        }
        (Some(DescriptorType::File), None) => sentences.push("The URL of a file.".to_owned()),
        (Some(DescriptorType::Options), _) => sentences.push("One word of a list.".to_owned()),
        (Some(DescriptorType::String), _) => sentences.push("A text.".to_owned()),
        (Some(DescriptorType::Int), _) => sentences.push("A whole number.".to_owned()),
        (Some(DescriptorType::Float), _) => sentences.push("A number.".to_owned()),
        _ => sentences.push("Any JSON.".to_owned()),
    }
    if let Some(range) = &descriptor.num_config {
        let words = [("from", &range.min), ("to", &range.max), ("in steps of", &range.step)];
        let words: Vec<String> =
            words.iter().filter_map(|(word, bound)| Some(format!("{word} {}", bound.as_ref()?))).collect();
        sentences.push(format!("It goes {}.", words.join(" ")));
    }
    if is_spelled_as_text(descriptor) {
        sentences.push("It is sent as a text.".to_owned());
    }
    // The samples of a file are at the address of one service.
    let has_examples = !matches!(descriptor.type_, Some(DescriptorType::Options | DescriptorType::File));
    if has_examples && !samples.is_empty() {
        sentences.push(format!("Such as {}.", samples.join(", ")));
    }
    sentences.join(" ")
}

/// The typing rule: a number whose samples are texts is sent as one.
fn is_spelled_as_text(descriptor: &Descriptor) -> bool {
    let is_number = matches!(descriptor.type_, Some(DescriptorType::Int | DescriptorType::Float));
    is_number && descriptor.samples.iter().flatten().next().is_some_and(|sample| sample.is_string())
}
