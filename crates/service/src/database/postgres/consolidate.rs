//! Adding up what transactions have left behind so that none of them touches a row of all, in small transactions
//! that any process may run at any time.

use super::PostgresDatabase;
use super::failure::{Outcome, statement, transaction};
use super::movements::add_changes_where;
use super::statements::{all, one, run};
use crate::Result;
use crate::database::records::{column, pair};

/// How many rows one transaction adds up.
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

/// Turns without queued tasks.
const IDLE_TURNS: &str = "SELECT account, model FROM turns WHERE NOT EXISTS ( \
       SELECT 1 FROM tasks WHERE status = 'in_queue' \
       AND tasks.model = turns.model AND tasks.account = turns.account) \
     ORDER BY account, model LIMIT $1 FOR UPDATE SKIP LOCKED";

/// Creates of the accounts wait: they rely on the turns that they find.
const LOCK_PURSES: &str = "SELECT account FROM purses WHERE account = ANY ($1) ORDER BY account FOR UPDATE";

/// A statement of its own, which sees what was committed before the rows were locked.
const DELETE_TURNS: &str = "DELETE FROM turns USING unnest($1::bigint[], $2::text[]) AS idle (account, model) \
     WHERE turns.account = idle.account AND turns.model = idle.model AND NOT EXISTS ( \
       SELECT 1 FROM tasks WHERE status = 'in_queue' \
       AND tasks.model = turns.model AND tasks.account = turns.account)";

impl PostgresDatabase {
    pub(super) async fn add_up(&self) -> Result<()> {
        let add_purse_changes = add_changes_where(
            "id IN (SELECT id FROM purse_changes ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)",
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
            let deleted = transaction!(self, |tx| delete_idle_turns(tx))?;
            if deleted < BATCH.unsigned_abs() {
                return Ok(());
            }
        }
    }
}

async fn delete_idle_turns(tx: &deadpool_postgres::Transaction<'_>) -> Outcome<u64> {
    let idle: Vec<(i64, String)> = all(tx, IDLE_TURNS, &[&BATCH], pair).await?;
    let (accounts, models): (Vec<i64>, Vec<String>) = idle.into_iter().unzip();
    run(tx, LOCK_PURSES, &[&accounts]).await?;
    run(tx, DELETE_TURNS, &[&accounts, &models]).await
}
