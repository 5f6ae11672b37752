//! Limits of one account: concurrent requests and requests per second, so that one account cannot starve the others
//! (fair scheduling of requests).

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::accounts::AccountId;

/// Inverse of the share of all permits that one account may hold.
const SHARE: usize = 4;

/// Limit of concurrent requests, in all and of one account.
#[derive(Clone)]
pub(crate) struct AccountLimit {
    max: usize,
    used: Arc<Mutex<HashMap<AccountId, usize>>>,
}

/// Permit of one request; dropping the permit returns it.
pub(crate) struct Permit {
    limit: AccountLimit,
    account: AccountId,
}

impl AccountLimit {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, used: Arc::default() }
    }

    fn used(&self) -> MutexGuard<'_, HashMap<AccountId, usize>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a permit for this account; None if the account or the service has reached its limit.
    pub(crate) fn try_acquire(&self, account: AccountId) -> Option<Permit> {
        let mut used = self.used();
        let own = used.get(&account).copied().unwrap_or(0);
        let is_full = used.values().sum::<usize>() >= self.max;
        if is_full || own >= self.max.div_ceil(SHARE) {
            return None;
        }
        used.insert(account, own + 1);
        Some(Permit { limit: self.clone(), account })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut used = self.limit.used();
        match used.get_mut(&self.account) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(used.remove(&self.account)),
        }
    }
}

/// Rate limit: requests of one account per second, with a burst of one second's worth.
pub(crate) struct RateLimit {
    interval: Duration,
    /// Time of each account's next request at an even rate. One entry for each account.
    next: Mutex<HashMap<AccountId, Instant>>,
}

impl RateLimit {
    pub(crate) fn new(per_second: NonZeroU32) -> Self {
        Self { interval: Duration::from_secs(1) / per_second.get(), next: Mutex::default() }
    }

    /// Counts a request, or returns the time until the account's next request is allowed.
    pub(crate) fn check(&self, account: AccountId) -> Result<(), Duration> {
        let now = Instant::now();
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
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
        let limit = AccountLimit::new(8);
        let permits: Vec<_> = (0..9).map_while(|_| limit.try_acquire(AccountId(1))).collect();
        assert_eq!(permits.len(), 2);
        let others: Vec<_> = (2..9).map_while(|account| limit.try_acquire(AccountId(account))).collect();
        assert_eq!(others.len(), 6, "eight in all");
        drop(permits);
        assert!(limit.try_acquire(AccountId(9)).is_some());
        drop(others);
        assert!(limit.used().is_empty());
        assert!(AccountLimit::new(1).try_acquire(AccountId(1)).is_some());
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
