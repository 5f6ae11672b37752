//! AccountLimit for what clients keep waiting: only so many at once, and of one account only a part of them, so that
//! nobody can take all the room by being slow.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::accounts::AccountId;

/// One account may take so great a part of the room: a quarter.
const PART: usize = 4;

/// AccountLimit for so many.
pub(crate) struct AccountLimit {
    most: usize,
    inside: Mutex<HashMap<AccountId, usize>>,
}

/// A place in a room, until it is dropped.
pub(crate) struct Permit<'a> {
    room: &'a AccountLimit,
    account: AccountId,
}

impl AccountLimit {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, inside: Mutex::default() }
    }

    /// A place for one more of this account; None when there is none left for it.
    pub(crate) fn enter(&self, account: AccountId) -> Option<Permit<'_>> {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let own = inside.get(&account).copied().unwrap_or(0);
        let is_full = inside.values().sum::<usize>() >= self.most;
        if is_full || own >= self.most.div_ceil(PART) {
            return None;
        }
        inside.insert(account, own + 1);
        Some(Permit { room: self, account })
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut inside = self.room.inside.lock().unwrap_or_else(PoisonError::into_inner);
        match inside.get_mut(&self.account) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(inside.remove(&self.account)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_account_takes_a_part_of_the_room_and_leaves_the_rest_to_others() {
        let room = AccountLimit::new(8);
        let places: Vec<_> = (0..9).map_while(|_| room.enter(AccountId(1))).collect();
        assert_eq!(places.len(), 2);
        let others: Vec<_> = (2..9).map_while(|account| room.enter(AccountId(account))).collect();
        assert_eq!(others.len(), 6, "eight in all");
        drop(places);
        assert!(room.enter(AccountId(9)).is_some());
        drop(others);
        assert!(room.inside.lock().unwrap_or_else(PoisonError::into_inner).is_empty());
        assert!(AccountLimit::new(1).enter(AccountId(1)).is_some());
    }
}
