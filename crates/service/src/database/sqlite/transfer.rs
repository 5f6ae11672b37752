//! Export of all rows, and import into an empty database.

use std::path::Path;

use async_trait::async_trait;
use rusqlite::types::Value;
use rusqlite::{Connection, Transaction, TransactionBehavior, params_from_iter};

use super::SqliteDatabase;
use super::statements::Statements as _;
use crate::database::settings::{HAS_ROWS, SET_SETTING};
use crate::database::tables::{
    BYTES, OF_A_PLACE, TABLES, Table, TableFile, TableReader, TableWriter, check_written,
};
use crate::database::{Transfer, not_empty};
use crate::{Error, Result};

const PURSES: [&str; 6] = ["balance", "free", "held", "debt", "earnings", "revenue"];

#[async_trait]
impl Transfer for SqliteDatabase {
    async fn export_tables(&self, folder: &Path) -> Result<Vec<TableFile>> {
        let folder = folder.to_owned();
        self.scan(move |db| {
            let snapshot = db.unchecked_transaction()?;
            TABLES.iter().map(|table| export(&snapshot, table, Some(&folder))).collect()
        })
        .await
    }

    async fn is_empty(&self) -> Result<bool> {
        self.read(|db| Ok(!db.is_there(HAS_ROWS, [])?)).await
    }

    async fn import_tables(
        &self,
        folder: &Path,
        tables: &[TableFile],
        settings: Vec<(String, String)>,
    ) -> Result<()> {
        let (folder, tables) = (folder.to_owned(), tables.to_owned());
        self.exclusively(move |db| import(db, &folder, &tables, &settings)).await
    }
}

fn source(table: &Table) -> String {
    match table.name {
        "settings" => format!("(SELECT * FROM settings WHERE name NOT IN {OF_A_PLACE})"),
        "accounts" => {
            let amount = |purse| {
                format!(
                    "(SELECT coalesce(sum(amount), 0) FROM purses WHERE account = id AND purse = '{purse}') AS {purse}"
                )
            };
            format!("(SELECT *, {} FROM accounts)", PURSES.map(amount).join(", "))
        }
        "movements" => "(SELECT id, at, amount, from_account, from_purse, to_account, to_purse, reason, \
             (SELECT sequence FROM tasks WHERE tasks.id = movements.task) AS task, adjustment FROM movements)"
            .to_owned(),
        name => name.to_owned(),
    }
}

fn inserts(table: &Table) -> Vec<String> {
    let insert = |columns: &[&str], value: &dyn Fn(&str) -> String| {
        let values: Vec<String> = columns.iter().map(|column| value(column)).collect();
        format!("INSERT INTO {} ({}) VALUES ({})", table.name, columns.join(", "), values.join(", "))
    };
    let place = |column: &str| {
        let at = table.columns.iter().position(|of_table| *of_table == column).unwrap_or_default();
        format!("?{}", at + 1)
    };
    let of_task = |column: &str| match column {
        "task" => format!("(SELECT id FROM tasks WHERE sequence = {})", place(column)),
        _ => place(column),
    };
    match table.name {
        "accounts" => {
            let (purses, columns): (Vec<_>, Vec<_>) =
                table.columns.iter().copied().partition(|column| PURSES.contains(column));
            let of_purse = |purse: &&str| {
                let amount = place(purse);
                format!("INSERT INTO purses SELECT ?1, '{purse}', {amount} WHERE {amount} <> 0")
            };
            [insert(&columns, &place)].into_iter().chain(purses.iter().map(of_purse)).collect()
        }
        "movements" => vec![insert(table.columns, &of_task)],
        _ => vec![insert(table.columns, &place)],
    }
}

fn export(db: &Connection, table: &'static Table, folder: Option<&Path>) -> Result<TableFile> {
    let mut writer = TableWriter::new(table, folder)?;
    let mut statement = db.prepare(&table.select(&source(table), ""))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        writer.write(row)?;
    }
    writer.finish()
}

fn import(db: &Connection, folder: &Path, tables: &[TableFile], settings: &[(String, String)]) -> Result<()> {
    let tx = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    if tx.is_there(HAS_ROWS, [])? {
        return Err(not_empty());
    }
    for table in TABLES {
        if table.name == "model_days" {
            // Triggers have counted the queued tasks.
            tx.run("DELETE FROM model_days", [])?;
        }
        write(&tx, table, folder)?;
    }
    for table in TABLES {
        check_written(&export(&tx, table, None)?, tables)?;
    }
    for setting in settings {
        tx.run(SET_SETTING, [&setting.0, &setting.1])?;
    }
    Ok(tx.commit()?)
}

fn write(tx: &Transaction<'_>, table: &Table, folder: &Path) -> Result<()> {
    let unreadable =
        |cause: serde_json::Error| Error::new(format!("reading the table {}", table.name), cause);
    let inserts = inserts(table);
    let mut reader = TableReader::open(folder, table)?;
    loop {
        let batch = reader.batch()?;
        if batch.is_empty() {
            return Ok(());
        }
        for line in batch {
            let row: serde_json::Value = serde_json::from_str(&line).map_err(unreadable)?;
            let values = table.columns.iter().map(|column| value(column, &row[*column]));
            let values: Vec<Value> = values.collect::<Result<_>>()?;
            for insert in &inserts {
                let used = tx.prepare_cached(insert)?.parameter_count();
                tx.run(insert, params_from_iter(values.iter().take(used)))?;
            }
        }
    }
}

fn value(column: &str, value: &serde_json::Value) -> Result<Value> {
    use serde_json::Value as Json;
    Ok(match value {
        Json::Null => Value::Null,
        Json::String(text) if column == BYTES => Value::Blob(bytes(text)?),
        Json::String(text) => Value::Text(text.clone()),
        other => match other.as_i64() {
            Some(number) => Value::Integer(number),
            None => {
                return Err(Error::new("reading a table", format!("{column} has a value of another type")));
            }
        },
    })
}

fn bytes(text: &str) -> Result<Vec<u8>> {
    let digits = text.strip_prefix("\\x").unwrap_or_default().as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    bytes.ok_or_else(|| Error::new("reading a table", "bytes are not written in hexadecimal digits"))
}
