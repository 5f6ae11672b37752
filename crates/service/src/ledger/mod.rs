//! The ledger: who owns and owes what. Money only ever moves from one purse to another, each movement
//! is a row, and every balance is a sum of rows that `audit` recomputes.

mod adjustment;
mod money;
mod movement;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub(crate) use adjustment::{Adjusted, Adjustment};
pub(crate) use money::as_number;
pub use money::{Money, NotMoney};
pub(crate) use movement::{Movement, Origin, Side};

use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::words::words;
use crate::{Error, Result};

words! {
    /// Where an account keeps money.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum Purse {
        /// What was paid in and may be spent.
        Balance = "balance",
        /// What was given and may be spent; it is spent first.
        Free = "free",
        /// What is set aside for tasks that have not ended.
        Held = "held",
        /// What is owed; its sum is never above zero.
        Debt = "debt",
        /// What published models have earned.
        Earnings = "earnings",
        /// What the operator took for storage.
        Revenue = "revenue",
    }
}

/// The contents of an account's purses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Purses {
    pub(crate) balance: Money,
    pub(crate) free: Money,
    pub(crate) held: Money,
    /// Zero or less.
    pub(crate) debt: Money,
    pub(crate) earnings: Money,
    pub(crate) revenue: Money,
}

impl Purses {
    /// What can be spent now.
    pub(crate) fn spendable(&self) -> Money {
        Money::from_smallest(self.balance.smallest().saturating_add(self.free.smallest()))
    }

    /// Fails when an amount more would leave no room for what is held to come back.
    pub(crate) fn check_room_for(&self, amount: Money) -> Result<()> {
        let parts = [self.free, self.held, amount];
        match parts.into_iter().try_fold(self.balance, Money::checked_add) {
            Some(_) => Ok(()),
            None => Err(Error::new("moving money", "the account would hold more than the largest amount")),
        }
    }

    /// What is owed, as an amount.
    pub(crate) fn owed(&self) -> Money {
        Money::from_smallest(self.debt.smallest().saturating_neg())
    }

    /// From which purses a price is taken: free credits first. None when it is more than there is.
    pub(crate) fn split(&self, price: Money) -> Option<Split> {
        if price > self.spendable() {
            return None;
        }
        let free = price.min(self.free);
        Some(Split { free, balance: price.checked_sub(free)? })
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

/// An amount, by the purses that it is taken from or given back to.
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

words! {
    /// Why money moved.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum Reason {
        /// The operator credited the account.
        Credit = "credit",
        /// The operator took money back.
        Debit = "debit",
        /// A task was created, and its price set aside.
        Reserve = "reserve",
        /// A task failed or was canceled, and its price given back.
        Release = "release",
        /// A task succeeded, and its price went to the publisher of the model.
        Charge = "charge",
        /// The operator returned the charge of a task.
        Refund = "refund",
        /// Files were stored.
        Storage = "storage",
        /// A balance paid a debt.
        Settle = "settle",
        /// A tester set what a purse holds.
        Set = "set",
        /// Earnings or revenue would have been more than the largest amount.
        Overflow = "overflow",
        /// Old movements were added up.
        Carried = "carried",
    }
}

/// What the operator gives an account; in JSON `{"paid": "5"}` or `{"free": "0.5"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "CreditFields")]
pub enum Credit {
    /// Money that was paid in. It pays a debt first.
    Paid(Money),
    /// Free credits.
    Free(Money),
}

/// A credit in JSON.
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
    /// Returns the one of the two that is there.
    pub(crate) const fn of(paid: Option<Money>, free: Option<Money>) -> Result<Self, &'static str> {
        match (paid, free) {
            (Some(amount), None) => Ok(Self::Paid(amount)),
            (None, Some(amount)) => Ok(Self::Free(amount)),
            _ => Err("give paid or free"),
        }
    }
}

/// What an audit of the ledger found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Audit {
    /// How many movements were read.
    pub movements: u64,
    /// One sentence for everything that does not add up; empty when the books are right.
    pub faults: Vec<String>,
}

/// What an account stores, and what it has stored and is not charged for yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meter {
    pub(crate) stored_bytes: i64,
    /// Byte-seconds are kept in two columns: a terabyte makes more than 2^63 of them in four months.
    pub(crate) byte_seconds: i64,
    pub(crate) gib_seconds: i64,
    /// Up to when they count, in whole seconds since the first one.
    pub(crate) metered_at: Moment,
}

impl Meter {
    const GIB: i128 = 1 << 30;
    /// Largest lead of the clock that storage was metered by. Time that was metered further ahead is metered again.
    const MAX_AHEAD: i64 = 7 * 24 * 3_600_000;

    /// Meters up to now, and changes how much is stored from now on. Writes are not committed in the order of their
    /// moments, and clocks are set back: time that was metered once is not metered again, unless it is far ahead.
    pub(crate) fn advance(&mut self, change: i64, now: Moment) {
        let ahead = self.metered_at.0.saturating_sub(now.0);
        if ahead > Self::MAX_AHEAD {
            tracing::warn!(
                days = ahead / 86_400_000,
                "storage was metered by a clock that was ahead; it is metered from now on"
            );
        }
        // Where nothing was stored, nothing was metered.
        if ahead > Self::MAX_AHEAD || ahead > 0 && self.stored_bytes == 0 {
            self.metered_at = now;
        }
        let seconds = now.0.saturating_sub(self.metered_at.0).max(0) / 1000;
        self.keep(self.uncharged() + i128::from(self.stored_bytes) * i128::from(seconds));
        self.metered_at = Moment(self.metered_at.0 + seconds * 1000);
        self.stored_bytes += change;
    }

    /// Takes the charge for what is not charged yet; less than a smallest unit stays.
    pub(crate) fn charge(&mut self, rate: StorageRate) -> Money {
        let (charge, left) = rate.charge(self.uncharged());
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

/// What storing files costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StorageRate {
    /// The price of one GiB (2^30 bytes) for one day.
    pub(crate) per_gib_day: Money,
}

impl StorageRate {
    /// Byte-seconds in one GiB-day.
    const GIB_DAY: i128 = (1 << 30) * 86_400;

    /// The charge for so many byte-seconds, and the byte-seconds that are left because they do not make
    /// up one smallest unit yet, or are more than the largest amount.
    pub(crate) fn charge(self, byte_seconds: i128) -> (Money, i128) {
        let rate = i128::from(self.per_gib_day.smallest());
        if rate <= 0 {
            return (Money::ZERO, 0);
        }
        let units = byte_seconds.saturating_mul(rate) / Self::GIB_DAY;
        let money = i64::try_from(units).unwrap_or(i64::MAX);
        // What the whole units took, rounded up, so that no second is charged twice.
        let taken = (i128::from(money) * Self::GIB_DAY + rate - 1) / rate;
        (Money::from_smallest(money), (byte_seconds - taken).max(0))
    }
}

/// How many old movements an account may have before they are added up.
pub(crate) const MAX_OLD_MOVEMENTS: u32 = 50;

/// What the store knows of money. Every method is one transaction.
#[async_trait]
pub(crate) trait Ledger: Send + Sync {
    async fn purses(&self, account: AccountId) -> Result<Purses>;
    /// Gives an account money or takes it back. A reference that an adjustment of the account has used changes nothing.
    async fn adjust(&self, account: AccountId, adjustment: &Adjustment, now: Moment) -> Result<Adjusted>;
    #[cfg(test)]
    async fn credit(&self, account: AccountId, credit: Credit, now: Moment) -> Result<()> {
        self.adjust(account, &credit.into(), now).await.map(drop)
    }
    /// Sets what purses hold, for testers: the difference comes from outside, or goes there.
    async fn set_purses(&self, account: AccountId, amounts: &[(Purse, Money)], now: Moment) -> Result<()>;
    /// Charges every account for what it stored since it was last charged, and for its debt. What the balance does not
    /// cover becomes debt, or stays it. Returns how many accounts were charged.
    async fn charge_storage(&self, rate: StorageRate, now: Moment) -> Result<u64>;
    /// Adds up the movements from before a moment that belong to no task: for accounts that have many of them, one
    /// for each pair of purses stays. Returns how many were added up.
    async fn carry_movements(&self, before: Moment, now: Moment) -> Result<usize>;
    /// Recomputes every balance from the movements, and every hold from the tasks.
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
        // Rounding up what is taken can leave at most a few units for the next day.
        assert!(money("0.01").checked_sub(total).is_some_and(|rest| rest.smallest() <= 1));
    }

    #[test]
    fn what_a_unit_took_is_rounded_up_to_a_byte_second() {
        // A unit of the first rate is a whole number of byte-seconds.
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
