//! Rust for one model, from what it declares: its input and output as types.

use std::collections::HashSet;
use std::fmt::Write as _;

use inferstore::by_position;
use inferstore::types::{Descriptor, DescriptorType, ModelVersioning};

use crate::schema::explanation;
use crate::table::printable;

pub(crate) fn module(version: &ModelVersioning) -> Result<String, String> {
    let inputs = by_position(version.input_format.as_ref());
    let outputs = by_position(version.output_format.as_ref());
    if inputs.is_empty() {
        return Err("it declares no inputs".to_owned());
    }
    let id = version.model_id.to_string();
    let mut types = Types::default();
    let kinds = inputs.iter().map(|(name, descriptor)| types.input(name, descriptor)).collect();
    let input = structure("Input", &inputs, kinds);
    // A word of a list is a text here: a result is paid, and a new word must not lose it.
    let kinds = outputs.iter().map(|(_, descriptor)| types.plain(descriptor).to_owned()).collect();
    let output = structure("Output", &outputs, kinds);
    let Types { enums, has_json, .. } = types;
    // A line of text that others wrote must stay one.
    let [name, commit] = [&id, version.commit_hash.as_deref().unwrap_or("of unknown version")].map(printable);
    let mut head = format!(
        "//! The model {name}, version {commit}, in types. Written by `inferstore models code`.\n//!\n\
         //! The types need serde: `cargo add serde --features derive`.\n"
    );
    if has_json {
        head += "//! A value of any kind needs serde_json: `cargo add serde_json`.\n";
    }
    if inputs.iter().any(|(_, descriptor)| descriptor.type_ == Some(DescriptorType::File)) {
        head += NEEDS_UPLOAD;
    }
    Ok(format!(
        r#"{head}
/// The identifier of the model.
pub const MODEL: &str = {id:?};

/// Inputs of the model {name}.
{input}{enums}
/// Outputs of the model {name}.
{output}
impl inferstore::ModelKind for Input {{
    const NAME: &'static str = MODEL;
    type Output = Output;
    type File = String;

    fn into_parts(self) -> inferstore::KindParts<String> {{
        inferstore::kind_parts(&self, [])
    }}
}}

/// Runs the model. The run starts when it is awaited, and takes options before that.
pub fn run(client: &inferstore::Client, input: Input) -> inferstore::Run<Output> {{
    client.model(MODEL).run_typed(input)
}}
"#
    ))
}

/// Comment on inputs that are files: this module has no catalog that knows which texts are URLs of files.
const NEEDS_UPLOAD: &str = "\
//! An input that is a file is a URL, such as that of an upload:
//! `client.folder(\"samples\").upload(inferstore::File::path(\"photo.jpg\")).await?.download_url`.
";

#[derive(Default)]
struct Types {
    enums: String,
    names: HashSet<String>,
    has_json: bool,
}

impl Types {
    fn input(&mut self, field: &str, descriptor: &Descriptor) -> String {
        let kind = self.words(field, descriptor).unwrap_or_else(|| self.plain(descriptor).to_owned());
        if descriptor.required == Some(true) { kind } else { format!("Option<{kind}>") }
    }

    /// Writes the enumeration of an input that is one word of a list, and returns its name.
    fn words(&mut self, field: &str, descriptor: &Descriptor) -> Option<String> {
        let words: Vec<&str> = descriptor.samples.iter().flatten().map(|word| word.as_str()).collect();
        if descriptor.type_ != Some(DescriptorType::Options) || words.is_empty() {
            return None;
        }
        let name = unique(format!("Input{}", upper_camel(field)), "", &mut self.names);
        let _ = write!(
            self.enums,
            "\n/// {}\n#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]\n\
             pub enum {name} {{\n",
            description(descriptor)
        );
        let mut variants = HashSet::new();
        for word in words {
            let variant = unique(variant_name(word), "", &mut variants);
            if let Some(label) = descriptor.labels.as_ref().and_then(|labels| labels.get(word)) {
                let _ = writeln!(self.enums, "    /// {}", printable(label));
            }
            let _ = write!(self.enums, "    #[serde(rename = {word:?})]\n    {variant},\n");
        }
        self.enums += "}\n";
        Some(name)
    }

    fn plain(&mut self, descriptor: &Descriptor) -> &'static str {
        match descriptor.type_ {
            Some(DescriptorType::Int) => "i64",
            Some(DescriptorType::Float) => "f64",
            Some(DescriptorType::File | DescriptorType::Options | DescriptorType::String) => "String",
            // An unknown type may mean any JSON.
            Some(_) | None => {
                self.has_json = true;
                "serde_json::Value"
            }
        }
    }
}

fn structure(name: &str, fields: &[(&String, &Descriptor)], kinds: Vec<String>) -> String {
    let mut text = format!(
        "#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]\npub struct {name} {{\n"
    );
    let mut names = HashSet::new();
    for ((field, descriptor), kind) in fields.iter().zip(kinds) {
        let name = unique(field_name(field), "_", &mut names);
        let rename = (name != **field).then(|| format!("rename = {field:?}"));
        let optional = kind.starts_with("Option<").then(|| OPTIONAL.to_owned());
        let settings: Vec<_> = rename.into_iter().chain(optional).collect();
        let _ = writeln!(text, "    /// {}", description(descriptor));
        if !settings.is_empty() {
            let _ = writeln!(text, "    #[serde({})]", settings.join(", "));
        }
        let _ = writeln!(text, "    pub {name}: {kind},");
    }
    text + "}\n"
}

const OPTIONAL: &str = "default, skip_serializing_if = \"Option::is_none\"";

fn unique(name: String, separator: &str, taken: &mut HashSet<String>) -> String {
    let separator = if name.ends_with(|last: char| last.is_ascii_digit()) { "_" } else { separator };
    let numbered = (2..).map(|number| format!("{name}{separator}{number}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| taken.insert(name.clone()));
    free.unwrap_or(name)
}

fn field_name(name: &str) -> String {
    let name = parts(name).join("_");
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        format!("value_{name}")
    } else if KEYWORDS.contains(&name.as_str()) {
        name + "_"
    } else {
        name
    }
}

fn variant_name(word: &str) -> String {
    let name = upper_camel(word);
    let is_name = name.starts_with(|first: char| first.is_ascii_uppercase()) && name != "Self";
    if is_name { name } else { format!("Value{name}") }
}

fn upper_camel(name: &str) -> String {
    parts(name).iter().map(|part| part[..1].to_ascii_uppercase() + &part[1..]).collect()
}

/// Splits a name of any spelling into lowercase words of ASCII letters and digits.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && before.is_ascii_lowercase()) {
            parts.push(String::new());
        }
        if c.is_ascii_alphanumeric() {
            parts.last_mut().into_iter().for_each(|part| part.push(c.to_ascii_lowercase()));
        }
        before = c;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

fn description(descriptor: &Descriptor) -> String {
    let samples: Vec<&str> = descriptor.samples.iter().flatten().map(|sample| sample.as_str()).collect();
    let kind = match (&descriptor.type_, &descriptor.mime_type) {
        (Some(DescriptorType::File), Some(patterns)) => {
            &format!("The URL of a file of type {}.", patterns.join(" or "))
        }
        (Some(DescriptorType::File), None) => "The URL of a file.",
        (Some(DescriptorType::Options), _) => "One word of a list.",
        (Some(DescriptorType::String), _) => "A text.",
        (Some(DescriptorType::Int), _) => "A whole number.",
        (Some(DescriptorType::Float), _) => "A number.",
        _ => "Any JSON.",
    };
    let mut sentences = vec![explanation(descriptor), kind.to_owned()];
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
    // A line break would end the comment.
    printable(sentences.join(" ").trim_start())
}

/// The typing rule: a number whose samples are texts is sent as one.
fn is_spelled_as_text(descriptor: &Descriptor) -> bool {
    let is_number = matches!(descriptor.type_, Some(DescriptorType::Int | DescriptorType::Float));
    is_number && descriptor.samples.iter().flatten().next().is_some_and(|sample| sample.is_string())
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn odd_names_and_texts_become_valid_names_and_stay_in_their_comment() {
        let option = |position: u64, samples: &[&str]| serde_json::json!({"type": "options", "position": position, "required": true, "samples": samples});
        let version = serde_json::json!({
            "model_id": "odd", "commit_hash": "1\nfn main() {}",
            "input_format": {
                "type": {"type": "file", "position": 1, "mime_type": ["image/*\nfn main() {}"]},
                "2 D": option(2, &["+10", "-10", "Self", "", "größer als", "darkMode", "dark mode"]),
                "maxSize": {"type": "int", "position": 3, "description": "Up to \n here"},
                "max size": {"type": "float", "position": 4, "required": true},
                "a\"b": {"type": "tensor", "position": 5},
            },
            "output_format": {"label": option(1, &["cat", "dog"])},
        });
        let version = serde_json::from_value(version).expect("a version");
        insta::assert_snapshot!(module(&version).expect("it has inputs"));
    }
}
