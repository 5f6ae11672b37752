//! Entries of a batch: the inputs of each run, and its identity across starts.

use std::collections::{BTreeMap, HashSet};

use inferstore::types::{Descriptor, DescriptorType, ModelVersioning};
use inferstore::{Decimal, Inputs};
use serde_json::{Value, json};

use super::inputs::{
    Collected, attach, attach_path, check_files, file_input, identity_of, name_of, without_mark,
};
use super::names::unique_names;
use super::rows::{self, Row};
use super::sweeps::{Sweep, is_number, sweeps};
use crate::commands::api::{place_of, text_of};
use crate::commands::outputs::short;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::settings::Session;
use crate::values::stem_of;

/// One run of a batch.
#[derive(Default)]
pub(in crate::commands) struct Entry {
    /// Its name in messages and records: a file, or a row.
    pub(in crate::commands) label: String,
    pub(in crate::commands) inputs: Inputs,
    /// The name of its outputs, which no other entry has.
    pub(in crate::commands) name: String,
    /// The inputs as they were given, apart from `file`; each name once.
    pub(in crate::commands) others: Vec<(String, Value)>,
    /// The file of the entry, as it is.
    pub(in crate::commands) file: Value,
    /// The place of the entry with the same inputs that is run for this one.
    pub(in crate::commands) same_as: Option<usize>,
    /// The key of an item with the same contents, whose files had other times.
    pub(in crate::commands) item: Option<String>,
}

/// The entries of all rows or files, each with all values of the sweeps.
pub(super) fn all(
    collected: Collected,
    sweeps: &[Sweep],
    rows: Option<&str>,
    version: &ModelVersioning,
    session: &mut Session,
) -> Result<Vec<Entry>> {
    let Collected { mut inputs, files, loose, given, identity: mut others, .. } = collected;
    check_files(&loose, session)?;
    let field = loose.first().map(|_| file_input(Some(version), &given, &loose)).transpose()?;
    let entries = match (rows, field) {
        (Some(_), _) if loose.len() > 1 => {
            let hint = "name the files in a column; nothing was sent";
            return Err(Failure::usage("rows take one further file").with_hint(hint));
        }
        (Some(path), field) => {
            if let Some((field, file)) = field.zip(loose.first()) {
                let (attached, identity) = attach(inputs, field.clone(), file, session)?;
                inputs = attached;
                others.insert(field, identity);
            }
            read(path, version, &inputs, &others, session)?
        }
        (None, Some(field)) => of_files(&loose, &field, &inputs, others, session),
        (None, None) => {
            let name = name_of(&loose, &files).unwrap_or_default();
            let others = others.into_iter().collect();
            vec![Entry { inputs, name, others, ..Entry::default() }]
        }
    };
    Ok(swept(entries, sweeps))
}

/// The entries of a file with rows. Each has the inputs of the command line, and those of its columns.
fn read(
    path: &str,
    version: &ModelVersioning,
    inputs: &Inputs,
    others: &BTreeMap<String, Value>,
    session: &mut Session,
) -> Result<Vec<Entry>> {
    let text = text_of(path, session)?;
    let place = place_of(path);
    let rows = rows::parse(&text, place)?;
    if rows.is_empty() {
        return Err(Failure::new(exit::INPUT, format!("{place} has no rows"))
            .with_hint("the first line of a CSV file names the inputs; each further line is a row"));
    }
    let declared = version.input_format.clone().unwrap_or_default();
    let parsed = rows.into_iter().map(|Row { line, mut values }| {
        let label = format!("{place}:{line}");
        let text = |(name, value): &(String, Value)| Some((name.clone(), value.as_str()?.to_owned()));
        let row = || {
            let sweeps = sweeps(&values.iter().filter_map(text).collect(), version)?;
            if let Some((name, _)) = sweeps.iter().find(|(name, _)| others.contains_key(name)) {
                return Err(given_twice(name));
            }
            values.retain(|(name, _)| !sweeps.iter().any(|(sweep, _)| sweep == name));
            Ok((entry(&label, values, &declared, inputs, others, session)?, sweeps))
        };
        row().map_err(|failure| failure.about(&label))
    });
    let (mut entries, sweeps): (Vec<Entry>, Vec<Vec<Sweep>>) = parsed.collect::<Result<_>>()?;
    name_each(&mut entries);
    Ok(entries.into_iter().zip(&sweeps).flat_map(|(entry, sweeps)| swept(vec![entry], sweeps)).collect())
}

/// The entry with these values. A text is a path or a URL where the model declares a file.
pub(in crate::commands) fn entry(
    label: &str,
    values: Vec<(String, Value)>,
    declared: &BTreeMap<String, Descriptor>,
    inputs: &Inputs,
    others: &BTreeMap<String, Value>,
    session: &Session,
) -> Result<Entry> {
    let mut entry =
        Entry { label: label.to_owned(), inputs: inputs.clone(), others: listed(others), ..Entry::default() };
    for (name, value) in values {
        if others.contains_key(&name) {
            return Err(given_twice(&name));
        }
        let input = declared.get(&name);
        let is_file = input.is_some_and(|input| input.type_ == Some(DescriptorType::File));
        let identity = match value {
            Value::String(path) if is_file => {
                let path = without_mark(&path, session);
                check_files(&[path.to_owned()], session)?;
                if entry.name.is_empty() {
                    entry.name = stem_of(path).map(|stem| short(&stem).to_owned()).unwrap_or_default();
                }
                entry.inputs = attach_path(entry.inputs, name.clone(), path, session);
                identity_of(path, session)
            }
            Value::String(text) => {
                entry.inputs = entry.inputs.set(name.clone(), &text);
                if input.is_some_and(is_number) { spelled(&text) } else { text }.into()
            }
            value => {
                entry.inputs = entry.inputs.set(name.clone(), &value);
                match value {
                    Value::Number(number) => spelled(&number.to_string()).into(),
                    value => json!({ "json": value.to_string() }),
                }
            }
        };
        entry.others.push((name, identity));
    }
    entry.others.shrink_to_fit();
    Ok(entry)
}

fn listed(others: &BTreeMap<String, Value>) -> Vec<(String, Value)> {
    others.iter().map(|(name, identity)| (name.clone(), identity.clone())).collect()
}

/// Returns the one spelling of a number: 12, "12" and 12.0 are the same input.
fn spelled(text: &str) -> String {
    let number: Option<Decimal> = text.trim().parse().ok();
    number.and_then(|number| number.to_plain_string()).unwrap_or_else(|| text.to_owned())
}

fn given_twice(name: &str) -> Failure {
    Failure::usage(format!("the input {name} is a column, and given besides"))
        .with_hint("give it once; nothing was sent")
}

/// Gives each entry a name that no other one has: that of its first file, with the line of its row if need be.
fn name_each(entries: &mut [Entry]) {
    let mut names = HashSet::new();
    for entry in entries {
        let line = entry.label.rsplit(':').next().unwrap_or_default();
        if entry.name.is_empty() {
            entry.name = format!("row-{line}");
        }
        while !names.insert(entry.name.clone()) {
            entry.name = format!("{}-row-{line}", entry.name);
        }
    }
}

/// Each entry with each value of the sweeps.
fn swept(entries: Vec<Entry>, sweeps: &[Sweep]) -> Vec<Entry> {
    sweeps.iter().fold(entries, |entries, (name, values)| {
        let with = |entry: &Entry, value: &Decimal| {
            let text = value.to_string();
            let mut others = entry.others.clone();
            others.push((name.clone(), text.clone().into()));
            let join = |before: &str, between: &str, after: String| match before {
                "" => after,
                before => format!("{before}{between}{after}"),
            };
            Entry {
                label: join(&entry.label, " ", format!("{name}={text}")),
                inputs: entry.inputs.clone().set(name.clone(), &text),
                name: join(&entry.name, "-", format!("{name}-{text}")),
                others,
                file: entry.file.clone(),
                ..Entry::default()
            }
        };
        entries.iter().flat_map(|entry| values.iter().map(move |value| with(entry, value))).collect()
    })
}

/// The entries of files that are found later: see `run --watch`.
pub(super) struct Template {
    /// The input that takes the file.
    field: String,
    inputs: Inputs,
    others: BTreeMap<String, Value>,
    sweeps: Vec<Sweep>,
}

impl Template {
    /// The template for files in a folder.
    pub(super) fn new(
        collected: Collected,
        sweeps: Vec<Sweep>,
        version: &ModelVersioning,
        folder: &str,
    ) -> Result<Self> {
        let Collected { inputs, loose, given, identity: others, .. } = collected;
        if let Some(word) = loose.first() {
            return Err(Failure::usage(format!("{word:?} is given beside --watch"))
                .with_hint("the files of the folder take that input; nothing was sent"));
        }
        let field = file_input(Some(version), &given, &[format!("{folder}/FILE")])?;
        Ok(Self { field, inputs, others, sweeps })
    }

    pub(super) fn entries(&self, files: &[String], session: &Session) -> Vec<Entry> {
        let entries = of_files(files, &self.field, &self.inputs, self.others.clone(), session);
        swept(entries, &self.sweeps)
    }
}

/// An entry for each file, which goes to the input `field`.
fn of_files(
    files: &[String],
    field: &str,
    inputs: &Inputs,
    mut others: BTreeMap<String, Value>,
    session: &Session,
) -> Vec<Entry> {
    others.remove(field);
    let entry = |(file, name): (&String, String)| Entry {
        label: file.clone(),
        inputs: attach_path(inputs.clone(), field.to_owned(), file, session),
        name,
        others: listed(&others),
        file: identity_of(file, session),
        ..Entry::default()
    };
    files.iter().zip(unique_names(files)).map(entry).collect()
}
