//! Shares of the local node's workers (fair scheduling): while several accounts are active, each leaves one worker to
//! the others, so that a short task does not wait for another account's long ones.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::accounts::AccountId;

const ACTIVE: Duration = Duration::from_mins(1);

const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(super) struct WorkerShares {
    max: usize,
    accounts: Arc<Mutex<HashMap<AccountId, Activity>>>,
    released: Arc<Notify>,
}

struct Activity {
    held: usize,
    last: Instant,
}

pub(super) struct HeldWorker {
    shares: WorkerShares,
    account: AccountId,
}

impl WorkerShares {
    pub(super) fn new(workers: usize) -> Self {
        Self { max: workers.saturating_sub(1).max(1), accounts: Arc::default(), released: Arc::default() }
    }

    fn active(&self) -> MutexGuard<'_, HashMap<AccountId, Activity>> {
        let mut accounts = self.accounts.lock();
        accounts.retain(|_, activity| activity.held > 0 || activity.last.elapsed() < ACTIVE);
        accounts
    }

    pub(super) fn max_batch(&self) -> usize {
        let active = self.active();
        match active.len() {
            0 => usize::MAX,
            1 => self.max,
            _ => {
                let most =
                    active.values().map(|activity| activity.held).filter(|held| *held < self.max).max();
                self.max - most.unwrap_or(0)
            }
        }
    }

    pub(super) fn full(&self) -> Vec<AccountId> {
        let active = self.active();
        if active.len() < 2 {
            return Vec::new();
        }
        let is_full = |activity: &Activity| activity.held >= self.max;
        let mut full: Vec<_> =
            active.iter().filter(|(_, activity)| is_full(activity)).map(|(account, _)| *account).collect();
        full.sort_unstable();
        full
    }

    pub(super) fn hold(&self, account: AccountId) -> HeldWorker {
        self.active().entry(account).or_insert(Activity { held: 0, last: Instant::now() }).held += 1;
        HeldWorker { shares: self.clone(), account }
    }

    pub(super) async fn acquire(&self, account: AccountId) -> HeldWorker {
        loop {
            let mut released = std::pin::pin!(self.released.notified());
            released.as_mut().enable();
            if !self.full().contains(&account) {
                return self.hold(account);
            }
            let _ = tokio::time::timeout(INTERVAL, released).await;
        }
    }
}

impl Drop for HeldWorker {
    fn drop(&mut self) {
        if let Some(activity) = self.shares.active().get_mut(&self.account) {
            activity.held -= 1;
            activity.last = Instant::now();
        }
        self.shares.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANNA: AccountId = AccountId(1);
    const BOB: AccountId = AccountId(2);

    #[tokio::test(start_paused = true)]
    async fn an_account_takes_every_worker_unless_another_one_was_active_lately() {
        let shares = WorkerShares::new(2);
        assert_eq!(shares.max_batch(), usize::MAX);
        drop(shares.hold(BOB));
        assert_eq!(shares.max_batch(), 1, "another account must not take both at once");
        tokio::time::advance(ACTIVE).await;
        let both = [shares.hold(ANNA), shares.hold(ANNA)];
        assert!(shares.full().is_empty());
        drop(shares.hold(BOB));
        assert_eq!(shares.full(), [ANNA]);
        let mut waiting = std::pin::pin!(shares.acquire(ANNA));
        assert!(tokio::time::timeout(ACTIVE / 2, &mut waiting).await.is_err());
        let third = tokio::time::timeout(ACTIVE, &mut waiting).await;
        assert!(third.is_ok() && shares.full().is_empty());
        drop((both, third));
        let _bob = shares.hold(BOB);
        let anna = shares.acquire(ANNA).await;
        assert_eq!(shares.full(), [ANNA, BOB]);
        let mut waiting = std::pin::pin!(shares.acquire(ANNA));
        assert!(tokio::time::timeout(ACTIVE * 2, &mut waiting).await.is_err());
        drop(anna);
        assert!(tokio::time::timeout(INTERVAL / 2, &mut waiting).await.is_ok());
    }
}
