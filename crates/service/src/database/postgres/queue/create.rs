//! Creating a task in one statement: its price set aside, its place in the history, its row, its turn.

use deadpool_postgres::GenericClient;

use super::super::failure::Outcome;
use super::super::statements::{first, run};
use crate::Error;
use crate::clock::Moment;
use crate::ledger::{Money, Purses};
use crate::queue::{Created, NewTask, detail_of};

/// Everything follows from one update of the purses. It sees them as they are once others have committed, also where
/// the snapshot of the statement is older: so its conditions and what it returns read no other row. The turn is locked
/// even when it is there: a row that is about to be deleted stays, because its task is there when that is judged.
const CREATE: &str = "WITH paid AS ( \
       UPDATE purses SET tasks = tasks + 1, unfinished = unfinished + 1, held = held + $6::bigint, \
         taken_free = least(free, $6::bigint), free = free - least(free, $6::bigint), \
         balance = balance - ($6::bigint - least(free, $6::bigint)) \
       WHERE account = $2 AND unfinished < $8::bigint AND balance >= $6::bigint - least(free, $6::bigint) \
       RETURNING tasks - 1 AS place, taken_free AS free), \
     created AS ( \
       INSERT INTO tasks (id, account, place, model, version, publisher, status, price, held_free, \
         held_balance, input, created_at, updated_at) \
       SELECT $1, $2, place, $3, $4, $5, 'in_queue', $6::bigint, free, $6::bigint - free, $7, $9, $9 FROM paid \
       RETURNING sequence, held_free, held_balance), \
     moved AS ( \
       INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason, task) \
       SELECT $9, part.amount, $2, part.purse, $2, 'held', 'reserve', sequence FROM created \
         CROSS JOIN LATERAL (VALUES ('free', held_free), ('balance', held_balance)) AS part (purse, amount) \
       WHERE part.amount > 0), \
     queued AS ( \
       INSERT INTO turns (account, model, turn) \
       SELECT $2, $3, coalesce((SELECT min(turn) FROM turns WHERE account = $2), nextval('turn_numbers')) \
       FROM created \
       ON CONFLICT (account, model) DO UPDATE SET turn = turns.turn), \
     used AS (INSERT INTO model_uses (model, day) SELECT $3, $10 FROM created) \
     SELECT free, balance, unfinished, (SELECT sequence FROM created) FROM purses WHERE account = $2";

/// Creates a task; None when others spent meanwhile what the snapshot still had, and nothing was done.
pub(super) async fn create(
    db: &impl GenericClient,
    task: &NewTask,
    max_unfinished: u32,
    now: Moment,
) -> Outcome<Option<Created>> {
    type Row = (Money, Money, i64, Option<i64>);
    let max_unfinished = i64::from(max_unfinished);
    let created: Option<Row> = first(
        db,
        CREATE,
        &[
            &task.id,
            &task.account,
            &task.model,
            &task.version,
            &task.publisher,
            &task.price,
            &task.input,
            &max_unfinished,
            &now,
            &now.day(),
        ],
        |row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?)),
    )
    .await?;
    let (free, balance, unfinished, sequence) =
        created.ok_or_else(|| Error::new("creating a task", "its account is not there"))?;
    let spendable = Purses { free, balance, ..Purses::default() }.spendable();
    Ok(match sequence {
        Some(_) => Some(Created::Queued),
        None if unfinished >= max_unfinished => Some(Created::TooManyUnfinished),
        None if spendable < task.price => Some(Created::Refused { spendable }),
        None => None,
    })
}

/// Creates a task that has failed because the balance did not suffice.
pub(super) async fn create_failed(
    db: &impl GenericClient,
    task: &NewTask,
    spendable: Money,
    now: Moment,
) -> Outcome {
    let message = task.insufficient(spendable);
    let detail = detail_of(&message);
    run(
        db,
        "WITH placed AS (UPDATE purses SET tasks = tasks + 1 WHERE account = $2 RETURNING tasks - 1 AS place) \
         INSERT INTO tasks (id, account, place, model, version, publisher, status, price, held_free, \
           held_balance, message, input, error, created_at, updated_at) \
         SELECT $1, $2, place, $3, $4, $5, 'failed', $6, 0, 0, $7, $8, $9, $10, $10 FROM placed",
        &[
            &task.id,
            &task.account,
            &task.model,
            &task.version,
            &task.publisher,
            &task.price,
            &message,
            &task.input,
            &detail,
            &now,
        ],
    )
    .await?;
    Ok(())
}
