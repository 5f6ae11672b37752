//! Consolidation of deltas, which avoid contention for a total's row: any process folds them in small transactions.

use super::PostgresDatabase;
use super::failure::{Failure, PostgresResult, read, statement};
use super::movements::add_changes_of;
use super::statements::{Params, all, one};
use crate::Result;
use crate::database::records::{column, pair};

const BATCH: i64 = 5_000;

const ADD_MODEL_USES: &str = "WITH added AS ( \
       DELETE FROM model_uses WHERE id IN ( \
         SELECT id FROM model_uses ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED) \
       RETURNING model, day, tasks), \
     summed AS ( \
       INSERT INTO model_days (model, day, tasks) \
       SELECT model, day, sum(tasks)::bigint FROM added GROUP BY model, day ORDER BY model, day \
       ON CONFLICT (model, day) DO UPDATE SET tasks = model_days.tasks + excluded.tasks) \
     SELECT count(*) FROM added";

const IDLE_TURNS: &str = "SELECT account, model FROM turns WHERE NOT EXISTS ( \
       SELECT 1 FROM tasks WHERE status = 'in_queue' \
       AND tasks.model = turns.model AND tasks.account = turns.account) \
     ORDER BY account, model LIMIT $1";

/// Locks purses, so that creates of these accounts wait, because creates rely on existing turns. Accounts locked by
/// other transactions are skipped until the next run. The transaction remembers the locked accounts.
const LOCK_PURSES: &str = "SELECT set_config('inferstore.locked', coalesce(array_agg(account), '{}')::text, true) \
     FROM (SELECT account FROM purses WHERE account = ANY ($1) ORDER BY account FOR UPDATE SKIP LOCKED) AS locked";

/// A statement after the lock, so that its snapshot includes all commits before the lock.
const DELETE_TURNS: &str = "DELETE FROM turns USING unnest($1::bigint[], $2::text[]) AS idle (account, model) \
     WHERE turns.account = idle.account AND turns.model = idle.model \
       AND turns.account = ANY (current_setting('inferstore.locked')::bigint[]) \
       AND NOT EXISTS ( \
         SELECT 1 FROM tasks WHERE status = 'in_queue' \
         AND tasks.model = turns.model AND tasks.account = turns.account)";

impl PostgresDatabase {
    pub(super) async fn add_up(&self) -> Result<()> {
        let add_purse_changes = add_changes_of(
            "SELECT id, account FROM purse_changes ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED",
            "FOR UPDATE SKIP LOCKED",
        );
        for sum in [&*add_purse_changes, ADD_MODEL_USES] {
            loop {
                let added: i64 = statement!(self, |db| one(db, sum, &[&BATCH], column))?;
                if added < BATCH {
                    break;
                }
            }
        }
        loop {
            let idle: Vec<(i64, String)> = read!(self, |db| all(db, IDLE_TURNS, &[&BATCH], pair))?;
            let (accounts, models): (Vec<i64>, Vec<String>) = idle.into_iter().unzip();
            let deleted = statement!(self, |db| delete_turns(db, &accounts, &models))?;
            if deleted < BATCH.unsigned_abs() {
                return Ok(());
            }
        }
    }
}

/// Deletes turns in a transaction that is sent as a whole, so that a process paused meanwhile leaves no purse locked.
async fn delete_turns(
    db: &deadpool_postgres::Client,
    accounts: &[i64],
    models: &[String],
) -> PostgresResult<u64> {
    let (lock, delete) = (db.prepare_cached(LOCK_PURSES).await?, db.prepare_cached(DELETE_TURNS).await?);
    let of_accounts: Params<'_> = &[&accounts];
    let of_turns: Params<'_> = &[&accounts, &models];
    // The statements are sent in the order in which `join!` polls them.
    let (begun, locked, deleted, committed) = tokio::join!(
        db.batch_execute("BEGIN"),
        db.execute(&lock, of_accounts),
        db.execute(&delete, of_turns),
        db.batch_execute("COMMIT"),
    );
    begun?;
    locked?;
    let deleted = deleted?;
    committed.map_err(Failure::Commit)?;
    Ok(deleted)
}
