//! Moving money inside a transaction, and metering what is stored.

use sqlx::{Row, SqliteConnection};

use crate::Error;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::ledger::{Money, Purse, Purses, Reason};

/// One side of a movement; None is the world outside.
pub(super) type Side = Option<(AccountId, Purse)>;

/// Moves an amount from one purse to another and writes the row that proves it. Nothing moves when the
/// amount is zero.
pub(super) async fn move_money(
    tx: &mut SqliteConnection,
    amount: Money,
    from: Side,
    to: Side,
    reason: Reason,
    task: Option<&str>,
    now: Moment,
) -> Result<(), Error> {
    if amount == Money::ZERO {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason, task) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(now.0)
    .bind(amount.smallest())
    .bind(from.map(|(account, _)| account.0))
    .bind(from.map(|(_, purse)| purse.word()))
    .bind(to.map(|(account, _)| account.0))
    .bind(to.map(|(_, purse)| purse.word()))
    .bind(reason.word())
    .bind(task)
    .execute(&mut *tx)
    .await?;
    if let Some((account, purse)) = from {
        add(tx, account, purse, -amount.smallest()).await?;
    }
    if let Some((account, purse)) = to {
        add(tx, account, purse, amount.smallest()).await?;
    }
    Ok(())
}

async fn add(tx: &mut SqliteConnection, account: AccountId, purse: Purse, amount: i64) -> Result<(), Error> {
    // Two statements, since the check of the table would judge the row to be inserted, not the sum.
    let updated = sqlx::query("UPDATE purses SET amount = amount + ? WHERE account = ? AND purse = ?")
        .bind(amount)
        .bind(account.0)
        .bind(purse.word())
        .execute(&mut *tx)
        .await?;
    if updated.rows_affected() == 0 {
        sqlx::query("INSERT INTO purses (account, purse, amount) VALUES (?, ?, ?)")
            .bind(account.0)
            .bind(purse.word())
            .bind(amount)
            .execute(&mut *tx)
            .await?;
    }
    Ok(())
}

/// The contents of an account's purses, as the transaction sees them.
pub(super) async fn purses(tx: &mut SqliteConnection, account: AccountId) -> Result<Purses, Error> {
    let rows = sqlx::query("SELECT purse, amount FROM purses WHERE account = ?")
        .bind(account.0)
        .fetch_all(tx)
        .await?;
    let mut purses = Purses::default();
    for row in rows {
        let word: String = row.try_get("purse")?;
        let purse = Purse::from_word(&word)
            .ok_or_else(|| Error::new("reading a balance", format!("{word:?} is no purse")))?;
        *purses.of(purse) = Money::from_smallest(row.try_get("amount")?);
    }
    Ok(purses)
}

/// Counts what an account has stored up to now, and then changes how much it stores from now on. To be
/// called in the transaction that stores or deletes a file.
pub(super) async fn meter_storage(
    tx: &mut SqliteConnection,
    account: AccountId,
    change: i64,
    now: Moment,
) -> Result<(), Error> {
    sqlx::query(
        "UPDATE accounts SET \
         byte_seconds = byte_seconds + stored_bytes * (max(?1 - metered_at, 0) / 1000), \
         metered_at = metered_at + max(?1 - metered_at, 0) / 1000 * 1000, \
         stored_bytes = stored_bytes + ?2 \
         WHERE id = ?3",
    )
    .bind(now.0)
    .bind(change)
    .bind(account.0)
    .execute(tx)
    .await?;
    Ok(())
}
