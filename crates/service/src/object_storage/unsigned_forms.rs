//! Forms with an unverified signature: their number is limited, and the oldest form is evicted for a new one.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// Maximum wait of a form for a permit. Meanwhile its connection is not closed.
const MAX_WAIT: Duration = Duration::from_secs(2);

const EVICTION_INTERVAL: Duration = Duration::from_millis(50);

/// Minimum age of an evicted form: an honest client sends the fields together with the request head.
const MIN_AGE: Duration = Duration::from_millis(20);

pub(super) struct UnsignedForms {
    free: Semaphore,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    forms: BTreeMap<u64, (Instant, CancellationToken)>,
    next_id: u64,
}

pub(super) struct UnsignedForm<'a> {
    all: &'a UnsignedForms,
    id: u64,
    pub(super) evicted: CancellationToken,
    _permit: SemaphorePermit<'a>,
}

impl Drop for UnsignedForm<'_> {
    fn drop(&mut self) {
        self.all.open.lock().forms.remove(&self.id);
    }
}

impl UnsignedForms {
    pub(super) fn new(max: usize) -> Self {
        Self { free: Semaphore::new(max), open: Mutex::default() }
    }

    /// Counts a form. Above the limit, waits and evicts old forms; None after `MAX_WAIT`.
    pub(super) async fn admit(&self) -> Option<UnsignedForm<'_>> {
        let begun = Instant::now();
        let mut acquire = pin!(self.free.acquire());
        let permit = loop {
            match timeout(EVICTION_INTERVAL, &mut acquire).await {
                Ok(permit) => break permit.ok()?,
                Err(_) if begun.elapsed() >= MAX_WAIT => return None,
                Err(_) => self.evict_oldest(),
            }
        };
        let evicted = CancellationToken::new();
        let mut open = self.open.lock();
        let id = open.next_id;
        open.next_id += 1;
        open.forms.insert(id, (Instant::now(), evicted.clone()));
        drop(open);
        Some(UnsignedForm { all: self, id, evicted, _permit: permit })
    }

    fn evict_oldest(&self) {
        let mut open = self.open.lock();
        if let Some(oldest) = open.forms.first_entry()
            && oldest.get().0.elapsed() >= MIN_AGE
        {
            oldest.remove().1.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_form_makes_way_and_one_that_has_just_begun_does_not() {
        let forms = UnsignedForms::new(2);
        let first = forms.admit().await;
        tokio::time::advance(MIN_AGE).await;
        let second = forms.admit().await;
        let is_evicted = |form: &Option<UnsignedForm>| form.as_ref().map(|form| form.evicted.is_cancelled());
        let mut third = pin!(forms.admit());
        assert!(timeout(EVICTION_INTERVAL + MIN_AGE / 2, &mut third).await.is_err());
        assert_eq!((is_evicted(&first), is_evicted(&second)), (Some(true), Some(false)));
        drop(first);
        let third = third.await;
        assert_eq!(is_evicted(&third), Some(false));
        assert_eq!(forms.open.lock().forms.len(), 2);

        let begun = Instant::now();
        assert!(forms.admit().await.is_none(), "those that were told to end have not ended");
        assert!(begun.elapsed() <= MAX_WAIT + EVICTION_INTERVAL);
        assert_eq!((is_evicted(&second), is_evicted(&third)), (Some(true), Some(true)));
        drop((second, third));
        let fourth = forms.admit().await;
        drop(fourth);
        assert!(forms.open.lock().forms.is_empty(), "what has ended is not held");
    }

    #[tokio::test(start_paused = true)]
    async fn a_form_gets_its_turn_among_many_that_never_end() {
        let forms = std::sync::Arc::new(UnsignedForms::new(64));
        let flood = std::sync::Arc::clone(&forms);
        tokio::spawn(async move {
            loop {
                let forms = std::sync::Arc::clone(&flood);
                tokio::spawn(async move {
                    if let Some(form) = forms.admit().await {
                        form.evicted.cancelled().await;
                    }
                });
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        for _ in 0..20 {
            let begun = Instant::now();
            assert!(forms.admit().await.is_some());
            assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
        }
    }
}
