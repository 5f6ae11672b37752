//! Rows of a batch, from a CSV or JSON Lines file, and sweeps over numbers.

use std::collections::{BTreeMap, HashSet};

use inferstore::types::{Descriptor, DescriptorType, ModelVersioning};
use inferstore::{Decimal, Inputs};
use serde_json::{Map, Value, json};

use super::entries::Entry;
use super::inputs::{attach_path, check_files, identity_of, stem_of};
use crate::commands::api::{place_of, text_of};
use crate::exit;
use crate::failure::{Failure, Result};
use crate::settings::Session;

/// The most values of one sweep.
const MAX_VALUES: usize = 10_000;

/// An input and its values.
pub(super) type Sweep = (String, Vec<Decimal>);

/// A row: the number of its line, and its inputs.
struct Row {
    line: u64,
    values: Vec<(String, Value)>,
}

/// The entries of a file with rows. Each has the inputs of the command line, and those of its columns.
pub(super) fn read(
    path: &str,
    version: &ModelVersioning,
    inputs: &Inputs,
    others: &BTreeMap<String, Value>,
    session: &mut Session,
) -> Result<Vec<Entry>> {
    let text = text_of(path, session)?;
    let place = place_of(path);
    let rows = parse(&text, place)?;
    if rows.is_empty() {
        return Err(Failure::new(exit::INPUT, format!("{place} has no rows"))
            .with_hint("the first line of a CSV file names the inputs; each further line is a row"));
    }
    let declared = version.input_format.clone().unwrap_or_default();
    let entries = rows.into_iter().map(|row| {
        let label = format!("{place}:{}", row.line);
        entry(&label, row.values, &declared, inputs, others, session).map_err(|failure| failure.about(&label))
    });
    let mut entries = entries.collect::<Result<Vec<Entry>>>()?;
    name_each(&mut entries);
    Ok(entries)
}

fn parse(text: &str, place: &str) -> Result<Vec<Row>> {
    let malformed = |line: u64, problem: &str| {
        Failure::new(exit::INPUT, format!("{place}:{line}: {problem}"))
            .with_hint("correct the row; nothing was sent")
    };
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('{') {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let rows = lines.map(|(line, text)| {
            let values: Map<String, Value> = serde_json::from_str(text)
                .map_err(|error| malformed(line, &format!("no JSON object: {error}")))?;
            Ok(Row { line, values: values.into_iter().filter(|(_, value)| !value.is_null()).collect() })
        });
        return rows.collect();
    }
    let header = text.lines().next().unwrap_or_default();
    let delimiter = if header.contains('\t') && !header.contains(',') { b'\t' } else { b',' };
    let mut reader =
        csv::ReaderBuilder::new().delimiter(delimiter).trim(csv::Trim::All).from_reader(text.as_bytes());
    let columns = reader.headers().map_err(|error| malformed(1, &error.to_string()))?.clone();
    let mut seen = HashSet::new();
    if let Some(twice) = columns.iter().find(|column| column.is_empty() || !seen.insert(*column)) {
        return Err(malformed(1, &format!("the column {twice:?} has no name of its own")));
    }
    let rows = reader.records().map(|record| {
        let record = record.map_err(|error| {
            let line = error.position().map_or(1, csv::Position::line);
            malformed(line, &format!("the row does not have {} columns", columns.len()))
        })?;
        let line = record.position().map_or(1, csv::Position::line);
        let cells = columns.iter().zip(&record).filter(|(_, cell)| !cell.is_empty());
        Ok(Row { line, values: cells.map(|(name, cell)| (name.to_owned(), cell.into())).collect() })
    });
    rows.collect()
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
    let mut entry = Entry {
        label: label.to_owned(),
        inputs: inputs.clone(),
        name: String::new(),
        others: others.clone(),
        file: Value::Null,
    };
    for (name, value) in values {
        if others.contains_key(&name) {
            return Err(Failure::usage(format!("the input {name} is a column, and given besides"))
                .with_hint("give it once; nothing was sent"));
        }
        let is_file = declared.get(&name).is_some_and(|input| input.type_ == Some(DescriptorType::File));
        let identity = match value {
            Value::String(path) if is_file => {
                let path = path.strip_prefix('@').unwrap_or(&path);
                check_files(&[path.to_owned()], session)?;
                if entry.name.is_empty() {
                    entry.name = stem_of(path).unwrap_or_default();
                }
                entry.inputs = attach_path(entry.inputs, name.clone(), path, session);
                identity_of(path, session)
            }
            Value::String(text) => {
                entry.inputs = entry.inputs.set(name.clone(), &text);
                text.into()
            }
            value => {
                entry.inputs = entry.inputs.set(name.clone(), &value);
                json!({ "json": value.to_string() })
            }
        };
        entry.others.insert(name, identity);
    }
    Ok(entry)
}

/// Gives each entry a name that no other one has: that of its first file, with the line of its row if need be.
fn name_each(entries: &mut [Entry]) {
    let mut names = HashSet::new();
    for entry in entries {
        let line = entry.label.rsplit(':').next().unwrap_or_default();
        if entry.name.is_empty() {
            entry.name = format!("row-{line}");
        }
        if !names.insert(entry.name.clone()) {
            entry.name = format!("{}-row-{line}", entry.name);
            names.insert(entry.name.clone());
        }
    }
}

/// Values for a number: `10..90:10` is 10, 20 and so on up to 90; without a step it is 1.
pub(super) fn is_sweep(text: &str) -> bool {
    bounds(text).is_some()
}

fn bounds(text: &str) -> Option<(Decimal, Decimal, Decimal)> {
    let (first, rest) = text.split_once("..")?;
    let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
    Some((first.parse().ok()?, last.parse().ok()?, step.parse().ok()?))
}

/// The inputs among these texts that are sweeps over a declared number, with their values.
pub(super) fn sweeps(texts: &BTreeMap<String, String>, version: &ModelVersioning) -> Result<Vec<Sweep>> {
    let is_number = |name: &String| {
        let input = version.input_format.as_ref().and_then(|inputs| inputs.get(name));
        input.is_some_and(|input| {
            matches!(input.type_, Some(DescriptorType::Int | DescriptorType::Float))
                || input.num_config.is_some()
        })
    };
    let given = texts.iter().filter(|(name, _)| is_number(name));
    let sweeps = given.filter_map(|(name, text)| Some((name, text, bounds(text)?)));
    let values = sweeps.map(|(name, text, (first, last, step))| {
        let is_endless = step <= Decimal::default();
        let mut values = Vec::new();
        let mut next = first;
        while next <= last && !is_endless && values.len() <= MAX_VALUES {
            let following = &next + &step;
            values.push(std::mem::replace(&mut next, following));
        }
        if values.is_empty() || values.len() > MAX_VALUES {
            return Err(Failure::usage(format!("{name}={text} is no sweep of 1 to {MAX_VALUES} values"))
                .with_hint(format!("write FIRST..LAST:STEP, such as {name}=10..90:10")));
        }
        Ok((name.clone(), values))
    });
    values.collect()
}

/// Each entry with each value of the sweeps.
pub(super) fn swept(entries: Vec<Entry>, sweeps: &[Sweep]) -> Vec<Entry> {
    sweeps.iter().fold(entries, |entries, (name, values)| {
        let with = |entry: &Entry, value: &Decimal| {
            let text = value.to_string();
            let mut others = entry.others.clone();
            others.insert(name.clone(), text.clone().into());
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
            }
        };
        entries.iter().flat_map(|entry| values.iter().map(move |value| with(entry, value))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<(u64, usize)> {
        let rows = parse(text, "jobs").unwrap_or_default();
        rows.iter().map(|row| (row.line, row.values.len())).collect()
    }

    #[test]
    fn rows_are_csv_tabs_or_json_lines_and_empty_cells_are_not_given() {
        assert_eq!(rows("a,b\n1,2\n\"x\ny\",\n3,4\n"), [(2, 2), (3, 1), (5, 2)]);
        assert_eq!(rows("\u{feff}a\tb\n1\t2\n"), [(2, 2)]);
        assert_eq!(rows("{\"a\":1,\"b\":null}\n\n{\"a\":\"x\"}\n"), [(1, 1), (3, 1)]);
    }

    #[test]
    fn a_malformed_row_is_named_by_its_line() {
        for (text, problem) in [
            ("a,b\n1,2\n3\n", "jobs:3: the row does not have 2 columns"),
            ("a,a\n1,2\n", "jobs:1: the column \"a\""),
            ("{\"a\":1}\n{\"a\"\n", "jobs:2: no JSON object"),
        ] {
            let failure = parse(text, "jobs").err().map(|failure| failure.headline).unwrap_or_default();
            assert!(failure.starts_with(problem), "{failure}");
        }
    }

    #[test]
    fn a_sweep_is_two_bounds_with_a_step() {
        for text in ["10..90:10", "0.1..0.5:0.1", "-3..3"] {
            assert!(is_sweep(text), "{text}");
        }
        for text in ["..", "a..b", "1..", "../1", "10"] {
            assert!(!is_sweep(text), "{text}");
        }
    }
}
