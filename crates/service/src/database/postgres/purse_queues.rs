//! Queues for purses that other transactions have locked. At most one connection of this process waits for the purses
//! of an account, so that the other connections stay free for other accounts (fair scheduling).

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

use super::connect::LOCK_TIMEOUT;
use super::failure::{Failure, PostgresResult};
use crate::accounts::AccountId;

#[derive(Default)]
pub(super) struct PurseQueues(Mutex<BTreeMap<AccountId, Weak<Queue<()>>>>);

impl PurseQueues {
    pub(super) async fn enter(&self, account: AccountId) -> PostgresResult<OwnedMutexGuard<()>> {
        let queue = self.queue(account);
        let timed_out =
            |_| Failure::NoConnection("other work of the account waits for its purses".to_owned());
        tokio::time::timeout(LOCK_TIMEOUT, queue.lock_owned()).await.map_err(timed_out)
    }

    fn queue(&self, account: AccountId) -> Arc<Queue<()>> {
        let mut queues = self.0.lock();
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = queues.get(&account).and_then(Weak::upgrade).unwrap_or_default();
        queues.insert(account, Arc::downgrade(&queue));
        queue
    }
}
