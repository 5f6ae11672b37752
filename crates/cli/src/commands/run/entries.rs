//! Entries of a batch: the inputs of each run, and its identity across starts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use inferstore::types::{Descriptor, DescriptorType, ModelVersioning};
use inferstore::{Decimal, Inputs};
use serde_json::{Value, json};

use super::inputs::{
    Collected, attach, attach_path, check_files, file_input, identity_of, name_of, without_mark,
};
use super::journal::hash_of;
use super::rows::{self, Row};
use super::sweeps::{Sweep, is_number, sweeps};
use crate::commands::api::{not_read, place_of, text_of};
use crate::commands::outputs::{harmless, short};
use crate::exit;
use crate::failure::{Failure, Result};
use crate::settings::Session;
use crate::values::stem_of;

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
    /// The key of an item with the same contents, whose files had other times.
    pub(in crate::commands) item: Option<String>,
}

/// The entries of a batch. Each is made from its seed when it is needed, because there may be very many.
#[derive(Default)]
pub(in crate::commands) struct Entries {
    /// The inputs that all entries have, and what makes them the same at the next start.
    inputs: Inputs,
    others: BTreeMap<String, Value>,
    /// The input that takes the file of each entry.
    field: Option<String>,
    declared: BTreeMap<String, Descriptor>,
    pub(super) seeds: Vec<Seed>,
}

/// Seed of an entry: the part that no other entry has.
#[derive(Clone)]
pub(super) struct Seed {
    pub(super) label: Box<str>,
    name: Box<str>,
    /// The inputs of the row as JSON, which takes less memory.
    row: Box<str>,
    swept: Box<[(String, String)]>,
}

impl Seed {
    fn new(label: &str, name: &str, row: &[(String, Value)]) -> Self {
        let row = json!(row).to_string().into();
        Self { label: label.into(), name: name.into(), row, swept: Box::default() }
    }
}

impl Entries {
    pub(super) fn entry(&self, seed: &Seed, session: &Session) -> Result<Entry> {
        let row = serde_json::from_str(&seed.row);
        let mut row: Vec<(String, Value)> =
            row.map_err(|error| not_read(format!("{} cannot be read: {error}", seed.label)))?;
        let file = self.field.as_ref().zip(row.pop_if(|(name, _)| Some(&*name) == self.field.as_ref()));
        let mut entry = entry(&seed.label, row, &self.declared, &self.inputs, &self.others, session)?;
        if let Some((field, (_, path))) = file {
            let path = path.as_str().unwrap_or_default();
            entry.inputs = attach_path(entry.inputs, field.clone(), path, session);
            entry.file = identity_of(path, session);
        }
        for (name, value) in &seed.swept {
            entry.inputs = entry.inputs.set(name.clone(), value);
            entry.others.push((name.clone(), value.as_str().into()));
        }
        Ok(Entry { name: seed.name.to_string(), ..entry })
    }

    pub(super) fn all(&self, session: &Session) -> Result<Vec<Entry>> {
        self.seeds.iter().map(|seed| self.entry(seed, session)).collect()
    }
}

/// The entries of all rows or files, each with all values of the sweeps.
pub(super) fn entries(
    collected: Collected,
    sweeps: &[Sweep],
    rows: Option<&str>,
    version: &ModelVersioning,
    session: &mut Session,
) -> Result<Entries> {
    let Collected { mut inputs, files, loose, given, identity: mut others, .. } = collected;
    check_files(&loose, session)?;
    let field = loose.first().map(|_| file_input(Some(version), &given, &loose)).transpose()?;
    let declared = version.input_format.clone().unwrap_or_default();
    if rows.is_some() {
        if loose.len() > 1 {
            let hint = "name the files in a column; nothing was sent";
            return Err(Failure::usage("rows take one further file").with_hint(hint));
        }
        if let Some((field, file)) = field.clone().zip(loose.first()) {
            let (attached, identity) = attach(inputs, field.clone(), file, session)?;
            inputs = attached;
            others.insert(field, identity);
        }
    }
    let mut entries = Entries { inputs, others, declared, ..Entries::default() };
    let seeds = match (rows, field) {
        (Some(path), _) => read(path, version, &entries, session)?,
        (None, Some(field)) => return Ok(of_files(loose, field, entries, sweeps)),
        (None, None) => {
            vec![Seed::new("", &name_of(&loose, &files).unwrap_or_default(), &[])]
        }
    };
    entries.seeds = swept(seeds, sweeps);
    Ok(entries)
}

/// The rows of a file. Each has a name that no other one has: that of its first file, with the line if need be.
fn read(
    path: &str,
    version: &ModelVersioning,
    entries: &Entries,
    session: &mut Session,
) -> Result<Vec<Seed>> {
    let text = text_of(path, session)?;
    let place = place_of(path);
    let (mut names, mut seeds) = (HashSet::new(), Vec::new());
    for row in rows::parse(&text, place)? {
        let Row { line, mut values } = row?;
        let label = format!("{place}:{line}");
        let text = |(name, value): &(String, Value)| Some((name.clone(), value.as_str()?.to_owned()));
        let mut seed = || {
            let sweeps = sweeps(&values.iter().filter_map(text).collect(), version)?;
            if let Some((name, _)) = sweeps.iter().find(|(name, _)| entries.others.contains_key(name)) {
                return Err(given_twice(name));
            }
            values.retain(|(name, _)| !sweeps.iter().any(|(sweep, _)| sweep == name));
            let row = std::mem::take(&mut values);
            let Entries { declared, inputs, others, .. } = entries;
            let mut name = entry(&label, row.clone(), declared, inputs, others, session)?.name;
            if name.is_empty() {
                name = format!("row-{line}");
            }
            while !names.insert(hash_of(&name)) {
                name = format!("{name}-row-{line}");
            }
            Ok(swept(vec![Seed::new(&label, &name, &row)], &sweeps))
        };
        seeds.extend(seed().map_err(|failure| failure.about(&label))?);
    }
    if seeds.is_empty() {
        return Err(Failure::new(exit::INPUT, format!("{place} has no rows"))
            .with_hint("the first line of a CSV file names the inputs; each further line is a row"));
    }
    Ok(seeds)
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

fn swept(seeds: Vec<Seed>, sweeps: &[Sweep]) -> Vec<Seed> {
    sweeps.iter().fold(seeds, |seeds, (name, values)| {
        let with = |seed: &Seed, value: &Decimal| {
            let join = |before: &str, between: &str, after: String| match before {
                "" => after.into(),
                before => format!("{before}{between}{after}").into(),
            };
            let swept = seed.swept.iter().cloned().chain([(name.clone(), value.to_string())]);
            Seed {
                label: join(&seed.label, " ", format!("{name}={value}")),
                name: join(&seed.name, "-", format!("{name}-{value}")),
                row: seed.row.clone(),
                swept: swept.collect(),
            }
        };
        seeds.iter().flat_map(|seed| values.iter().map(move |value| with(seed, value))).collect()
    })
}

/// The entries of files that are found later: see `run --watch`.
#[derive(Clone)]
pub(super) struct Template {
    field: String,
    inputs: Inputs,
    others: BTreeMap<String, Value>,
    sweeps: Vec<Sweep>,
}

impl Template {
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

    pub(super) fn entries(&self, files: Vec<String>, session: &Session) -> Result<Vec<Entry>> {
        let Self { field, inputs, others, sweeps } = self.clone();
        of_files(files, field, Entries { inputs, others, ..Entries::default() }, &sweeps).all(session)
    }
}

fn of_files(files: Vec<String>, field: String, mut entries: Entries, sweeps: &[Sweep]) -> Entries {
    entries.others.remove(&field);
    let names = unique_names(&files);
    let seed =
        |(file, name): (String, String)| Seed::new(&file, &name, &[(field.clone(), file.as_str().into())]);
    entries.seeds = swept(files.into_iter().zip(names).map(seed).collect(), sweeps);
    Entries { field: Some(field), ..entries }
}

/// A name for each file that no other one has: its stem, else its name, else its path, with a number if need be.
fn unique_names(files: &[String]) -> Vec<String> {
    let candidates: Vec<[String; 3]> = files.iter().map(|file| candidates(file)).collect();
    let mut counts: HashMap<(usize, &str), usize> = HashMap::new();
    for candidates in &candidates {
        for (kind, name) in candidates.iter().enumerate() {
            *counts.entry((kind, name)).or_default() += 1;
        }
    }
    let mut used = HashSet::new();
    let unused = |candidates: &[String; 3]| {
        let [_, _, path] = candidates;
        let is_unique = |(kind, name): &(usize, &String)| counts.get(&(*kind, name.as_str())) == Some(&1);
        let name = candidates.iter().enumerate().find(is_unique).map_or(path, |(_, name)| name);
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let unused = std::iter::once(name.clone()).chain(numbered).find(|name| used.insert(name.clone()));
        unused.unwrap_or_else(|| name.clone())
    };
    candidates.iter().map(unused).collect()
}

/// The stem, the name and the path of a file, each as the name of an output.
fn candidates(file: &str) -> [String; 3] {
    let path = file.replace(['/', '\\', '.', ':'], "_");
    let name = Path::new(file).file_name().map_or_else(|| path.clone(), |name| name.to_string_lossy().into());
    let stem = stem_of(file).unwrap_or_else(|| path.clone());
    // Cut before they are told apart: two long names may begin in the same way.
    [stem, name.replace('.', "_"), path].map(|name| short(&harmless(&name)).to_owned())
}

#[cfg(test)]
mod tests {
    use super::unique_names;

    #[test]
    fn every_file_of_a_batch_has_a_name_of_its_own() {
        let files = ["a.png", "b.png", "b.jpg", "x/c.png", "y/c.png"].map(str::to_owned);
        assert_eq!(unique_names(&files), ["a", "b_png", "b_jpg", "x_c_png", "y_c_png"]);
        let files = ["x/y/c.png", "x_y/c.png", "d{e.png", "d_e.jpg"].map(str::to_owned);
        assert_eq!(unique_names(&files), ["x_y_c_png", "x_y_c_png-2", "d_e_png", "d_e_jpg"]);
    }
}
