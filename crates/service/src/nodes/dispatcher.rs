//! Dispatcher: one loop per process that claims queued tasks for all waiting slots. Waiting slots cause no queries: the
//! loop claims for a new slot, a newly queued task and, at an interval, expired leases and other processes' tasks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::MissedTickBehavior;

use super::Nodes;
use super::RETRY_INTERVAL;
use super::local_node::{ClaimedTask, Claiming};
use crate::Result;
use crate::clock::{Moment, elapsed};
use crate::queue::{Claim, End, Lease, LeaseRules, Slot};
use crate::registry::SeenSlot;

const MAX_BATCH: usize = 64;
const MAX_BACKSTOP: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct Dispatcher {
    waiting: Mutex<WaitingSlots>,
    wakeup: Notify,
    #[cfg(test)]
    claims: std::sync::atomic::AtomicUsize,
}

#[derive(Default)]
struct WaitingSlots {
    slots: VecDeque<Waiter>,
    queued: BTreeMap<String, usize>,
    look_for_all: bool,
    /// Leases whose slot stopped waiting before the delivery.
    unwanted: Vec<(String, Lease)>,
    /// Ended tasks of the local node. Their results share a commit with the next claims (group commit).
    ended: Vec<EndedTask>,
}

/// An ended task. The reply is true if the result counts; a dropped reply means that nothing was written.
struct EndedTask {
    end: End,
    reply: oneshot::Sender<bool>,
}

struct Candidate {
    waiter: Waiter,
    slot: Slot,
}

struct Waiter {
    /// None for a slot of the local node.
    slot: Option<Slot>,
    is_due: bool,
    /// True if the slot's claim serves all slots with the same model set, because they find the same tasks.
    is_sample: bool,
    waits: bool,
    reply: oneshot::Sender<DispatchedTask>,
}

pub(crate) enum DispatchedTask {
    Local(ClaimedTask),
    Remote(Lease),
    UnknownNode,
}

/// Place of a slot in the dispatcher. Dropping a ticket returns its undelivered task.
struct Ticket<'a> {
    dispatcher: &'a Dispatcher,
    node: String,
    reply: oneshot::Receiver<DispatchedTask>,
}

impl Ticket<'_> {
    async fn task(&mut self) -> Option<DispatchedTask> {
        (&mut self.reply).await.ok()
    }

    async fn local_task(&mut self) -> Option<ClaimedTask> {
        match self.task().await? {
            DispatchedTask::Local(task) => Some(task),
            DispatchedTask::Remote(_) | DispatchedTask::UnknownNode => None,
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.reply.close();
        let Ok(task) = self.reply.try_recv() else { return };
        self.dispatcher.give_back(std::mem::take(&mut self.node), task);
    }
}

impl Dispatcher {
    pub(crate) fn task_queued(&self, model: &str) {
        *self.waiting.lock().queued.entry(model.to_owned()).or_default() += 1;
        self.wakeup.notify_one();
    }

    pub(crate) fn look_for_all(&self) {
        self.waiting.lock().look_for_all = true;
        self.wakeup.notify_one();
    }

    pub(super) async fn local_task(&self, node: &str) -> Option<ClaimedTask> {
        self.enqueue(None, node, true, None).local_task().await
    }

    /// Ends a task and claims its slot's next in one commit; None if nothing was written, false for a late result.
    pub(super) async fn finish(&self, end: End) -> Option<(bool, Option<ClaimedTask>)> {
        let (reply, counts) = oneshot::channel();
        let node = end.node.clone();
        let mut ticket = self.enqueue(None, &node, false, Some(EndedTask { end, reply }));
        let counts = counts.await.ok()?;
        Some((counts, ticket.local_task().await))
    }

    /// Waits for a task for a slot of an external node. With `waits` false, returns None if there is no task now.
    pub(super) async fn remote_task(&self, slot: Slot, waits: bool) -> Option<DispatchedTask> {
        let node = slot.node.clone();
        self.enqueue(Some(slot), &node, waits, None).task().await
    }

    fn enqueue(&self, slot: Option<Slot>, node: &str, waits: bool, ended: Option<EndedTask>) -> Ticket<'_> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        waiting.ended.extend(ended);
        waiting.slots.push_back(Waiter { slot, is_due: true, is_sample: false, waits, reply: sender });
        drop(waiting);
        self.wakeup.notify_one();
        Ticket { dispatcher: self, node: node.to_owned(), reply: receiver }
    }

    fn give_back(&self, node: String, task: DispatchedTask) {
        let lease = match task {
            DispatchedTask::Local(task) => task.lease,
            DispatchedTask::Remote(lease) => lease,
            DispatchedTask::UnknownNode => return,
        };
        self.waiting.lock().unwanted.push((node, lease));
        self.wakeup.notify_one();
    }

    /// Takes out the slots that are worth a claim now (due, or one for each newly queued task) and the ended tasks.
    fn select(&self, local: Option<&Slot>, max_local: usize, max: usize) -> (Vec<Candidate>, Vec<EndedTask>) {
        let mut waiting = self.waiting.lock();
        let WaitingSlots { slots, queued, look_for_all, ended, .. } = &mut *waiting;
        slots.retain(|waiter| !waiter.reply.is_closed());
        if std::mem::take(look_for_all) {
            let mut sampled: BTreeSet<&[String]> = BTreeSet::new();
            for Waiter { slot, is_due, is_sample, .. } in slots.iter_mut() {
                if slot.as_ref().or(local).is_some_and(|slot| sampled.insert(&slot.models)) {
                    *is_due = true;
                    *is_sample = true;
                }
            }
        }
        let mut selected = Vec::new();
        let mut selected_local = 0;
        let mut left = VecDeque::new();
        let mut is_full = false;
        for waiter in slots.drain(..) {
            let Some(slot) = waiter.slot.as_ref().or(local).cloned() else {
                left.extend(Some(waiter).filter(|waiter| waiter.waits));
                continue;
            };
            let mut counts = queued.iter_mut().filter(|(_, count)| **count > 0);
            let count = counts.find(|(model, _)| slot.models.contains(model)).map(|(_, count)| count);
            if !waiter.is_due && count.is_none() {
                left.push_back(waiter);
            } else if selected.len() >= max || waiter.slot.is_none() && selected_local >= max_local {
                is_full = true;
                left.push_back(waiter);
            } else {
                // A due slot may find an older task of another model, so it does not use up the count.
                if let Some(count) = count.filter(|_| !waiter.is_due) {
                    *count -= 1;
                }
                selected_local += usize::from(waiter.slot.is_none());
                selected.push(Candidate { waiter, slot });
            }
        }
        debug_assert!(selected.len() <= max, "more slots are selected than one claim may have");
        *slots = left;
        if !is_full {
            queued.clear();
        }
        (selected, std::mem::take(ended))
    }

    #[cfg(test)]
    pub(super) fn claims(&self) -> usize {
        self.claims.load(std::sync::atomic::Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn idle_slots(&self) -> usize {
        self.waiting.lock().slots.iter().filter(|waiter| !waiter.is_due).count()
    }

    fn remote_slots(&self) -> Vec<SeenSlot> {
        let waiting = self.waiting.lock();
        let slots = waiting.slots.iter().filter_map(|waiter| waiter.slot.as_ref());
        let slots: BTreeSet<_> = slots.map(|slot| (&slot.node, &slot.models)).collect();
        slots.into_iter().map(|(node, models)| (node.clone(), Arc::clone(models))).collect()
    }
}

pub(super) async fn run(nodes: Arc<Nodes>) {
    let stop = &nodes.background.stop;
    let mut backstop = tokio::time::interval((nodes.lease / 3).min(MAX_BACKSTOP));
    backstop.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut touched = nodes.clock.now();
    let mut expired = ExpiredLeases::new(nodes.clock.real_time());
    while !stop.is_cancelled() {
        let now = nodes.clock.now();
        // `touched` lies in the future if the clock was set back.
        if touched <= now.before(nodes.lease / 3) || touched > now {
            touched = now;
            touch_waiting_slots(&nodes).await;
        }
        match dispatch(&nodes, &mut expired).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(cause) => {
                tracing::error!(%cause, "tasks cannot be claimed");
                nodes.dispatcher.look_for_all();
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = nodes.dispatcher.wakeup.notified() => {}
            _ = backstop.tick() => nodes.dispatcher.waiting.lock().look_for_all = true,
        }
    }
}

async fn touch_waiting_slots(nodes: &Nodes) {
    let slots = nodes.dispatcher.remote_slots();
    if !slots.is_empty()
        && let Err(cause) = nodes.database.touch_slots(&slots, nodes.clock.now()).await
    {
        tracing::warn!(%cause, "waiting nodes cannot be recorded as alive");
    }
}

pub(crate) async fn release_unwanted(nodes: &Nodes) -> Result<()> {
    let dispatcher = &nodes.dispatcher;
    let mut unwanted = std::mem::take(&mut dispatcher.waiting.lock().unwanted);
    while let Some((node, lease)) = unwanted.pop() {
        if let Err(cause) = nodes.database.release(&node, &lease.task, lease.attempt, nodes.clock.now()).await
        {
            unwanted.push((node, lease));
            dispatcher.waiting.lock().unwanted.append(&mut unwanted);
            return Err(cause);
        }
        dispatcher.look_for_all();
    }
    Ok(())
}

/// Claims after lease expiry. After an outage of the database or a suspension of the machine, all leases have expired,
/// even those of nodes that still run. These nodes get time for a heartbeat before their tasks are claimed.
struct ExpiredLeases {
    last_claim: Moment,
    /// Begin of the outage, and the time until which leases that expired since then cannot be claimed.
    outage: Option<(Moment, Moment)>,
}

impl ExpiredLeases {
    fn new(now: Moment) -> Self {
        Self { last_claim: now, outage: None }
    }

    fn before(&mut self, now: Moment, lease: Duration) -> Moment {
        if self.last_claim < now.before(lease / 2) {
            self.outage = Some((self.last_claim, now.after(lease / 3)));
        }
        debug_assert!(
            self.outage.is_none_or(|(began, until)| began < until),
            "an outage ends before it begins"
        );
        match self.outage {
            // A later end means the clock was set back: the outage no longer counts.
            Some((began, until)) if now < until && until <= now.after(lease / 3) => began,
            _ => now,
        }
    }

    /// Returns true if the last claim is old, but even with the backstop interval not old enough for an outage.
    fn is_quiet(&self, now: Moment, lease: Duration) -> bool {
        self.last_claim < now.before(lease / 4)
    }

    fn claimed(&mut self, now: Moment) {
        self.last_claim = now;
    }
}

async fn dispatch(nodes: &Nodes, expired: &mut ExpiredLeases) -> Result<bool> {
    let dispatcher = &nodes.dispatcher;
    release_unwanted(nodes).await?;
    let claiming = nodes.local.claiming().await;
    let max = if nodes.local.is_scripted() { 1 } else { MAX_BATCH };
    let max_local = nodes.local.shares.max_batch();
    let (selected, ended) = dispatcher.select(claiming.slot.as_ref(), max_local, max);
    let real_time = nodes.clock.real_time();
    let expired_before = expired.before(real_time, nodes.lease);
    if selected.is_empty() && ended.is_empty() {
        if expired.is_quiet(real_time, nodes.lease) {
            // The writer check distinguishes an idle service from an outage of the database.
            nodes.database.check_writer().await?;
            expired.claimed(real_time);
        }
        return Ok(false);
    }
    let slots: Vec<Slot> = selected.iter().map(|candidate| candidate.slot.clone()).collect();
    let rules = LeaseRules {
        length: nodes.lease,
        attempts: nodes.lease_attempts,
        max_running: nodes.limits.account_running,
        // Leases have times of the test clock, so the offset is added.
        expired_before: Moment(expired_before.0.saturating_add(nodes.clock.ahead())),
    };
    #[cfg(test)]
    dispatcher.claims.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let (ends, replies): (Vec<_>, Vec<_>) = ended.into_iter().map(|ended| (ended.end, ended.reply)).unzip();
    let now = nodes.clock.now();
    let claims = match nodes.database.finish_and_claim(&ends, &slots, rules, now).await {
        Ok((counts, claims)) => {
            expired.claimed(real_time);
            debug_assert_eq!(counts.len(), ends.len(), "the database returned another number of results");
            assert_claims(&slots, &claims);
            for (reply, counts) in replies.into_iter().zip(counts) {
                let _ = reply.send(counts);
            }
            claims
        }
        Err(cause) => {
            dispatcher.waiting.lock().slots.extend(selected.into_iter().map(|candidate| candidate.waiter));
            return Err(cause);
        }
    };
    let mut is_registered = true;
    for (candidate, claim) in selected.into_iter().zip(claims) {
        if let Claim::Leased(lease) = &claim {
            nodes.metrics.leased(lease, elapsed(lease.created_at, now));
        }
        is_registered &= dispatcher.deliver(&claiming, candidate, claim);
    }
    drop(claiming);
    if !is_registered {
        nodes.heartbeat().await?;
    }
    Ok(true)
}

fn assert_claims(slots: &[Slot], claims: &[Claim]) {
    debug_assert_eq!(claims.len(), slots.len(), "the database returned another number of claims");
    let mut leased = BTreeSet::new();
    for (slot, claim) in slots.iter().zip(claims) {
        let Claim::Leased(lease) = claim else { continue };
        debug_assert!(
            slot.models.contains(&lease.model),
            "a slot claimed a task of a model that is not its own"
        );
        debug_assert!(leased.insert(&lease.task), "one claim leased the task {} twice", lease.task);
    }
}

impl Dispatcher {
    /// Delivers a lease, or returns the slot to the queue. False if the local node has to register again.
    fn deliver(&self, claiming: &Claiming<'_>, candidate: Candidate, claim: Claim) -> bool {
        let Candidate { waiter, slot } = candidate;
        let is_local = waiter.slot.is_none();
        match claim {
            Claim::Leased(lease) => {
                // After a sample has found a task, the other slots may find more.
                self.waiting.lock().look_for_all |= waiter.is_sample;
                let task = if is_local { claiming.claimed(lease) } else { DispatchedTask::Remote(lease) };
                if let Err(unwanted) = waiter.reply.send(task) {
                    self.give_back(slot.node, unwanted);
                }
            }
            Claim::NoTask if waiter.waits => {
                self.waiting.lock().slots.push_back(Waiter { is_due: false, is_sample: false, ..waiter });
            }
            // Dropping the reply ends the wait.
            Claim::NoTask => {}
            Claim::UnknownNode if is_local => {
                self.waiting.lock().slots.push_back(Waiter { is_due: true, ..waiter });
                return false;
            }
            Claim::UnknownNode => {
                let _ = waiter.reply.send(DispatchedTask::UnknownNode);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_that_expired_during_an_outage_are_left_to_their_nodes() {
        let second = Duration::from_secs(1);
        let lease = second * 30;
        let begin = Moment(1_000_000);
        let mut expired = ExpiredLeases::new(begin);
        let soon = begin.after(second * 5);
        assert_eq!(expired.before(soon, lease), soon);
        expired.claimed(soon);
        assert!(!expired.is_quiet(soon.after(second * 7), lease));
        assert!(expired.is_quiet(soon.after(second * 8), lease));

        let back = soon.after(second * 40);
        assert_eq!(expired.before(back, lease), soon);
        let back = back.after(second * 20);
        assert_eq!(expired.before(back, lease), soon);
        expired.claimed(back);
        assert_eq!(expired.before(back.after(second * 9), lease), soon);
        expired.claimed(back.after(second * 9));
        let after = back.after(second * 10);
        assert_eq!(expired.before(after, lease), after);
    }

    #[test]
    fn leases_that_expire_after_the_clock_was_set_back_are_claimed_again() {
        let second = Duration::from_secs(1);
        let lease = second * 30;
        let begin = Moment(1_000_000);
        for seconds in [86_400, 100] {
            let mut expired = ExpiredLeases::new(begin);
            let ahead = begin.after(second * seconds);
            expired.before(ahead, lease);
            expired.claimed(ahead);
            let back = begin.after(second * 60);
            assert_eq!(expired.before(back, lease), back);
        }
    }

    fn slot(model: &str) -> Slot {
        Slot {
            node: "node".to_owned(),
            models: [model.to_owned()].into(),
            max_running: u32::MAX,
            passed_over: Vec::new(),
        }
    }

    fn idle<'a>(dispatcher: &'a Dispatcher, models: &[&str]) -> Vec<Ticket<'a>> {
        let enqueue = |model: &&str| dispatcher.enqueue(Some(slot(model)), "node", true, None);
        let tickets = models.iter().map(enqueue).collect();
        for waiter in &mut dispatcher.waiting.lock().slots {
            waiter.is_due = false;
        }
        tickets
    }

    #[test]
    fn a_task_that_has_reached_a_slot_which_waits_no_longer_is_given_back() {
        let dispatcher = Dispatcher::default();
        let ticket = dispatcher.enqueue(Some(slot("a")), "node", true, None);
        let (mut selected, _) = dispatcher.select(None, MAX_BATCH, MAX_BATCH);
        let lease = Lease {
            task: "task".to_owned(),
            model: "a".to_owned(),
            input: String::new(),
            input_format: String::new(),
            output_format: String::new(),
            attempt: 1,
            releases: 0,
            traceparent: None,
            account: crate::accounts::AccountId(1),
            created_at: Moment(0),
        };
        let candidate = selected.pop().map(|candidate| candidate.waiter.reply);
        assert!(candidate.is_some_and(|reply| reply.send(DispatchedTask::Remote(lease)).is_ok()));
        drop(ticket);
        let unwanted = std::mem::take(&mut dispatcher.waiting.lock().unwanted);
        let unwanted: Vec<_> = unwanted.iter().map(|(node, lease)| (&**node, &*lease.task)).collect();
        assert_eq!(unwanted, [("node", "task")]);
    }

    #[test]
    fn a_look_for_all_is_made_by_one_slot_for_all_with_the_same_models() {
        let dispatcher = Dispatcher::default();
        let _tickets = idle(&dispatcher, &["a", "b", "a", "b", "a"]);
        assert!(dispatcher.select(None, MAX_BATCH, MAX_BATCH).0.is_empty());
        dispatcher.look_for_all();
        let (selected, _) = dispatcher.select(None, MAX_BATCH, MAX_BATCH);
        let models: Vec<_> = selected.iter().map(|candidate| &*candidate.slot.models[0]).collect();
        assert_eq!(models, ["a", "b"]);
    }

    #[test]
    fn as_many_waiting_slots_are_selected_as_tasks_were_queued() {
        let dispatcher = Dispatcher::default();
        let _tickets = idle(&dispatcher, &["a"; 5]);
        dispatcher.task_queued("a");
        dispatcher.task_queued("a");
        dispatcher.task_queued("of another model");
        let (selected, _) = dispatcher.select(None, MAX_BATCH, 1);
        assert_eq!(selected.len(), 1, "a transaction takes no more");
        let (selected, _) = dispatcher.select(None, MAX_BATCH, MAX_BATCH);
        assert_eq!(selected.len(), 1);
        assert_eq!(dispatcher.idle_slots(), 3);
        let _late = idle(&dispatcher, &["of another model"]);
        let (selected, _) = dispatcher.select(None, MAX_BATCH, MAX_BATCH);
        assert!(selected.is_empty(), "a queued task is looked for once");
    }
}
