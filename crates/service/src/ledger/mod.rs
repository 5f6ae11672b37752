//! Ledger: each movement of money between purses is a row, and every balance is a sum of rows that `audit` recomputes.

mod adjustment;
mod money;
mod movement;

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub(crate) use adjustment::{Adjusted, Adjustment};
pub use money::{Money, NotMoney};
pub(crate) use money::{UNIT, as_number};
pub(crate) use movement::{Movement, Origin, Side};

use crate::clock::Moment;
use crate::ids::AccountId;
use crate::string_enum::string_enum;
use crate::{Error, Result};

string_enum! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum Purse {
        Balance = "balance",
        Free = "free",
        Held = "held",
        Debt = "debt",
        Earnings = "earnings",
        Revenue = "revenue",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Purses {
    pub(crate) balance: Money,
    pub(crate) free: Money,
    pub(crate) held: Money,
    /// Never positive.
    pub(crate) debt: Money,
    pub(crate) earnings: Money,
    pub(crate) revenue: Money,
}

impl Purses {
    pub(crate) fn spendable(&self) -> Money {
        Money::from_smallest(self.balance.smallest().saturating_add(self.free.smallest()))
    }

    /// Fails if adding the amount would overflow once all reserved money is released.
    pub(crate) fn check_room_for(&self, amount: Money) -> Result<()> {
        let parts = [self.free, self.held, amount];
        match parts.into_iter().try_fold(self.balance, Money::checked_add) {
            Some(_) => Ok(()),
            None => Err(Error::new("moving money", "the account would hold more than the largest amount")),
        }
    }

    pub(crate) fn owed(&self) -> Money {
        Money::from_smallest(self.debt.smallest().saturating_neg())
    }

    pub(crate) fn split(&self, price: Money) -> Option<Split> {
        if price > self.spendable() {
            return None;
        }
        let free = price.min(self.free);
        let balance = price.checked_sub(free)?;
        debug_assert!(balance <= self.balance, "a price takes more from the balance than the balance holds");
        Some(Split { free, balance })
    }

    pub(crate) fn assert_signs(&self) {
        let Self { balance, free, held, debt, earnings, revenue } = *self;
        for amount in [balance, free, held, earnings, revenue] {
            debug_assert!(amount >= Money::ZERO, "a purse other than the debt is negative: {self:?}");
        }
        debug_assert!(debt <= Money::ZERO, "a debt is positive: {self:?}");
    }

    pub(crate) fn of(&mut self, purse: Purse) -> &mut Money {
        match purse {
            Purse::Balance => &mut self.balance,
            Purse::Free => &mut self.free,
            Purse::Held => &mut self.held,
            Purse::Debt => &mut self.debt,
            Purse::Earnings => &mut self.earnings,
            Purse::Revenue => &mut self.revenue,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Split {
    pub(crate) free: Money,
    pub(crate) balance: Money,
}

impl Split {
    pub(crate) fn total(&self) -> Result<Money> {
        let total = self.free.checked_add(self.balance);
        total.ok_or_else(|| Error::new("moving money", "a price is more than the largest amount"))
    }
}

string_enum! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum Reason {
        Credit = "credit",
        Debit = "debit",
        Reserve = "reserve",
        Release = "release",
        Charge = "charge",
        Refund = "refund",
        Storage = "storage",
        /// A payment into an account pays its debt.
        #[serde(rename = "settle")]
        Repay = "settle",
        Set = "set",
        /// Earnings or revenue above the largest amount, which leave the ledger.
        Overflow = "overflow",
        Carried = "carried",
    }
}

/// A credit to an account; in JSON `{"paid": "5"}` or `{"free": "0.5"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "CreditFields")]
pub enum Credit {
    /// Paid money, which pays a debt first.
    Paid(Money),
    /// Free credits.
    Free(Money),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreditFields {
    paid: Option<Money>,
    free: Option<Money>,
}

impl TryFrom<CreditFields> for Credit {
    type Error = &'static str;

    fn try_from(fields: CreditFields) -> Result<Self, Self::Error> {
        Self::of(fields.paid, fields.free)
    }
}

impl Credit {
    pub(crate) const fn of(paid: Option<Money>, free: Option<Money>) -> Result<Self, &'static str> {
        match (paid, free) {
            (Some(amount), None) => Ok(Self::Paid(amount)),
            (None, Some(amount)) => Ok(Self::Free(amount)),
            _ => Err("give paid or free"),
        }
    }
}

/// Result of an audit of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Audit {
    /// Number of audited movements.
    pub movements: u64,
    /// One sentence for each inconsistency; empty if the books are consistent.
    pub faults: Vec<String>,
}

/// Longest unmetered time that counts at a start, an upload and a deletion. A service that was stopped longer cannot be
/// told from a clock that was wrong.
pub(crate) const MAX_UNMETERED: Duration = Duration::from_hours(7 * 24);

/// Storage meter of an account: stored bytes, and the byte-seconds that are not charged yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meter {
    pub(crate) stored_bytes: i64,
    /// High part of the byte-seconds, in GiB-seconds: a terabyte makes more than 2^63 byte-seconds in four months.
    pub(crate) byte_seconds: i64,
    pub(crate) gib_seconds: i64,
    /// End of the metered time. The metered time has whole seconds.
    pub(crate) metered_at: Moment,
}

impl Meter {
    const GIB: i128 = 1 << 30;

    /// Adds the byte-seconds up to now, but not more than `at_most` back, then changes the number of stored bytes.
    /// Commits can be out of the order of their times, and clocks can be set back: no stored byte is metered twice.
    pub(crate) fn advance(&mut self, change: i64, now: Moment, at_most: Duration) {
        if self.stored_bytes == 0 {
            self.metered_at = now;
        }
        let earliest = now.before(at_most);
        if self.metered_at < earliest {
            tracing::warn!(
                days = (earliest.0 - self.metered_at.0) / 86_400_000,
                "storage is not metered for this time: the clock was wrong, or the service was stopped"
            );
            self.metered_at = earliest;
        }
        let seconds = now.0.saturating_sub(self.metered_at.0).max(0) / 1000;
        self.keep(self.uncharged() + i128::from(self.stored_bytes) * i128::from(seconds));
        self.metered_at = Moment(self.metered_at.0 + seconds * 1000);
        self.stored_bytes += change;
        debug_assert!(self.stored_bytes >= 0, "more bytes are deleted than the account stores");
    }

    /// Charges the uncharged byte-seconds; a remainder below the smallest unit of money stays.
    pub(crate) fn charge(&mut self, rate: StorageRate) -> Money {
        let uncharged = self.uncharged();
        let (charge, left) = rate.charge(uncharged);
        debug_assert!(charge >= Money::ZERO, "a storage bill is negative");
        debug_assert!((0..=uncharged).contains(&left), "a storage bill leaves more than was metered");
        self.keep(left);
        charge
    }

    fn uncharged(&self) -> i128 {
        i128::from(self.gib_seconds) * Self::GIB + i128::from(self.byte_seconds)
    }

    fn keep(&mut self, byte_seconds: i128) {
        self.gib_seconds = i64::try_from(byte_seconds / Self::GIB).unwrap_or(i64::MAX);
        self.byte_seconds = i64::try_from(byte_seconds % Self::GIB).unwrap_or(0);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StorageRate {
    pub(crate) per_gib_day: Money,
}

impl StorageRate {
    const GIB_DAY: i128 = (1 << 30) * 86_400;

    /// Returns the charge for byte-seconds and the byte-seconds that remain: below a unit, or above the largest amount.
    pub(crate) fn charge(self, byte_seconds: i128) -> (Money, i128) {
        let rate = i128::from(self.per_gib_day.smallest());
        if rate <= 0 {
            return (Money::ZERO, 0);
        }
        let units = byte_seconds.saturating_mul(rate) / Self::GIB_DAY;
        let money = i64::try_from(units).unwrap_or(i64::MAX);
        // Round the charged byte-seconds up, so that no second is charged twice.
        let taken = (i128::from(money) * Self::GIB_DAY + rate - 1) / rate;
        (Money::from_smallest(money), (byte_seconds - taken).max(0))
    }
}

/// Maximum number of unfolded old movements: an account billed each hour costs one transaction in about two days.
pub(crate) const MAX_OLD_MOVEMENTS: u32 = 50;

#[async_trait]
pub(crate) trait Ledger: Send + Sync {
    async fn purses(&self, account: AccountId) -> Result<Purses>;
    async fn adjust(&self, account: AccountId, adjustment: &Adjustment, now: Moment) -> Result<Adjusted>;
    #[cfg(test)]
    async fn credit(&self, account: AccountId, credit: Credit, now: Moment) -> Result<()> {
        self.adjust(account, &credit.into(), now).await.map(drop)
    }
    /// Sets the amounts of purses, for tests. The difference enters or leaves the ledger.
    async fn set_purses(&self, account: AccountId, amounts: &[(Purse, Money)], now: Moment) -> Result<()>;
    /// Charges accounts for storage and debt; the uncovered rest becomes debt. Meters `at_most` a time, because clocks
    /// can jump. Returns the number of charged accounts.
    async fn charge_storage(&self, rate: StorageRate, now: Moment, at_most: Duration) -> Result<u64>;
}

#[async_trait]
pub(crate) trait MovementSums: Send + Sync {
    /// Folds old movements that belong to no task into one sum for each pair of purses; returns the number folded.
    async fn carry_movements(&self, before: Moment, now: Moment) -> Result<usize>;
    /// Recomputes every balance from the movements, and every reserved amount from the tasks.
    async fn audit(&self) -> Result<Audit>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money(text: &str) -> Money {
        text.parse().unwrap_or_default()
    }

    #[test]
    fn free_credits_are_spent_first_and_never_more_than_there_is() {
        let purses = Purses { balance: money("2"), free: money("0.5"), ..Purses::default() };
        assert_eq!(purses.split(money("0.3")), Some(Split { free: money("0.3"), balance: Money::ZERO }));
        assert_eq!(purses.split(money("2.5")), Some(Split { free: money("0.5"), balance: money("2") }));
        assert_eq!(purses.split(money("2.500000001")), None);
    }

    #[test]
    fn storage_is_charged_to_the_last_unit_however_often_it_is_metered() {
        let rate = StorageRate { per_gib_day: money("0.01") };
        let day_of_a_gib = 1_i128 << 30;
        let (at_once, _) = rate.charge(day_of_a_gib * 86_400);
        assert_eq!(at_once, money("0.01"));

        let (mut total, mut carried) = (Money::ZERO, 0);
        for _ in 0..86_400 {
            let (charge, left) = rate.charge(carried + day_of_a_gib);
            total = total.checked_add(charge).unwrap_or_default();
            carried = left;
        }
        // Rounding the charged byte-seconds up can leave at most one unit for the next day.
        assert!(money("0.01").checked_sub(total).is_some_and(|rest| rest.smallest() <= 1));
    }

    #[test]
    fn what_a_unit_took_is_rounded_up_to_a_byte_second() {
        for (rate, left) in [(3, 1), (7, 0)] {
            let first_of_a_unit = StorageRate::GIB_DAY / i128::from(rate) + 1;
            let charged = StorageRate { per_gib_day: Money::from_smallest(rate) }.charge(first_of_a_unit);
            assert_eq!(charged, (Money::from_smallest(1), left));
        }
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #[test]
            fn no_second_of_storage_is_charged_twice_and_hardly_one_is_lost(
                price in prop_oneof![Just(0_i64), 1..1_000_000_000_i64], parts in proptest::collection::vec(0..1_i128 << 50, 1..20),
            ) {
                let rate = StorageRate { per_gib_day: Money::from_smallest(price) };
                let (at_once, _) = rate.charge(parts.iter().sum());
                let (mut total, mut carried) = (0, 0);
                for part in &parts {
                    let (charge, left) = rate.charge(carried + part);
                    prop_assert!(left >= 0 && left <= carried + part);
                    total += charge.smallest();
                    carried = left;
                }
                prop_assert!((0..=1).contains(&(at_once.smallest() - total)), "{at_once} at once, {total} in parts");
            }

            #[test]
            fn a_price_is_taken_whole_or_not_at_all(free in 0..1_000_i64, balance in 0..1_000_i64, price in 0..2_500_i64) {
                let [free, balance, price] = [free, balance, price].map(Money::from_smallest);
                let purses = Purses { free, balance, ..Purses::default() };
                match purses.split(price) {
                    Some(split) => {
                        prop_assert_eq!(split.free.checked_add(split.balance), Some(price));
                        prop_assert!(split.free <= free && split.balance <= balance);
                        prop_assert!(split.balance == Money::ZERO || split.free == free, "free credits come first");
                    }
                    None => prop_assert!(free.checked_add(balance).is_some_and(|all| all < price)),
                }
            }
        }
    }
}
