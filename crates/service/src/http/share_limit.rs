//! Limits of one caller, so that none starves the others: concurrent work of a key, requests of an account per second.

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::accounts::AccountId;

#[derive(Clone)]
pub(crate) struct ShareLimit<K: Eq + Hash> {
    max: usize,
    own: usize,
    used: Arc<Mutex<HashMap<K, usize>>>,
}

pub(crate) struct Permit<K: Eq + Hash> {
    limit: ShareLimit<K>,
    key: K,
}

impl<K: Clone + Eq + Hash> ShareLimit<K> {
    pub(crate) fn quarter(max: usize) -> Self {
        Self::new(max, max.div_ceil(4))
    }

    pub(crate) fn new(max: usize, own: usize) -> Self {
        Self { max, own, used: Arc::default() }
    }

    pub(crate) fn try_acquire(&self, key: K) -> Option<Permit<K>> {
        let mut used = self.used.lock();
        let own = used.get(&key).copied().unwrap_or(0);
        let is_full = used.values().sum::<usize>() >= self.max;
        if is_full || own >= self.own {
            return None;
        }
        used.insert(key.clone(), own + 1);
        Some(Permit { limit: self.clone(), key })
    }
}

impl<K: Eq + Hash> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut used = self.limit.used.lock();
        match used.get_mut(&self.key) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(used.remove(&self.key)),
        }
    }
}

pub(crate) struct RateLimit {
    interval: Duration,
    /// Time of each account's next request at an even rate. One entry for each account.
    next: Mutex<HashMap<AccountId, Instant>>,
}

impl RateLimit {
    pub(crate) fn new(per_second: NonZeroU32) -> Self {
        Self { interval: Duration::from_secs(1) / per_second.get(), next: Mutex::default() }
    }

    pub(crate) fn check(&self, account: AccountId) -> Result<(), Duration> {
        let now = Instant::now();
        let mut next = self.next.lock();
        let due = next.get(&account).map_or(now, |due| (*due).max(now)) + self.interval;
        let ahead = due - now;
        if ahead > Duration::from_secs(1) {
            return Err(ahead - Duration::from_secs(1));
        }
        next.insert(account, due);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_account_gets_a_part_of_the_permits_and_leaves_the_rest_to_others() {
        let limit = ShareLimit::quarter(8);
        let permits: Vec<_> = (0..9).map_while(|_| limit.try_acquire(AccountId(1))).collect();
        assert_eq!(permits.len(), 2);
        let others: Vec<_> = (2..9).map_while(|account| limit.try_acquire(AccountId(account))).collect();
        assert_eq!(others.len(), 6, "eight in all");
        drop(permits);
        assert!(limit.try_acquire(AccountId(9)).is_some());
        drop(others);
        assert!(limit.used.lock().is_empty());
        assert!(ShareLimit::quarter(1).try_acquire(AccountId(1)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_has_a_burst_of_one_second_and_then_its_rate() {
        let limit = RateLimit::new(NonZeroU32::MIN.saturating_add(3));
        let burst = (0..9).take_while(|_| limit.check(AccountId(1)).is_ok()).count();
        assert_eq!(burst, 4);
        assert_eq!(limit.check(AccountId(1)), Err(Duration::from_millis(250)));
        assert_eq!(limit.check(AccountId(2)), Ok(()));
        tokio::time::advance(Duration::from_millis(250)).await;
        assert_eq!(limit.check(AccountId(1)), Ok(()));
        assert!(limit.check(AccountId(1)).is_err());
    }
}
