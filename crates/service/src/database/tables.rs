//! Tables of an export, for every engine: one JSON line for each row, in one order; SUBSTITUTE replaces NUL.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::records::Row;
use crate::hex::hex;
use crate::{Error, Result};

/// A table of an export. An engine may read it from several tables of its own, and write it to several.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(super) columns: &'static [&'static str],
    pub(super) key: &'static [Key],
}

pub(super) enum Key {
    Integer(&'static str),
    Text(&'static str),
}

use Key::{Integer, Text};

macro_rules! tables {
    ($($name:literal: $($kind:ident $key:literal),+; $($column:literal)*;)*) => { &[$(
        Table { name: $name, columns: &[$($key,)+ $($column),*], key: &[$($kind($key)),+] }
    ),*] };
}

/// Every table, each behind the ones that it refers to. What an engine counts or indexes is made anew from them.
#[rustfmt::skip]
pub(crate) const TABLES: &[Table] = tables! {
    "settings": Text "name"; "value";
    "accounts": Integer "id"; "username" "scope" "wallet_address" "bucket" "created_at" "state" "quota" "tasks" "first_place"
        "stored_bytes" "gib_seconds" "byte_seconds" "metered_at" "balance" "free" "held" "debt" "earnings" "revenue";
    "members": Integer "organization", Integer "person"; ;
    "api_keys": Text "id"; "account" "hash" "created_at" "revoked_at" "name" "expires_at" "daily_limit" "models";
    "models": Integer "sequence"; "id" "name" "owner" "description" "is_official" "is_verified" "is_public" "is_playground"
        "price" "metadata" "likes" "downloads" "created_at" "updated_at" "folded_name" "folded_description" "state"
        "stated";
    "versions": Integer "id"; "model" "commit_hash" "is_active" "input_format" "output_format" "created_at" "is_built_in";
    "tasks": Integer "sequence"; "id" "account" "place" "model" "version" "publisher" "status" "price" "held_free"
        "held_balance" "cost" "message" "input" "output" "error" "node" "attempt" "releases" "leased_at" "lease_until"
        "created_at" "updated_at" "traceparent";
    "movements": Integer "id"; "at" "amount" "from_account" "from_purse" "to_account" "to_purse" "reason" "task" "adjustment";
    "adjustments": Integer "id"; "account" "purse" "amount" "reference" "note";
    "create_keys": Integer "account", Text "key"; "request" "task" "created_at";
    "key_tasks": Text "task"; "key" "day" "price";
    "turns": Integer "account", Text "model"; "turn";
    "model_days": Integer "day", Text "model"; "tasks";
    "node_keys": Text "name"; "id" "hash" "created_at" "revoked_at" "models";
    "nodes": Text "id"; "seen_at" "key";
    "node_models": Text "model", Text "node"; "seen_at" "slot";
    "objects": Integer "sequence"; "id" "bucket" "key" "owner" "payer" "folder" "category" "mime" "size" "etag" "blob"
        "created_at" "output_of" "lease";
    "former_urls": Text "blob"; ;
    "upload_targets": Text "id"; "owner" "payer" "bucket" "folder" "key" "mime" "size" "expires_at" "is_used" "is_void";
    "operator_log": Integer "id"; "at" "request" "body" "status";
};

pub(crate) const OBJECTS: &str = "objects";
/// The one column whose values are bytes; in JSON they are `\x` and hexadecimal digits, as PostgreSQL reads them.
pub(super) const BYTES: &str = "hash";

/// Settings that belong to the location of the files or of the database, without those of an export.
pub(super) const OF_A_PLACE: &str = "('import', 'objects', 'objects are in a bucket', 'folder of files', 'health check', 'totals', 'orphans')";

impl Table {
    pub(super) fn list(&self) -> String {
        self.columns.join(", ")
    }

    /// The statement that reads all rows from a source, where texts are compared by their bytes with this collation.
    pub(super) fn select(&self, source: &str, collation: &str) -> String {
        let key = |key: &Key| match key {
            Integer(column) => (*column).to_owned(),
            Text(column) => format!("{column} {collation}"),
        };
        let order: Vec<String> = self.key.iter().map(key).collect();
        format!("SELECT {} FROM {source} AS {} ORDER BY {}", self.list(), self.name, order.join(", "))
    }
}

/// Identifies the tables and their columns: an export is read by programs that have the same ones.
pub(crate) fn format() -> String {
    let mut digest = Sha256::new();
    for table in TABLES {
        digest.update(format!("{}: {}\n", table.name, table.list()));
    }
    hex(digest.finalize().get(..8).unwrap_or_default())
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableFile {
    pub(crate) name: String,
    pub(crate) rows: u64,
    pub(crate) sha256: String,
}

impl TableFile {
    pub(crate) fn path(folder: &Path, name: &str) -> PathBuf {
        folder.join(format!("{name}.jsonl"))
    }
}

pub(super) struct TableWriter {
    table: &'static Table,
    file: Option<(PathBuf, BufWriter<File>)>,
    digest: Sha256,
    rows: u64,
    line: String,
}

impl TableWriter {
    pub(super) fn new(table: &'static Table, folder: Option<&Path>) -> Result<Self> {
        let create = |folder| {
            let path = TableFile::path(folder, table.name);
            let file = File::create(&path).map_err(|cause| cannot_write(&path, cause))?;
            Ok::<_, Error>((path, BufWriter::new(file)))
        };
        let file = folder.map(create).transpose()?;
        Ok(Self { table, file, digest: Sha256::new(), rows: 0, line: String::new() })
    }

    pub(super) fn write(&mut self, row: &dyn Row) -> Result<()> {
        self.line.clear();
        for (index, column) in self.table.columns.iter().enumerate() {
            let _ = write!(self.line, "{}\"{column}\":", if index == 0 { '{' } else { ',' });
            let unreadable = |cause| Error::new(format!("reading the table {}", self.table.name), cause);
            match row.value(index).map_err(unreadable)? {
                ValueRef::Null => self.line.push_str("null"),
                ValueRef::Integer(number) => {
                    let _ = write!(self.line, "{number}");
                }
                ValueRef::Blob(bytes) => {
                    let _ = write!(self.line, "\"\\\\x{}\"", hex(bytes));
                }
                ValueRef::Text(text) => {
                    let text = String::from_utf8_lossy(text).replace('\0', "\u{1a}");
                    let text = serde_json::to_string(&text).map_err(io::Error::from);
                    self.line.push_str(&text.map_err(|cause| Error::new("writing a table", cause))?);
                }
                ValueRef::Real(_) => {
                    return Err(Error::new("writing a table", format!("{column} is no whole number")));
                }
            }
        }
        self.line.push_str("}\n");
        self.digest.update(&self.line);
        self.rows += 1;
        if let Some((path, file)) = &mut self.file {
            file.write_all(self.line.as_bytes()).map_err(|cause| cannot_write(path, cause))?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<TableFile> {
        if let Some((path, file)) = self.file {
            let file = file.into_inner().map_err(io::IntoInnerError::into_error);
            file.and_then(|file| file.sync_all()).map_err(|cause| cannot_write(&path, cause))?;
        }
        let sha256 = hex(&self.digest.finalize());
        Ok(TableFile { name: self.table.name.to_owned(), rows: self.rows, sha256 })
    }
}

fn cannot_write(path: &Path, cause: io::Error) -> Error {
    Error::keeping(format!("writing {}", path.display()), cause)
}

const MAX_BATCH: usize = 500;
const MAX_BATCH_BYTES: usize = 4 << 20;
/// The longest line: the largest inputs and outputs of a task, escaped.
const MAX_LINE: u64 = 64 << 20;

pub(super) struct TableReader {
    path: PathBuf,
    lines: BufReader<File>,
}

impl TableReader {
    pub(super) fn open(folder: &Path, table: &Table) -> Result<Self> {
        let path = TableFile::path(folder, table.name);
        let file = File::open(&path).map_err(|cause| cannot_read(&path, cause))?;
        Ok(Self { path, lines: BufReader::with_capacity(1 << 16, file) })
    }

    pub(super) fn batch(&mut self) -> Result<Vec<String>> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < MAX_BATCH && bytes < MAX_BATCH_BYTES {
            let mut line = String::new();
            let read = self.lines.by_ref().take(MAX_LINE).read_line(&mut line);
            match read.map_err(|cause| cannot_read(&self.path, cause))? {
                0 => break,
                length => bytes += length,
            }
            batch.push(line);
        }
        Ok(batch)
    }
}

fn cannot_read(path: &Path, cause: io::Error) -> Error {
    Error::new(format!("reading {}", path.display()), cause)
}

pub(super) fn check_written(written: &TableFile, exported: &[TableFile]) -> Result<()> {
    if exported.contains(written) {
        return Ok(());
    }
    let cause = format!(
        "the table {} has {} rows that differ from those of the export; nothing was imported",
        written.name, written.rows
    );
    Err(Error::new("importing", cause).with_hint("export again: a file of the export was changed"))
}
