//! Entries of a batch: what each run gets, and what makes it the same entry at the next start.

use std::collections::BTreeMap;

use inferstore::Inputs;
use inferstore::types::ModelVersioning;
use serde_json::Value;

use super::inputs::{Collected, attach, attach_path, check_files, file_input, identity_of, name_of};
use super::names::unique_names;
use super::rows::{self, Sweep};
use crate::failure::{Failure, Result};
use crate::settings::Session;

/// One run of a batch.
pub(in crate::commands) struct Entry {
    /// Its name in messages and records: a file, or a row.
    pub(in crate::commands) label: String,
    pub(in crate::commands) inputs: Inputs,
    /// The name of its outputs, which no other entry has.
    pub(in crate::commands) name: String,
    /// The inputs as they were given, apart from `file`.
    pub(in crate::commands) others: BTreeMap<String, Value>,
    /// The file of the entry, as it is.
    pub(in crate::commands) file: Value,
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
    // Each entry gets one value of it.
    for (name, _) in sweeps {
        others.remove(name);
    }
    check_files(&loose, session)?;
    let field = loose.first().map(|_| file_input(Some(version), &given, &loose)).transpose()?;
    let entries = match (rows, field) {
        (Some(_), _) if loose.len() > 1 => {
            return Err(Failure::usage("rows take one further file")
                .with_hint("name the files in a column; nothing was sent"));
        }
        (Some(path), field) => {
            if let Some((field, file)) = field.zip(loose.first()) {
                let identity;
                (inputs, identity) = attach(inputs, field.clone(), file, session)?;
                others.insert(field, identity);
            }
            rows::read(path, version, &inputs, &others, session)?
        }
        (None, Some(field)) => of_files(&loose, &field, &inputs, others, session),
        (None, None) => {
            let name = name_of(&loose, &files).unwrap_or_default();
            vec![Entry { label: String::new(), inputs, name, others, file: Value::Null }]
        }
    };
    Ok(rows::swept(entries, sweeps))
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
        others: others.clone(),
        file: identity_of(file, session),
    };
    files.iter().zip(unique_names(files)).map(entry).collect()
}
