//! Creating a task, inside a transaction: its price set aside, its place in the history, its row.

use sqlx::SqliteConnection;

use super::super::movements::{move_money, purses};
use crate::Error;
use crate::clock::Moment;
use crate::ledger::{Money, Purse, Reason};
use crate::queue::{Created, InsufficientBalance, NewTask, Status};

pub(super) async fn create(
    tx: &mut SqliteConnection,
    task: &NewTask,
    otherwise: InsufficientBalance,
    now: Moment,
) -> Result<Created, Error> {
    let purses = purses(tx, task.account).await?;
    let split = purses.split(task.price);
    let created = match (split, otherwise) {
        (Some(_), _) => Created::Queued,
        (None, InsufficientBalance::FailTask) => Created::Failed,
        (None, InsufficientBalance::Refuse) => {
            return Ok(Created::Refused { spendable: purses.spendable() });
        }
    };
    let (status, message) = match created {
        Created::Queued => (Status::Queued, None),
        _ => (Status::Failed, Some(insufficient(task.price, purses.spendable()))),
    };
    let detail = message.as_ref().map(|message| serde_json::json!({ "message": message }).to_string());
    let held = split.unwrap_or_default();
    let place: i64 =
        sqlx::query_scalar("UPDATE accounts SET tasks = tasks + 1 WHERE id = ? RETURNING tasks - 1")
            .bind(task.account.0)
            .fetch_one(&mut *tx)
            .await?;
    sqlx::query(
        "INSERT INTO tasks (id, account, place, model, version, publisher, status, price, held_free, \
         held_balance, message, input, error, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14)",
    )
    .bind(&task.id)
    .bind(task.account.0)
    .bind(place)
    .bind(&task.model)
    .bind(task.version)
    .bind(task.publisher.0)
    .bind(status.word())
    .bind(task.price.smallest())
    .bind(held.free.smallest())
    .bind(held.balance.smallest())
    .bind(message)
    .bind(&task.input)
    .bind(detail)
    .bind(now.0)
    .execute(&mut *tx)
    .await?;
    let to = Some((task.account, Purse::Held));
    for (purse, part) in [(Purse::Free, held.free), (Purse::Balance, held.balance)] {
        let from = Some((task.account, purse));
        move_money(tx, part, from, to, Reason::Reserve, Some(&task.id), now).await?;
    }
    Ok(created)
}

/// What a task says that the balance does not cover.
fn insufficient(price: Money, spendable: Money) -> String {
    format!("insufficient balance: the model costs {price}, and {spendable} can be spent")
}
