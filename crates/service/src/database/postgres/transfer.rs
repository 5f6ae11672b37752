//! Export of all rows, and import into an empty database. The server itself reads the JSON of a row.

use std::path::Path;

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use futures_util::TryStreamExt as _;
use tokio_postgres::IsolationLevel;

use super::PostgresDatabase;
use super::failure::{Failure, PostgresResult, read};
use super::statements::{is_there, run};
use crate::Result;
use crate::database::settings::{HAS_ROWS, SET_SETTING};
use crate::database::tables::{
    OF_A_PLACE, TABLES, Table, TableFile, TableReader, TableWriter, check_written,
};
use crate::database::{Transfer, not_empty};

/// An export or an import takes its time; nobody waits for it but for an empty database.
const LIMITS: &str = "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";

const OF_PURSES: &str = "balance, free, held, debt, earnings, revenue, tasks, first_place, stored_bytes, gib_seconds, \
     byte_seconds, metered_at";

/// The columns with an identity, whose next value follows the largest one.
const IDENTITIES: [(&str, &str); 8] = [
    ("accounts", "id"),
    ("movements", "id"),
    ("adjustments", "id"),
    ("operator_log", "id"),
    ("models", "sequence"),
    ("versions", "id"),
    ("tasks", "sequence"),
    ("objects", "sequence"),
];

/// Counts of this engine, made from the rows.
const DERIVED: &str = "\
    INSERT INTO folder_usage SELECT owner, folder, category, count(*), sum(size)::bigint FROM objects \
        WHERE owner IS NOT NULL GROUP BY owner, folder, category; \
    UPDATE purses SET unfinished = counted.tasks FROM (SELECT account, count(*) AS tasks FROM tasks \
        WHERE status IN ('in_queue', 'computing') GROUP BY account) AS counted WHERE counted.account = purses.account; \
    SELECT setval('turn_numbers', coalesce(max(turn), 0) + 1, false) FROM turns";

#[async_trait]
impl Transfer for PostgresDatabase {
    async fn export_tables(&self, folder: &Path) -> Result<Vec<TableFile>> {
        Ok(self.export(folder).await?)
    }

    async fn is_empty(&self) -> Result<bool> {
        Ok(!read!(self, |db| is_there(db, HAS_ROWS, &[]))?)
    }

    async fn import_tables(
        &self,
        folder: &Path,
        tables: &[TableFile],
        settings: Vec<(String, String)>,
    ) -> Result<()> {
        Ok(self.import(folder, tables, &settings).await?)
    }
}

impl PostgresDatabase {
    async fn export(&self, folder: &Path) -> PostgresResult<Vec<TableFile>> {
        let mut connection = self.connection().await?;
        let snapshot = connection.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
        let snapshot = snapshot.read_only(true).start().await?;
        snapshot.batch_execute(LIMITS).await?;
        let mut files = Vec::new();
        for table in TABLES {
            files.push(export(&snapshot, table, Some(folder)).await?);
        }
        Ok(files)
    }

    async fn import(
        &self,
        folder: &Path,
        tables: &[TableFile],
        settings: &[(String, String)],
    ) -> PostgresResult {
        let mut connection = self.connection().await?;
        let tx = connection.transaction().await?;
        tx.batch_execute(LIMITS).await?;
        // A service that starts meanwhile waits, and finds the accounts.
        tx.batch_execute("LOCK TABLE settings, api_keys, accounts IN SHARE ROW EXCLUSIVE MODE").await?;
        if is_there(&tx, HAS_ROWS, &[]).await? {
            return Err(not_empty().into());
        }
        for table in TABLES {
            write(&tx, table, folder).await?;
        }
        for (table, column) in IDENTITIES {
            let next = format!(
                "SELECT setval(pg_get_serial_sequence('{table}', '{column}'), coalesce(max({column}), 0) + 1, false) \
                 FROM {table}"
            );
            tx.batch_execute(&next).await?;
        }
        tx.batch_execute(DERIVED).await?;
        for table in TABLES {
            check_written(&export(&tx, table, None).await?, tables)?;
        }
        for (name, value) in settings {
            run(&tx, SET_SETTING, &[name, value]).await?;
        }
        // Plans for the rows that are there now; without it, those for empty tables stay until the server looks.
        tx.batch_execute("ANALYZE").await?;
        tx.commit().await.map_err(Failure::Commit)
    }
}

fn source(table: &Table) -> String {
    match table.name {
        "settings" => format!("(SELECT * FROM settings WHERE name NOT IN {OF_A_PLACE})"),
        "accounts" => {
            let pending = |purse| {
                format!(
                    "(purses.{purse} + coalesce((SELECT sum(amount) FROM purse_changes \
                     WHERE account = accounts.id AND purse = '{purse}'), 0))::bigint AS {purse}"
                )
            };
            let purses = OF_PURSES.replace("earnings", &pending("earnings"));
            let purses = purses.replace(" revenue,", &format!(" {},", pending("revenue")));
            format!("(SELECT accounts.*, {purses} FROM accounts JOIN purses ON account = id)")
        }
        "model_days" => {
            "(SELECT model, day, sum(tasks)::bigint AS tasks FROM (SELECT model, day, tasks FROM model_days \
             UNION ALL SELECT model, day, tasks FROM model_uses) AS uses GROUP BY model, day)"
                .to_owned()
        }
        name => name.to_owned(),
    }
}

/// The statements that write rows; their parameter is the JSON of an array of them.
fn inserts(table: &Table) -> Vec<String> {
    let rows = |of: &str| format!("json_populate_recordset(NULL::{of}, $1::text::json)");
    let insert = |columns: &str| {
        let (name, rows) = (table.name, rows(table.name));
        format!("INSERT INTO {name} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {rows}")
    };
    if table.name != "accounts" {
        return vec![insert(&table.list())];
    }
    let of_purses: Vec<&str> = OF_PURSES.split(", ").collect();
    let columns: Vec<&str> =
        table.columns.iter().copied().filter(|column| !of_purses.contains(column)).collect();
    let types = of_purses.iter().map(|column| format!("{column} bigint")).collect::<Vec<_>>().join(", ");
    vec![
        insert(&columns.join(", ")),
        format!(
            "INSERT INTO purses (account, {OF_PURSES}) SELECT id, {OF_PURSES} \
             FROM json_to_recordset($1::text::json) AS accounts (id bigint, {types})"
        ),
    ]
}

async fn export(
    tx: &Transaction<'_>,
    table: &'static Table,
    folder: Option<&Path>,
) -> PostgresResult<TableFile> {
    let mut writer = TableWriter::new(table, folder)?;
    let none: [&str; 0] = [];
    let mut rows = std::pin::pin!(tx.query_raw(&table.select(&source(table), "COLLATE \"C\""), none).await?);
    while let Some(row) = rows.try_next().await? {
        writer.write(&row)?;
    }
    Ok(writer.finish()?)
}

async fn write(tx: &Transaction<'_>, table: &Table, folder: &Path) -> PostgresResult {
    let inserts = inserts(table);
    let mut reader = TableReader::open(folder, table)?;
    loop {
        let batch = reader.batch()?;
        if batch.is_empty() {
            return Ok(());
        }
        let rows = format!("[{}]", batch.join(","));
        for insert in &inserts {
            run(tx, insert, &[&rows]).await?;
        }
    }
}
