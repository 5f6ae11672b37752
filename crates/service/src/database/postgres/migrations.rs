//! The schema, version by version, brought up to date by one process at a time.

use deadpool_postgres::{Pool, Transaction};

use super::failure::{Failure, Outcome};
use super::statements::{first, is_there, run};
use crate::database::records::pair;
use crate::{Error, Result};

/// The schema, version by version. Only ever added to.
const SCHEMA: &[&str] = &[include_str!("schema.sql"), include_str!("schema_2.sql")];

/// The oldest version of the schema whose processes can work with this one. A process of that version runs on, and
/// can start again, while processes of this one start.
const COMPATIBLE_WITH: i64 = 1;

/// The lock that a migration holds until it is committed.
const LOCK: i64 = 7_317_140_166_020_125;

pub(super) async fn migrate(pool: &Pool) -> Result<()> {
    let migrated = async {
        let mut connection = pool.get().await?;
        if is_current(&applied(&connection).await?)? {
            return Ok(());
        }
        let tx = connection.transaction().await?;
        upgrade(&tx).await?;
        tx.commit().await.map_err(Failure::Commit)
    };
    migrated.await.map_err(|failure: Failure| match failure {
        Failure::Service(error) => error,
        failure => {
            let cause = Error::from(failure);
            Error::new("opening the database", cause.to_string())
                .with_hint("check the URL, and that the server runs and lets this machine in")
        }
    })
}

/// The version of the schema, and the oldest one that is compatible with it; None when there is no schema yet.
async fn applied(db: &impl deadpool_postgres::GenericClient) -> Outcome<Option<(i64, i64)>> {
    // A lookup by `to_regclass` may come from a cache that a commit of another process has not reached yet.
    let exists = "SELECT 1 FROM pg_class WHERE relname = 'schema_version' AND relkind = 'r' \
                  AND pg_table_is_visible(oid)";
    if !is_there(db, exists, &[]).await? {
        return Ok(None);
    }
    let select = "SELECT version, compatible FROM schema_version";
    first(db, select, &[], pair).await
}

fn newest() -> i64 {
    i64::try_from(SCHEMA.len()).unwrap_or(i64::MAX)
}

/// Whether there is nothing to do. A newer schema is refused unless it says that this version can work with it.
fn is_current(applied: &Option<(i64, i64)>) -> Result<bool> {
    let Some((version, compatible)) = *applied else { return Ok(false) };
    if compatible > newest() {
        let cause = format!(
            "it was written by a newer version of the service (schema {version}, this one knows {}); use that \
             version",
            newest()
        );
        return Err(Error::new("opening the database", cause));
    }
    Ok(version >= newest())
}

async fn upgrade(tx: &Transaction<'_>) -> Outcome {
    // Another process may take its time for a large table.
    tx.batch_execute("SET LOCAL lock_timeout = '10min'").await?;
    run(tx, "SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    let applied = applied(tx).await?;
    if is_current(&applied)? {
        return Ok(());
    }
    let version = applied.map_or(0, |(version, _)| usize::try_from(version).unwrap_or(0));
    for sql in SCHEMA.iter().skip(version) {
        tx.batch_execute(sql).await?;
    }
    if version == 0 {
        tx.batch_execute("CREATE TABLE schema_version (version BIGINT NOT NULL, compatible BIGINT NOT NULL)")
            .await?;
        run(tx, "INSERT INTO schema_version VALUES ($1, $2)", &[&newest(), &COMPATIBLE_WITH]).await?;
    } else {
        run(tx, "UPDATE schema_version SET version = $1, compatible = $2", &[&newest(), &COMPATIBLE_WITH])
            .await?;
    }
    Ok(())
}
