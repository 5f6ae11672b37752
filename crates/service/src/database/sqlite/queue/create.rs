//! Creation of a task inside a transaction: reserves its price, assigns its position and inserts its row.

use rusqlite::{Connection, params};

use super::super::movements::{move_money, purses};
use super::super::statements::Statements as _;
use crate::Result;
use crate::clock::Moment;
use crate::database::records::{self, column};
use crate::database::shared_sql::{ADD_CREATE_KEY, ADD_KEY_TASK, FORGET_KEY, KEYED_CREATE, SPENT_BY_KEY};
use crate::ledger::{Money, Movement, Origin, Purse, Reason, Split};
use crate::queue::{
    CreateKey, Created, InsufficientBalance, KEY_RETENTION, NewTask, Spending, Status, detail_of,
};

/// Creates a task, in four steps of one transaction:
/// 1. The idempotency key: a known key returns its task, whatever else would refuse the create. A caller that lost the
///    response sends the same create again, and the first one may have spent the rest of the balance.
/// 2. The limits: the unfinished tasks of the account, and the spending of the API key.
/// 3. The price: free credits first, the balance for the rest. If the sum is too small, the create is refused, or
///    inserts a task that has already failed and holds nothing.
/// 4. The rows: the task at the next position of the history, its key, the spending of the API key, the turn of the
///    account, and the movements of the price into the purse `held`.
pub(super) fn create(
    db: &Connection,
    task: &NewTask,
    insufficient_balance: InsufficientBalance,
    max_unfinished: u32,
    now: Moment,
) -> Result<Created> {
    if let Some(key) = &task.key {
        let used_after = now.before(KEY_RETENTION);
        let used = db.all(KEYED_CREATE, params![task.account, key.key, used_after], records::keyed_create)?;
        if let Some(used) = used.into_iter().next() {
            return Ok(Created::KeyUsed(used));
        }
    }
    let at_the_limit = "SELECT 1 FROM accounts WHERE id = ? AND unfinished >= ?";
    if db.is_there(at_the_limit, params![task.account, max_unfinished])? {
        return Ok(Created::TooManyUnfinished);
    }
    if let Some(spending) = &task.spending {
        let spent = db.one(SPENT_BY_KEY, params![spending.key, now.day()], column)?;
        if let Some(left) = spending.refuse(spent, task.price) {
            return Ok(Created::KeyLimit { left });
        }
    }
    let purses = purses(db, task.account)?;
    let split = purses.split(task.price);
    let created = match (split, insufficient_balance) {
        (Some(_), _) => Created::Queued,
        (None, InsufficientBalance::FailTask) => Created::Failed,
        (None, InsufficientBalance::Refuse) => {
            return Ok(Created::Refused { spendable: purses.spendable() });
        }
    };
    let (status, message) = match created {
        Created::Queued => (Status::Queued, None),
        _ => (Status::Failed, Some(task.insufficient(purses.spendable()))),
    };
    let detail = message.as_deref().map(detail_of);
    let Split { free, balance } = split.unwrap_or_default();
    debug_assert_eq!(
        free.checked_add(balance),
        Some(if split.is_some() { task.price } else { Money::ZERO }),
        "a task holds another amount than its price",
    );
    let NewTask { id, account, model, version, publisher, price, input, key, traceparent, spending } = task;
    let next_place = "UPDATE accounts SET tasks = tasks + 1 WHERE id = ? RETURNING tasks - 1";
    let place: i64 = db.one(next_place, [task.account], column)?;
    db.change_one(
        "INSERT INTO tasks (id, account, place, model, version, publisher, status, price, held_free, \
         held_balance, message, input, error, traceparent, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?15)",
        params![
            id,
            account,
            place,
            model,
            version,
            publisher,
            status,
            price,
            free,
            balance,
            message,
            input,
            detail,
            traceparent,
            now,
        ],
    )?;
    if let Some(CreateKey { key, request }) = key {
        db.run(FORGET_KEY, params![account, key, now.before(KEY_RETENTION)])?;
        db.change_one(ADD_CREATE_KEY, params![account, key, request, id, now])?;
    }
    if let Some(Spending { key, .. }) = spending {
        db.change_one(ADD_KEY_TASK, params![key, now.day(), id, price])?;
    }
    if status == Status::Queued {
        db.run(
            "INSERT INTO turns SELECT ?1, ?2, coalesce((SELECT turn FROM turns WHERE account = ?1 LIMIT 1), \
             (SELECT max(turn) + 1 FROM turns), 1) WHERE true ON CONFLICT DO NOTHING",
            params![account, model],
        )?;
    }
    let to = Some((*account, Purse::Held));
    for (purse, amount) in [(Purse::Free, free), (Purse::Balance, balance)] {
        let from = Some((*account, purse));
        move_money(db, Movement { amount, from, to, reason: Reason::Reserve }, Origin::Task(id), now)?;
    }
    debug_assert!(
        status == Status::Failed
            || !db.is_there(
                "SELECT 1 FROM accounts WHERE id = ? AND unfinished > ?",
                params![account, max_unfinished]
            )?,
        "an account has more unfinished tasks than its limit",
    );
    Ok(created)
}
