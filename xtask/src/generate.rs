//! From the document to `crates/api/src/generated.rs`: load, validate, lower, progenitor, polish,
//! prettyplease, header; and to the types of the tests, the reference of the console, the part that programs embed and
//! the types of the packages in `sdk`. The output depends on the document alone.

use std::fs;
use std::io::ErrorKind;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use openapi_impact::Tree;
use openapiv3::OpenAPI;
use progenitor::{GenerationSettings, Generator, HooksMode, InterfaceStyle, TypeImpl};
use quote::quote;
use schemars::schema::{InstanceType, SchemaObject};
use serde_path_to_error::Segment;
use similar::TextDiff;

use crate::document::{DOCUMENT, Document, Mistake, Pointer, one_line};
use crate::drift::{EMBEDDED, embedded};
use crate::lower::{self, Lowered, STAND_INS};
use crate::polish;
use crate::reference::reference;
use crate::sdk::{self, Language};
use crate::tables;
use crate::validate::{rust_names, validate};

/// The command that updates a stale file, as messages and the header name it.
const COMMAND: &str = "cargo xtask generate";

/// The generated client.
pub(crate) const CLIENT: &str = "crates/api/src/generated.rs";

/// The generated part of the tests of the document.
const TYPES_OF_TESTS: &str = "tests/document/src/types/generated.rs";

/// The reference of the console.
const REFERENCE: &str = "crates/console/assets/reference.html";

const TYPES_HEADER: &str = "//! The lists of the generated types, by the names of the document.\n";

/// Maximum number of lines of a difference that are shown; `git diff` shows the rest.
const SHOWN_LINES: usize = 40;

/// Maximum number of characters of an error of progenitor that are shown.
const MAX_GENERATOR_ERROR: usize = 200;

#[derive(clap::Args)]
pub(crate) struct Job {
    /// Compare instead; fail when a file is not up to date.
    #[arg(long)]
    check: bool,
    /// Another document.
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
    /// Another file to write the client to, and nothing else.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Job {
    /// The document and the files of the repository.
    pub(crate) fn of_repository(check: bool) -> Self {
        Self { check, document: None, output: None }
    }

    /// Writes or compares, and reports what changed.
    pub(crate) fn run(self, root: &Path) -> Result<String> {
        let document = self.document.unwrap_or_else(|| root.join(DOCUMENT));
        let files = generate(&document)?;
        if let Some(output) = self.output {
            let [(_, client), ..] = &files;
            return write(&document, &output, client, self.check);
        }
        let files = files.iter().rev();
        files.map(|(name, text)| write(&document, &root.join(name), text, self.check)).collect()
    }
}

/// Writes or compares one file, and reports what changed.
fn write(document: &Path, path: &Path, new: &str, is_check: bool) -> Result<String> {
    let output = path.display();
    let old = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {output}")),
    };
    if old == new {
        return Ok(format!("{output} is up to date\n"));
    }
    let changes = changes(&old, new);
    if is_check {
        bail!("{output} does not fit {}\n{changes}hint: run `{COMMAND}` and commit both", document.display());
    }
    fs::write(path, new).with_context(|| format!("cannot write {output}"))?;
    Ok(format!("{output} written\n{changes}"))
}

fn changes(old: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(old, new);
    let unified = diff.unified_diff().context_radius(1).to_string();
    let lines: Vec<&str> = unified.lines().collect();
    let mut shown: String = lines.iter().take(SHOWN_LINES).map(|line| format!("  {line}\n")).collect();
    if lines.len() > SHOWN_LINES {
        shown.push_str(&format!("  … and {} more lines\n", lines.len() - SHOWN_LINES));
    }
    shown
}

/// Returns the generated client for the document at `path`.
pub(crate) fn client(path: &Path) -> Result<String> {
    let [(_, client), ..] = generate(path)?;
    Ok(client)
}

/// Returns the generated files for the document at `path`, the client first.
fn generate(path: &Path) -> Result<[(&'static str, String); 6]> {
    let document = Document::load(path)?;
    document.reject(validate(&document)?)?;
    let lowered = lower::lower(&document.value);
    let spec = read_spec(&document, &lowered)?;
    let mut file = translate(&document, &spec, &settings(&lowered))?;
    document.reject(rust_names::clashes(&file, &document.value))?;
    file.items.extend(syn::parse2::<syn::File>(tables::modules(&document.value))?.items);
    polish::polish(&mut file, &lowered).with_context(|| path.display().to_string())?;
    let header = format!("// @generated by `{COMMAND}` from {DOCUMENT}: change that, and run it again.\n");
    let types = syn::parse2(tables::types_of_tests(&document.value, &lowered))?;
    let ordered: Tree =
        serde_saphyr::from_str(&document.text).context("the document cannot be read again")?;
    Ok([
        (CLIENT, format!("{header}\n{}", prettyplease::unparse(&file))),
        (sdk::TYPESCRIPT, sdk::types(&ordered, Language::TypeScript, COMMAND)?),
        (sdk::PYTHON, sdk::types(&ordered, Language::Python, COMMAND)?),
        (EMBEDDED, embedded(&document.value)),
        (REFERENCE, reference(&document.value)),
        (TYPES_OF_TESTS, format!("{TYPES_HEADER}{header}\n{}", prettyplease::unparse(&types))),
    ])
}

/// progenitor's part.
fn translate(document: &Document, spec: &OpenAPI, settings: &GenerationSettings) -> Result<syn::File> {
    let tokens = without_panics(|| Generator::new(settings).generate_tokens(spec))
        .and_then(|tokens| tokens.map_err(|error| error.to_string()));
    match tokens {
        Ok(tokens) => syn::parse2(tokens).context("progenitor wrote something that is not Rust"),
        Err(error) => {
            // What it could not handle may be printed whole, over hundreds of lines.
            let error: String = one_line(&error).chars().take(MAX_GENERATOR_ERROR).collect();
            bail!("{}: progenitor cannot translate this: {error}", document.path.display())
        }
    }
}

/// Calls what panics on much of what it does not support. `validate` knows the likely things; the rest
/// must not look like a defect of this program.
fn without_panics<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(hook);
    result.map_err(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().map_or("no reason given", |text| *text).to_owned(),
    })
}

fn read_spec(document: &Document, lowered: &Lowered) -> Result<OpenAPI> {
    serde_path_to_error::deserialize(&lowered.document).map_err(|error| {
        let pointer = error.path().iter().fold(Pointer::root(), |pointer, segment| match segment {
            Segment::Seq { index } => pointer.at(index),
            Segment::Map { key } => pointer.at(key),
            Segment::Enum { .. } | Segment::Unknown => pointer,
        });
        document.error(vec![Mistake::new(pointer, error.inner().to_string())])
    })
}

fn settings(lowered: &Lowered) -> GenerationSettings {
    let mut settings = GenerationSettings::default();
    settings
        .with_interface(InterfaceStyle::Positional)
        // The API key and what sends the requests, for the hooks in `crates/api`.
        .with_inner_type(quote!(crate::client::Session))
        .with_hooks(HooksMode::Expected)
        .with_map_type("::std::collections::BTreeMap")
        .with_derive("PartialEq");
    let words = lowered.words.iter().map(|words| (&words.name, words.path()));
    let ids = lowered.ids.iter().map(|id| (&id.name, id.path()));
    for (name, path) in words.chain(ids) {
        settings.with_replacement(name, path, [TypeImpl::Display, TypeImpl::FromStr].into_iter());
    }
    for envelope in &lowered.envelopes {
        settings.with_replacement(&envelope.name, envelope.path(), std::iter::empty());
    }
    for stand_in in &STAND_INS {
        let schema = SchemaObject {
            instance_type: Some(InstanceType::String.into()),
            format: Some(stand_in.format.to_owned()),
            ..SchemaObject::default()
        };
        settings.with_conversion(schema, stand_in.path, [TypeImpl::Display].into_iter());
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::without_panics;

    #[test]
    #[expect(clippy::panic, reason = "a panic is what is tested")]
    fn a_panic_of_the_generator_becomes_its_text() {
        assert_eq!(without_panics(|| 7), Ok(7));
        assert_eq!(without_panics(|| -> i32 { panic!("not yet") }), Err("not yet".to_owned()));
        assert_eq!(without_panics(|| -> i32 { panic!("not {}", "ever") }), Err("not ever".to_owned()));
    }
}
