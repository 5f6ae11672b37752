//! Movements of money inside a transaction.

use deadpool_postgres::GenericClient;

use super::failure::PostgresResult;
use super::statements::{first, one, run};
use crate::Error;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::{self, column};
use crate::ledger::{Money, Movement, Origin, Purse, Purses, Side};

/// Locks the purses of accounts, always in the same order, so that transactions do not deadlock.
pub(super) async fn lock(tx: &impl GenericClient, accounts: &[AccountId]) -> PostgresResult {
    let lock = "SELECT account FROM purses WHERE account = ANY ($1) ORDER BY account FOR UPDATE";
    run(tx, lock, &[&accounts]).await?;
    Ok(())
}

/// Selects the amounts of an account's purses including pending deltas, clamped to the largest amount.
const PURSES: &str = "SELECT balance, free, held, debt, \
     least(earnings + (SELECT coalesce(sum(amount), 0) FROM purse_changes \
       WHERE purse_changes.account = purses.account AND purse = 'earnings'), 9223372036854775807)::bigint, \
     least(revenue + (SELECT coalesce(sum(amount), 0) FROM purse_changes \
       WHERE purse_changes.account = purses.account AND purse = 'revenue'), 9223372036854775807)::bigint \
     FROM purses WHERE account = $1";

pub(super) async fn purses(db: &impl GenericClient, account: AccountId) -> PostgresResult<Purses> {
    let purses = first(db, PURSES, &[&account], records::purses).await?.unwrap_or_default();
    purses.assert_signs();
    Ok(purses)
}

/// Returns the statement that folds chosen pending deltas of `purse_changes` into their purses, as far as these can be
/// locked, and returns their number. The excess of a purse over the largest amount leaves the ledger, so that no
/// customer's task fails because of its publisher's earnings. Purses are locked in the order of all transactions.
pub(super) fn add_changes_of(chosen: &str, lock: &str) -> String {
    format!(
        "WITH chosen AS ({chosen}), \
         locked AS (SELECT account, earnings, revenue FROM purses \
           WHERE account IN (SELECT account FROM chosen) ORDER BY account {lock}), \
         added AS (DELETE FROM purse_changes WHERE id IN ( \
             SELECT id FROM chosen WHERE account IN (SELECT account FROM locked)) \
           RETURNING account, purse, amount), \
         sums AS ( \
           SELECT account, earnings + coalesce(sum(amount) FILTER (WHERE purse = 'earnings'), 0) AS earnings, \
             revenue + coalesce(sum(amount) FILTER (WHERE purse = 'revenue'), 0) AS revenue \
           FROM added JOIN locked USING (account) GROUP BY account, earnings, revenue), \
         summed AS ( \
           UPDATE purses SET earnings = least(sums.earnings, 9223372036854775807)::bigint, \
             revenue = least(sums.revenue, 9223372036854775807)::bigint \
           FROM sums WHERE purses.account = sums.account), \
         overflow AS ( \
           INSERT INTO movements (at, amount, from_account, from_purse, reason) \
           SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, \
             least(excess - part * 9223372036854775807, 9223372036854775807)::bigint, account, purse, 'overflow' \
           FROM sums CROSS JOIN LATERAL (VALUES ('earnings', earnings - 9223372036854775807), \
               ('revenue', revenue - 9223372036854775807)) AS beyond (purse, excess) \
             CROSS JOIN LATERAL generate_series(0, div(excess - 1, 9223372036854775807)) AS parts (part) \
           WHERE excess > 0) \
         SELECT count(*) FROM added"
    )
}

/// Folds the pending deltas into the purses of an account, which the transaction has locked, and returns the purses.
/// The amounts are read before the fold: another transaction may commit an earning in between, and an amount that was
/// returned but not folded could not be moved. So the purses hold the returned amounts or more.
pub(super) async fn add_changes(tx: &impl GenericClient, account: AccountId) -> PostgresResult<Purses> {
    let owned = purses(tx, account).await?;
    let chosen = "SELECT id, account FROM purse_changes WHERE account = $1 FOR UPDATE";
    one::<i64>(tx, &add_changes_of(chosen, "FOR UPDATE"), &[&account], column).await?;
    Ok(owned)
}

pub(super) async fn move_all(
    tx: &impl GenericClient,
    movements: &[Movement],
    origin: Origin<&str>,
    now: Moment,
) -> PostgresResult {
    for movement in movements {
        move_money(tx, *movement, origin, now).await?;
    }
    Ok(())
}

async fn move_money(
    tx: &impl GenericClient,
    movement: Movement,
    origin: Origin<&str>,
    now: Moment,
) -> PostgresResult {
    let Movement { amount, from, to, reason } = movement;
    if amount == Money::ZERO {
        return Ok(());
    }
    movement.assert_valid();
    let account = |side: Side| side.map(|(account, _)| account);
    let purse = |side: Side| side.map(|(_, purse)| purse);
    let (task, adjustment) = origin.parts();
    run(
        tx,
        "INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason, task, adjustment) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, (SELECT sequence FROM tasks WHERE id = $8), $9)",
        &[&now, &amount, &account(from), &purse(from), &account(to), &purse(to), &reason, &task, &adjustment],
    )
    .await?;
    if let Some((account, purse)) = from {
        add(tx, account, purse, -amount.smallest()).await?;
    }
    match to {
        Some((account, purse @ (Purse::Earnings | Purse::Revenue))) => {
            let insert = "INSERT INTO purse_changes (account, purse, amount) VALUES ($1, $2, $3)";
            run(tx, insert, &[&account, &purse, &amount]).await?;
        }
        Some((account, purse)) => add(tx, account, purse, amount.smallest()).await?,
        None => {}
    }
    Ok(())
}

async fn add(tx: &impl GenericClient, account: AccountId, purse: Purse, amount: i64) -> PostgresResult {
    let column = purse.word();
    let update = format!("UPDATE purses SET {column} = {column} + $2 WHERE account = $1");
    match run(tx, &update, &[&account, &amount]).await? {
        0 => Err(Error::new("moving money", format!("there is no account {}", account.0)).into()),
        _ => Ok(()),
    }
}
