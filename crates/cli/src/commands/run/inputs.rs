//! The inputs of a run: words of the command line, files, standard input, JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use inferstore::types::ModelVersioning;
use inferstore::{Error, File, Input as Value, Inputs, ViolationKind, is_http};
use serde_json::value::RawValue;
use serde_json::{Map, json};

use super::RunOptions;
use super::contents::identity;
use crate::commands::api::{not_read, place_of, read_stdin, text_of};
use crate::commands::models;
use crate::commands::outputs::expanded;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::json::Members;
use crate::settings::Session;
use crate::values::{Given, Input, named, stem_of};

#[derive(Default)]
pub(super) struct Collected {
    pub(super) inputs: Inputs,
    /// The inputs that are files, by name.
    pub(super) files: BTreeMap<String, String>,
    /// Files and URLs without the name of an input.
    pub(super) loose: Vec<String>,
    /// The texts of the command line, by name.
    pub(super) texts: BTreeMap<String, String>,
    /// The names of all inputs of the command line.
    pub(super) given: BTreeSet<String>,
    /// All inputs with path, size and time of their files, also of an earlier run: the identity of a batch.
    pub(super) identity: BTreeMap<String, serde_json::Value>,
}

/// Collects the inputs. The command line comes before a JSON object, which comes before an earlier run.
pub(super) fn collect(
    earlier: Map<String, serde_json::Value>,
    options: &RunOptions,
    session: &mut Session,
) -> Result<Collected> {
    let json = |value: &dyn Display| json!({ "json": value.to_string() });
    let identity = earlier.iter().map(|(name, value)| (name.clone(), json(value))).collect();
    let mut collected = Collected { inputs: earlier.into(), identity, ..Collected::default() };
    if let Some(path) = &options.input_json {
        let text = text_of(path, session)?;
        let Members::<Box<RawValue>>(fields) = serde_json::from_str(&text)
            .map_err(|error| not_read(format!("{} is no JSON object: {error}", place_of(path))))?;
        for (name, value) in fields {
            collected.given.insert(name.clone());
            collected.identity.insert(name.clone(), json(&value));
            collected.inputs = collected.inputs.set(name, value);
        }
    }
    let mut named = options.input.clone();
    for word in &options.words {
        if is_named(word) {
            if session.here(word).is_file() {
                session.note(format!(
                    "note: {word} is a file here, and is taken as name=value; the file is ./{word}"
                ));
            }
            named.push(word.parse().map_err(|problem: String| usage(word, &problem))?);
        } else {
            collected.loose.push(without_mark(word, session).to_owned());
        }
    }
    let mut seen = BTreeMap::new();
    for Input { name, value } in named {
        let shown = match &value {
            Given::Text(text) => text.clone(),
            Given::File(path) => format!("@{path}"),
        };
        if let Some(first) = seen.insert(name.clone(), shown.clone()) {
            return Err(Failure::usage(format!("the input {name} is given twice: {first} and {shown}"))
                .with_hint("several files are a batch: inferstore run MODEL a.png b.png -o outputs/"));
        }
        collected.given.insert(name.clone());
        let (inputs, identity) = match value {
            Given::Text(text) => {
                collected.texts.insert(name.clone(), text.clone());
                (collected.inputs.set(name.clone(), &text), text.into())
            }
            Given::File(path) => {
                collected.files.insert(name.clone(), path.clone());
                attach(collected.inputs, name.clone(), &path, session)?
            }
        };
        collected.inputs = inputs;
        collected.identity.insert(name, identity);
    }
    Ok(collected)
}

/// The path without the `@` that marks a file, unless the name of a file begins with it.
pub(super) fn without_mark<'a>(path: &'a str, session: &Session) -> &'a str {
    match path.strip_prefix('@') {
        Some(rest) if !session.environment.folder.join(path).exists() => rest,
        _ => path,
    }
}

fn usage(word: &str, problem: &str) -> Failure {
    Failure::usage(format!("{word:?} is no input: {problem}")).with_hint(
        "write name=value, name=@path, or a path alone; `inferstore models schema MODEL` lists the names",
    )
}

/// Returns true for `name=value`, which is no path or URL.
fn is_named(word: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    named(word).is_some_and(|(name, _)| name.chars().all(is_of_name))
}

/// The inputs with a file, the content of standard input, or a URL, and what makes it the same at the next start.
pub(super) fn attach(
    inputs: Inputs,
    name: String,
    given: &str,
    session: &mut Session,
) -> Result<(Inputs, serde_json::Value)> {
    if given == "-" {
        let content = read_stdin(session)?;
        let identity = json!([content.len(), fingerprint(&content)]);
        return Ok((inputs.file(name, File::bytes("stdin", content)), identity));
    }
    check_no_folder(given, session)?;
    Ok((attach_path(inputs, name, given, session), identity_of(given, session)))
}

pub(super) fn identity_of(given: &str, session: &Session) -> serde_json::Value {
    identity(given, &session.here(expanded(given, session)))
}

/// The FNV-1a hash, which is the same in every build of this command.
fn fingerprint(content: &[u8]) -> String {
    let hash = content.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

pub(super) fn check_files(files: &[String], session: &Session) -> Result {
    for file in files {
        if file == "-" {
            return Err(Failure::usage("standard input cannot be one of several files")
                .with_hint("run it alone; a file that is called - is written ./-"));
        }
        check_no_folder(file, session)?;
    }
    Ok(())
}

fn check_no_folder(given: &str, session: &Session) -> Result {
    if session.here(expanded(given, session)).is_dir() {
        let folder = given.trim_end_matches('/');
        return Err(Failure::new(exit::INPUT, format!("{given} is a folder"))
            .with_hint(format!("name the files in it: {folder}/*; nothing was sent")));
    }
    Ok(())
}

pub(super) fn attach_path(inputs: Inputs, name: String, given: &str, session: &Session) -> Inputs {
    if is_http(given) {
        return inputs.set(name, given);
    }
    inputs.file(name, File::path(session.here(expanded(given, session))))
}

/// The one input that takes a file without a name, of those that the command line does not give.
pub(super) fn file_input(
    version: Option<&ModelVersioning>,
    given: &BTreeSet<String>,
    loose: &[String],
) -> Result<String> {
    let takes = models::files(version.and_then(|version| version.input_format.as_ref()));
    let open: Vec<&String> = takes.iter().filter(|name| !given.contains(*name)).collect();
    let word = loose.first().map(String::as_str).unwrap_or_default();
    match &open[..] {
        [one] => Ok((*one).clone()),
        [] => Err(Failure::usage(format!("{word:?} is no input: the model takes no further file"))
            .with_hint("write name=value; `inferstore models schema MODEL` lists the names")),
        several => {
            let names: Vec<String> = several.iter().map(|name| format!("{name}=@{word}")).collect();
            Err(Failure::usage(format!("{word:?} can be one of several inputs"))
                .with_hint(format!("write {}", names.join(" or "))))
        }
    }
}

/// A hint when the `@` before a path was forgotten.
pub(super) fn forgotten_mark(error: &Error, inputs: &Inputs, session: &Session) -> Option<String> {
    let Error::Inputs(invalid) = error else { return None };
    let mut fields = invalid.violations.iter().filter(|violation| violation.kind == ViolationKind::NotAUrl);
    fields.find_map(|violation| {
        let name = &violation.field;
        let Some(Value::Value(value)) = inputs.get(name) else { return None };
        let text = value.as_str().filter(|text| session.here(expanded(text, session)).is_file())?;
        // `@@` begins a text.
        let here = if text.starts_with('@') { "./" } else { "" };
        Some(format!("{text} is a file here: write {name}=@{here}{text}; nothing was sent"))
    })
}

/// The name of the first file among the inputs, without its extension.
pub(super) fn name_of(loose: &[String], files: &BTreeMap<String, String>) -> Option<String> {
    loose.iter().chain(files.values()).find_map(|file| stem_of(file))
}
