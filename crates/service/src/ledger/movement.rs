//! Movements of money: the entries that a credit, a bill or a refund makes.

use super::{Adjustment, Money, Purse, Purses, Reason, Split};
use crate::ids::AccountId;
use crate::{Error, Result};

/// Purse on one side of a movement; None for money that enters or leaves the ledger.
pub(crate) type Side = Option<(AccountId, Purse)>;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin<T> {
    Task(T),
    Adjustment(i64),
    Neither,
}

impl<T> Origin<T> {
    pub(crate) fn parts(self) -> (Option<T>, Option<i64>) {
        match self {
            Self::Task(task) => (Some(task), None),
            Self::Adjustment(adjustment) => (None, Some(adjustment)),
            Self::Neither => (None, None),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Movement {
    pub(crate) amount: Money,
    pub(crate) from: Side,
    pub(crate) to: Side,
    pub(crate) reason: Reason,
}

impl Movement {
    /// Makes the movements of a credit (which pays a debt first) or debit. Inner `Err`: the purse's amount, if too low.
    pub(crate) fn of_adjustment(
        account: AccountId,
        mut owned: Purses,
        adjustment: &Adjustment,
    ) -> Result<Result<Vec<Self>, Money>> {
        let &Adjustment { purse, amount, .. } = adjustment;
        let side = Some((account, purse));
        if amount < Money::ZERO {
            let present = *owned.of(purse);
            let amount = difference(Money::ZERO, amount)?;
            let taken = Self { amount, from: side, to: None, reason: Reason::Debit };
            return Ok(if amount > present { Err(present) } else { Ok(vec![taken]) });
        }
        owned.check_room_for(amount)?;
        let repaid = if purse == Purse::Balance { amount.min(owned.owed()) } else { Money::ZERO };
        debug_assert!(repaid >= Money::ZERO, "a credit increases a debt");
        let given = Self { amount, from: None, to: side, reason: Reason::Credit };
        Ok(Ok(vec![given, Self::of_debt(account, repaid)]))
    }

    const fn of_debt(account: AccountId, amount: Money) -> Self {
        let from = Some((account, Purse::Balance));
        let to = Some((account, Purse::Debt));
        Self { amount, from, to, reason: Reason::Repay }
    }

    /// Makes the movements of a storage bill: free credits, then the balance that earlier debt leaves, then debt.
    pub(crate) fn of_bill(
        account: AccountId,
        owned: &Purses,
        operator: AccountId,
        charge: Money,
    ) -> Result<Vec<Self>> {
        let free = charge.min(owned.free);
        let rest = difference(charge, free)?;
        let repaid = owned.owed().min(owned.balance);
        let balance = rest.min(difference(owned.balance, repaid)?);
        let debt = difference(rest, balance)?;
        let to = Some((operator, Purse::Revenue));
        let parts = [(Purse::Free, free), (Purse::Balance, balance), (Purse::Debt, debt)];
        let sum: i128 = parts.iter().map(|(_, part)| i128::from(part.smallest())).sum();
        debug_assert_eq!(sum, i128::from(charge.smallest()), "the parts of a bill do not add up to the bill");
        let part =
            |(purse, amount)| Self { amount, from: Some((account, purse)), to, reason: Reason::Storage };
        Ok(std::iter::once(Self::of_debt(account, repaid)).chain(parts.map(part)).collect())
    }

    pub(crate) fn of_setting(
        account: AccountId,
        mut owned: Purses,
        amounts: &[(Purse, Money)],
    ) -> Result<Vec<Self>> {
        let movement = |&(purse, wanted)| {
            let present = std::mem::replace(owned.of(purse), wanted);
            let side = Some((account, purse));
            let (amount, from, to) = match wanted >= present {
                true => (difference(wanted, present)?, None, side),
                false => (difference(present, wanted)?, side, None),
            };
            Ok(Self { amount, from, to, reason: Reason::Set })
        };
        let movements = amounts.iter().map(movement).collect::<Result<_>>()?;
        owned.check_room_for(Money::ZERO)?;
        Ok(movements)
    }

    pub(crate) fn assert_valid(&self) {
        debug_assert!(self.amount > Money::ZERO, "a movement takes no amount or a negative one: {self:?}");
        debug_assert_ne!(self.from, self.to, "a movement has the same purse on both sides");
    }

    pub(crate) fn of_return(from: Side, account: AccountId, price: Split, reason: Reason) -> [Self; 2] {
        [(Purse::Free, price.free), (Purse::Balance, price.balance)].map(|(purse, amount)| Self {
            amount,
            from,
            to: Some((account, purse)),
            reason,
        })
    }
}

fn difference(amount: Money, less: Money) -> Result<Money> {
    let difference = amount.checked_sub(less);
    difference.ok_or_else(|| Error::new("moving money", "the difference of two amounts is too large"))
}

#[cfg(test)]
mod tests {
    use super::super::Credit;
    use super::*;

    const ACCOUNT: AccountId = AccountId(1);
    const OPERATOR: AccountId = AccountId(2);

    fn money(units: i64) -> Money {
        Money::from_smallest(units)
    }

    fn amounts(movements: &[Movement]) -> Vec<i64> {
        movements.iter().map(|movement| movement.amount.smallest()).collect()
    }

    #[test]
    fn what_was_paid_in_pays_a_debt_and_free_credits_do_not() -> Result<()> {
        let owned = Purses { debt: money(-3), ..Purses::default() };
        let adjusted = |credit: Credit| Movement::of_adjustment(ACCOUNT, owned, &credit.into());
        for (paid, repaid) in [(2, 2), (3, 3), (10, 3)] {
            let credit = adjusted(Credit::Paid(money(paid)))?;
            assert_eq!(credit.map(|credit| amounts(&credit)), Ok(vec![paid, repaid]));
        }
        let free = adjusted(Credit::Free(money(2)))?;
        assert_eq!(free.map(|free| amounts(&free)), Ok(vec![2, 0]));
        Ok(())
    }

    #[test]
    fn a_bill_is_paid_from_free_credits_then_from_the_balance_then_owed() -> Result<()> {
        let owned = Purses { free: money(2), balance: money(3), ..Purses::default() };
        for (debt, charge, parts) in [
            (0, 1, [0, 1, 0, 0]),
            (0, 4, [0, 2, 2, 0]),
            (0, 9, [0, 2, 3, 4]),
            (-1, 4, [1, 2, 2, 0]),
            (-2, 4, [2, 2, 1, 1]),
            (-9, 4, [3, 2, 0, 2]),
        ] {
            let owned = Purses { debt: money(debt), ..owned };
            let bill = Movement::of_bill(ACCOUNT, &owned, OPERATOR, money(charge))?;
            assert_eq!(amounts(&bill), parts, "a debt of {debt}, a charge of {charge}");
        }
        Ok(())
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a movement takes no amount or a negative one")]
    fn a_movement_of_a_negative_amount_is_a_defect() {
        let from = Some((ACCOUNT, Purse::Held));
        let to = Some((ACCOUNT, Purse::Free));
        Movement { amount: money(-1), from, to, reason: Reason::Release }.assert_valid();
    }

    #[test]
    fn a_purse_that_is_set_twice_holds_the_last_amount() -> Result<()> {
        let owned = Purses { free: money(2), ..Purses::default() };
        let wanted = [(Purse::Free, money(5)), (Purse::Free, money(1))];
        let set = Movement::of_setting(ACCOUNT, owned, &wanted)?;
        assert_eq!(amounts(&set), [3, 4]);
        assert_eq!((set[0].from, set[1].to), (None, None));
        Ok(())
    }
}
