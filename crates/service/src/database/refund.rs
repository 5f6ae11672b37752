//! Refund of a task: its conditions, and its movements.

use crate::Result;
use crate::accounts::AccountId;
use crate::ledger::{Movement, Purse, Purses, Reason, Split};
use crate::operator::Refund;
use crate::queue::Status;

pub(super) struct Charged {
    pub(super) account: AccountId,
    pub(super) username: String,
    pub(super) publisher: AccountId,
    pub(super) status: Status,
    pub(super) price: Split,
}

impl Charged {
    pub(super) fn is_charged(&self) -> bool {
        let Split { free, balance } = self.price;
        self.status == Status::Success && (free.is_positive() || balance.is_positive())
    }

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
