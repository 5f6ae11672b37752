//! Balances, credits, storage charges and meters, in any engine.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};

use super::dialect::Dialect;
use super::engine::{Engine, How, Rows as _, Session, params, work};
use super::records::{column, meter, pair};
use crate::Result;
use crate::accounts::{AccountId, OPERATOR};
use crate::clock::Moment;
use crate::ledger::{
    Adjusted, Adjustment, Ledger, MAX_UNMETERED, Meter, Money, Movement, Origin, Purse, Purses, StorageRate,
};

#[async_trait]
impl<E: Engine> Ledger for E {
    async fn purses(&self, account: AccountId) -> Result<Purses> {
        work!(self, How::Read, |db, account| db.purses(*account).await)
    }

    async fn adjust(&self, account: AccountId, adjustment: &Adjustment, now: Moment) -> Result<Adjusted> {
        work!(self, How::Transaction, |db, account, adjustment, now| {
            adjust(db, *account, adjustment, *now).await
        })
    }

    async fn set_purses(&self, account: AccountId, amounts: &[(Purse, Money)], now: Moment) -> Result<()> {
        work!(self, How::Transaction, |db, account, amounts, now| {
            db.lock_purses(&[*account]).await?;
            let owned = db.spendable_purses(*account).await?;
            let movements = Movement::of_setting(*account, owned, amounts)?;
            db.move_all(&movements, Origin::Neither, *now).await
        })
    }

    async fn charge_storage(&self, rate: StorageRate, now: Moment, at_most: Duration) -> Result<u64> {
        let storing: Vec<AccountId> = self.all(E::DIALECT.storing, params![], column).await?;
        // One transaction for each account, so that a failed charge does not affect the others.
        let charges = storing.into_iter().map(|account| async move {
            let charged = work!(self, How::Transaction, |db, account, rate, now, at_most| {
                charge_storage(db, *account, *rate, *now, *at_most).await
            });
            charged
                .inspect_err(|cause| tracing::error!(%cause, account = account.0, "storage is not charged"))
        });
        let charged: Vec<_> =
            stream::iter(charges).buffer_unordered(E::DIALECT.charges_at_once).collect().await;
        charged.into_iter().try_fold(0, |sum, charged| Ok(sum + u64::from(charged?)))
    }
}

pub(super) async fn adjust(
    db: &dyn Session,
    account: AccountId,
    adjustment: &Adjustment,
    now: Moment,
) -> Result<Adjusted> {
    let Adjustment { purse, amount, reference, note } = adjustment;
    // From here on, a concurrent adjustment of the account waits, and then sees this one.
    db.lock_purses(&[account]).await?;
    let earlier = "SELECT purse, amount FROM adjustments WHERE account = $1 AND reference = $2";
    if let Some(earlier) = db.first(earlier, params![account, reference], pair).await? {
        return Ok(adjustment.again(earlier));
    }
    let movements = match Movement::of_adjustment(account, db.purses(account).await?, adjustment)? {
        Ok(movements) => movements,
        Err(owned) => return Ok(Adjusted::TooLittle { owned }),
    };
    let mut origin = Origin::Neither;
    if reference.is_some() || note.is_some() {
        let add = "INSERT INTO adjustments (account, purse, amount, reference, note) \
                   VALUES ($1, $2, $3, $4, $5) RETURNING id";
        let added = db.one(add, params![account, purse, amount, reference, note], column).await?;
        origin = Origin::Adjustment(added);
    }
    db.move_all(&movements, origin, now).await?;
    Ok(Adjusted::Done)
}

/// Charges an account for its storage up to now, and for its debt; false if the charge is less than one smallest unit.
async fn charge_storage(
    db: &dyn Session,
    account: AccountId,
    rate: StorageRate,
    now: Moment,
    at_most: Duration,
) -> Result<bool> {
    let mut meter = read_meter(db, account).await?;
    meter.advance(0, now, at_most);
    let charge = meter.charge(rate);
    keep_meter(db, account, &meter).await?;
    let operator = "SELECT id FROM accounts WHERE username = $1";
    let operator = db.one(operator, params![OPERATOR], column).await?;
    let owned = db.purses(account).await?;
    let bill = Movement::of_bill(account, &owned, operator, charge)?;
    db.move_all(&bill, Origin::Neither, now).await?;
    Ok(charge.is_positive())
}

/// Meters an account's storage up to now and then changes its bytes, in the transaction that stores or deletes a file.
pub(super) async fn meter_storage(
    db: &dyn Session,
    account: AccountId,
    change: i64,
    now: Moment,
) -> Result<Meter> {
    let mut meter = read_meter(db, account).await?;
    meter.advance(change, now, MAX_UNMETERED);
    keep_meter(db, account, &meter).await?;
    Ok(meter)
}

async fn read_meter(db: &dyn Session, account: AccountId) -> Result<Meter> {
    let Dialect { meters, meter_account, for_update, .. } = db.dialect();
    let select = format!(
        "SELECT stored_bytes, byte_seconds, gib_seconds, metered_at FROM {meters} WHERE {meter_account} = $1{for_update}"
    );
    db.one(&select, params![account], meter).await
}

async fn keep_meter(db: &dyn Session, account: AccountId, meter: &Meter) -> Result<()> {
    let Dialect { meters, meter_account, .. } = db.dialect();
    let update = format!(
        "UPDATE {meters} SET stored_bytes = $1, byte_seconds = $2, gib_seconds = $3, metered_at = $4 \
         WHERE {meter_account} = $5"
    );
    let Meter { stored_bytes, byte_seconds, gib_seconds, metered_at } = meter;
    let kept = params![stored_bytes, byte_seconds, gib_seconds, metered_at, account];
    db.change_one(&update, kept).await
}
