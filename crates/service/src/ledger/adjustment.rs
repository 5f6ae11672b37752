//! Adjustments: money that the operator gives to an account or takes back, once for each reference.

use super::{Credit, Money, Purse};

/// A credit or a debit by the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Adjustment {
    /// `Balance` or `Free`.
    pub(crate) purse: Purse,
    /// Below zero for a debit.
    pub(crate) amount: Money,
    /// Identifies the adjustment among those of its account.
    pub(crate) reference: Option<String>,
    /// The reason, for people.
    pub(crate) note: Option<String>,
}

impl From<Credit> for Adjustment {
    fn from(credit: Credit) -> Self {
        let (purse, amount) = match credit {
            Credit::Paid(amount) => (Purse::Balance, amount),
            Credit::Free(amount) => (Purse::Free, amount),
        };
        Self { purse, amount, reference: None, note: None }
    }
}

impl Adjustment {
    /// Compares this adjustment with the purse and the amount of an earlier one with its reference.
    pub(crate) fn again(&self, earlier: (Purse, Money)) -> Adjusted {
        if earlier == (self.purse, self.amount) { Adjusted::Before } else { Adjusted::ReferenceUsed }
    }
}

/// The outcome of an adjustment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adjusted {
    Done,
    /// The same adjustment was made before; nothing was changed.
    Before,
    /// The reference was used for another amount; nothing was changed.
    ReferenceUsed,
    /// The purse does not hold what a debit takes; nothing was changed.
    TooLittle {
        owned: Money,
    },
}
