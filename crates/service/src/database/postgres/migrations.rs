//! The schema, version by version, brought up to date by one process at a time while processes of the version before
//! run on. A lock that somebody holds is given up soon and asked for again: whoever comes after it would wait behind it.

use deadpool_postgres::{Client, GenericClient, Object, Pool};

use super::failure::{Failure, Outcome};
use super::statements::{first, is_there, one, run};
use crate::database::records::{column, pair};
use crate::{Error, Result};

/// A step from one version of the schema to the next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// Statements in one transaction.
    Statements(&'static str),
    /// An index of this name, by the rest of its statement, built while others read and write the table.
    #[cfg_attr(
        not(all(test, feature = "test-postgres")),
        expect(dead_code, reason = "no index was added to a large table yet")
    )]
    Index(&'static str, &'static str),
}

/// The schema, version by version. Only ever added to.
pub(super) const SCHEMA: &[Step] = &[
    Step::Statements(include_str!("schema.sql")),
    Step::Statements(include_str!("schema_2.sql")),
    Step::Statements(include_str!("schema_3.sql")),
    Step::Statements(include_str!("schema_4.sql")),
    Step::Statements(include_str!("schema_5.sql")),
    Step::Statements(include_str!("schema_6.sql")),
    Step::Statements(include_str!("schema_7.sql")),
    Step::Statements(include_str!("schema_8.sql")),
];

/// The oldest version of the schema whose processes can work with this one. A process of that version runs on, and
/// can start again, while processes of this one start.
const COMPATIBLE_WITH: i64 = 1;

/// The lock that a migration holds until it is committed.
const LOCK: i64 = 7_317_140_166_020_125;

/// Limits of a step: it waits for a lock no longer than others can wait behind it, and takes its time for a large table.
const WAITS: &str = "SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = 0";

/// Brings the schema up to date. Fails as unavailable when the server or a lock is not there now.
pub(super) async fn migrate(pool: &Pool, schema: &[Step]) -> Result<()> {
    let migrated = async {
        let mut connection = pool.get().await?;
        let migrated = apply_all(&mut connection, schema).await;
        // Not given back: what a failure leaves of its session ends with it.
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

async fn apply_all(connection: &mut Client, schema: &[Step]) -> Outcome {
    while let Some(version) = outdated(connection, schema).await? {
        match schema.get(version) {
            Some(Step::Statements(_)) => apply(connection, schema).await?,
            Some(Step::Index(..)) => build(connection, schema).await?,
            None => break,
        }
    }
    Ok(())
}

/// The number of steps that were applied, when there are more.
async fn outdated(db: &impl GenericClient, schema: &[Step]) -> Outcome<Option<usize>> {
    // A lookup by `to_regclass` may come from a cache that a commit of another process has not reached yet.
    let exists = "SELECT 1 FROM pg_class WHERE relname = 'schema_version' AND relkind = 'r' \
                  AND pg_table_is_visible(oid)";
    if !is_there(db, exists, &[]).await? {
        return Ok(Some(0));
    }
    let select = "SELECT version, compatible FROM schema_version";
    let applied: Option<(i64, i64)> = first(db, select, &[], pair).await?;
    let (version, compatible) = applied.unwrap_or_default();
    let newest = i64::try_from(schema.len()).unwrap_or(i64::MAX);
    // A newer schema is refused unless it says that this version can work with it.
    if compatible > newest {
        let cause = format!(
            "it was written by a newer version of the service (schema {version}, this one knows {newest}); use that \
             version"
        );
        return Err(Error::new("opening the database", cause).into());
    }
    Ok(usize::try_from(version).ok().filter(|_| version < newest))
}

/// Applies the next step, unless another process has done so.
async fn apply(connection: &mut Client, schema: &[Step]) -> Outcome {
    let tx = connection.transaction().await?;
    // Nobody waits behind a process that waits for the step of another one.
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

async fn applied(db: &impl GenericClient, step: usize) -> Outcome {
    let version = i64::try_from(step + 1).unwrap_or(i64::MAX);
    run(db, "UPDATE schema_version SET version = $1, compatible = $2", &[&version, &COMPATIBLE_WITH]).await?;
    Ok(())
}

/// Builds an index, unless another process does. It waits for every transaction that is older: nobody waits for it. What
/// an interrupted build has left is removed.
async fn build(connection: &Client, schema: &[Step]) -> Outcome {
    // A process that waited for the lock in the server would be a transaction that the build waits for.
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
