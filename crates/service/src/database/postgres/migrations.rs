//! Migrations of the schema, version by version, by one process at a time, while processes of the previous version keep
//! running. A migration gives up a contended lock soon and retries, because all later statements would queue behind its
//! lock request.

use deadpool_postgres::{Client, GenericClient, Object, Pool};

use super::failure::{Failure, PostgresResult};
use super::statements::{first, is_there, one, run};
use crate::database::records::{column, pair};
use crate::{Error, Result};

#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Statements(&'static str),
    /// Index with this name and definition, built while other transactions read and write the table.
    #[cfg_attr(not(test), expect(dead_code, reason = "no index was added to a large table yet"))]
    Index(&'static str, &'static str),
}

/// Migrations of the schema, by version. Existing ones never change.
pub(super) const SCHEMA: &[Step] = &[
    Step::Statements(include_str!("schema.sql")),
    Step::Statements(include_str!("schema_2.sql")),
    Step::Statements(include_str!("schema_3.sql")),
    Step::Statements(include_str!("schema_4.sql")),
    Step::Statements(include_str!("schema_5.sql")),
    Step::Statements(include_str!("schema_6.sql")),
    Step::Statements(include_str!("schema_7.sql")),
    Step::Statements(include_str!("schema_8.sql")),
    Step::Statements(include_str!("schema_9.sql")),
    Step::Statements(include_str!("schema_10.sql")),
];

/// Oldest version of the schema whose processes keep running, and can start, while processes of this version start.
const COMPATIBLE_WITH: i64 = 1;

/// Advisory lock that a migration holds until its commit.
const LOCK: i64 = 7_317_140_166_020_125;

/// Timeouts of a step: short for locks, behind which other statements queue, and none for work on a large table.
const WAITS: &str = "SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = 0";

/// Migrates the schema. Fails as unavailable if the server is unreachable or a lock is taken.
pub(super) async fn migrate(pool: &Pool, schema: &[Step]) -> Result<()> {
    let migrated = async {
        let mut connection = pool.get().await?;
        let migrated = apply_all(&mut connection, schema).await;
        // The connection is closed rather than returned, because a failure may have changed the session's settings.
        drop(Object::take(connection));
        migrated
    };
    migrated.await.map_err(|failure: Failure| {
        let is_refused = matches!(failure, Failure::Refused(_));
        if let Failure::Service(error) = failure {
            return error;
        }
        let cause = Error::from(failure);
        let error = if cause.is_unavailable() && !is_refused { Error::unavailable } else { Error::new };
        error("opening the database", cause.to_string())
            .with_hint("check the URL, and that the server runs and lets this machine in")
    })
}

async fn apply_all(connection: &mut Client, schema: &[Step]) -> PostgresResult {
    let encoding: String = one(connection, "SHOW server_encoding", &[], column).await?;
    if encoding != "UTF8" {
        let cause = format!("its encoding is {encoding}, which cannot hold every text; UTF8 is needed");
        let hint = "create the database with ENCODING 'UTF8' TEMPLATE template0";
        return Err(Error::new("opening the database", cause).with_hint(hint).into());
    }
    while let Some(version) = outdated(connection, schema).await? {
        match schema.get(version) {
            Some(Step::Statements(_)) => apply(connection, schema).await?,
            Some(Step::Index(..)) => build(connection, schema).await?,
            None => break,
        }
    }
    Ok(())
}

async fn outdated(db: &impl GenericClient, schema: &[Step]) -> PostgresResult<Option<usize>> {
    // `to_regclass` could use a cache that does not yet include another process's commit.
    let exists = "SELECT 1 FROM pg_class WHERE relname = 'schema_version' AND relkind = 'r' \
                  AND pg_table_is_visible(oid)";
    if !is_there(db, exists, &[]).await? {
        return Ok(Some(0));
    }
    let select = "SELECT version, compatible FROM schema_version";
    let applied: Option<(i64, i64)> = first(db, select, &[], pair).await?;
    let (version, compatible) = applied.unwrap_or_default();
    let newest = i64::try_from(schema.len()).unwrap_or(i64::MAX);
    if compatible > newest {
        let cause = format!(
            "it was written by a newer version of the service (schema {version}, this one knows {newest}); use that \
             version"
        );
        return Err(Error::new("opening the database", cause).into());
    }
    Ok(usize::try_from(version).ok().filter(|_| version < newest))
}

async fn apply(connection: &mut Client, schema: &[Step]) -> PostgresResult {
    let tx = connection.transaction().await?;
    // The advisory lock is taken before any table lock, so that no statement queues behind a waiting migration.
    run(&tx, "SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    tx.batch_execute(WAITS).await?;
    let Some(version) = outdated(&tx, schema).await? else { return Ok(()) };
    let Some(Step::Statements(sql)) = schema.get(version) else { return Ok(()) };
    tx.batch_execute(sql).await?;
    if version == 0 {
        tx.batch_execute("CREATE TABLE schema_version (version BIGINT NOT NULL, compatible BIGINT NOT NULL)")
            .await?;
        run(&tx, "INSERT INTO schema_version VALUES (0, 0)", &[]).await?;
    }
    applied(&tx, version).await?;
    tx.commit().await.map_err(Failure::Commit)
}

async fn applied(db: &impl GenericClient, step: usize) -> PostgresResult {
    let version = i64::try_from(step + 1).unwrap_or(i64::MAX);
    run(db, "UPDATE schema_version SET version = $1, compatible = $2", &[&version, &COMPATIBLE_WITH]).await?;
    Ok(())
}

/// Builds an index, unless another process is building one. The build waits for all older transactions, but blocks
/// none. Drops the remains of an interrupted build.
async fn build(connection: &Client, schema: &[Step]) -> PostgresResult {
    // Waiting for the lock within the server would be an open transaction, for which the build would wait.
    let is_locked: bool = one(connection, "SELECT pg_try_advisory_lock($1)", &[&LOCK], column).await?;
    if !is_locked {
        return Err(Failure::NoConnection("another process builds an index".to_owned()));
    }
    connection.batch_execute("SET lock_timeout = 0; SET statement_timeout = 0").await?;
    if let Some(step) = outdated(connection, schema).await?
        && let Some(Step::Index(name, of)) = schema.get(step)
    {
        connection.batch_execute(&format!("DROP INDEX CONCURRENTLY IF EXISTS {name}")).await?;
        connection.batch_execute(&format!("CREATE INDEX CONCURRENTLY {name} ON {of}")).await?;
        applied(connection, step).await?;
    }
    run(connection, "SELECT pg_advisory_unlock($1)", &[&LOCK]).await?;
    Ok(())
}
