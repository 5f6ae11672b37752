//! Queues for purses that other transactions hold. One connection of this process waits for the purses of an account,
//! whatever that account asks for: the others are free for everybody else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

use super::connect::LOCK_TIMEOUT;
use super::failure::{Failure, Outcome};
use crate::accounts::AccountId;

/// The queues of a process.
#[derive(Default)]
pub(super) struct PurseQueues(Mutex<BTreeMap<AccountId, Weak<Queue<()>>>>);

impl PurseQueues {
    /// Waits until no other work of this process waits for the purses of the account.
    pub(super) async fn enter(&self, account: AccountId) -> Outcome<OwnedMutexGuard<()>> {
        let queue = self.queue(account);
        let timed_out =
            |_| Failure::NoConnection("other work of the account waits for its purses".to_owned());
        tokio::time::timeout(LOCK_TIMEOUT, queue.lock_owned()).await.map_err(timed_out)
    }

    fn queue(&self, account: AccountId) -> Arc<Queue<()>> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = queues.get(&account).and_then(Weak::upgrade).unwrap_or_default();
        queues.insert(account, Arc::downgrade(&queue));
        queue
    }
}
