//! The refund of a task: whether it may be, and what moves then.

use crate::Result;
use crate::accounts::AccountId;
use crate::admin::Refund;
use crate::ledger::{Movement, Purse, Purses, Reason, Split};
use crate::queue::Status;

/// What the refund of a task needs to know of it.
pub(super) struct Charged {
    pub(super) account: AccountId,
    pub(super) username: String,
    pub(super) publisher: AccountId,
    pub(super) status: Status,
    pub(super) price: Split,
}

impl Charged {
    /// Whether there is something to be refunded.
    pub(super) fn is_charged(&self) -> bool {
        let Split { free, balance } = self.price;
        self.status == Status::Success && (free.is_positive() || balance.is_positive())
    }

    /// What moves, and what becomes of the refund: nothing moves when the earnings of the publisher do not cover it.
    pub(super) fn refund(self, owned: &Purses, publisher: &Purses) -> Result<(Vec<Movement>, Refund)> {
        let amount = self.price.total()?;
        let earnings = publisher.earnings;
        if earnings < amount {
            return Ok((Vec::new(), Refund::EarningsTooSmall { earnings }));
        }
        owned.check_room_for(amount)?;
        let from = Some((self.publisher, Purse::Earnings));
        let movements = Movement::of_return(from, self.account, self.price, Reason::Refund);
        Ok((movements.to_vec(), Refund::Done { account: self.username, amount }))
    }
}
