//! Adjustments: the operator credits or debits an account. Adjustments are idempotent by their reference.

use super::{Credit, Money, Purse};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Adjustment {
    pub(crate) purse: Purse,
    /// Negative for a debit.
    pub(crate) amount: Money,
    /// Idempotency reference, unique within the account.
    pub(crate) reference: Option<String>,
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
    pub(crate) fn again(&self, earlier: (Purse, Money)) -> Adjusted {
        if earlier == (self.purse, self.amount) { Adjusted::Before } else { Adjusted::ReferenceUsed }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adjusted {
    Done,
    Before,
    /// An earlier adjustment with this reference has another purse or amount; this one changed nothing.
    ReferenceUsed,
    TooLittle {
        owned: Money,
    },
}
