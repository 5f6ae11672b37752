//! Dispatcher: one loop per process that claims queued tasks for all slots of nodes that wait for one. Waiting
//! slots cause no queries: a claim is made for a new slot, for a task that was queued, and, as a backstop,
//! at an interval for expired leases and for tasks that another process has queued.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::MissedTickBehavior;

use super::local_node::{ClaimedTask, Claiming};
use super::{RETRY_INTERVAL, SeenSlot};
use crate::Result;
use crate::clock::{Moment, elapsed};
use crate::lifecycle::app::App;
use crate::queue::{Claim, End, Lease, LeaseRules, Slot};

/// How many slots share one transaction.
const MAX_BATCH: usize = 64;
/// The longest time between two looks at the queue while slots wait.
const MAX_BACKSTOP: Duration = Duration::from_secs(5);

/// Slots that wait for a task.
#[derive(Default)]
pub(crate) struct Dispatcher {
    waiting: Mutex<Waiting>,
    wakeup: Notify,
    #[cfg(test)]
    claims: std::sync::atomic::AtomicUsize,
}

#[derive(Default)]
struct Waiting {
    slots: VecDeque<Waiter>,
    /// How many tasks of each model were queued since the last selection.
    queued: BTreeMap<String, usize>,
    /// Whether any slot may find a task.
    look_for_all: bool,
    /// Leases whose slot stopped waiting before it got them.
    unwanted: Vec<(String, Lease)>,
    /// Tasks of the local node that have ended: their ends share a commit with the next claims.
    ended: Vec<Ended>,
}

/// A task that has ended. The reply is whether that counts; without one, nothing was written.
struct Ended {
    end: End,
    reply: oneshot::Sender<bool>,
}

/// A slot for which a claim is worth it now.
struct Candidate {
    waiter: Waiter,
    /// What it may claim.
    slot: Slot,
}

/// A slot that waits.
struct Waiter {
    /// `None` for a slot of the local node.
    slot: Option<Slot>,
    /// A claim has to be made for it, whatever is queued.
    is_due: bool,
    /// It looks for all slots with the same models: they find the same tasks.
    is_sample: bool,
    /// Whether it goes on waiting when there is no task now.
    waits: bool,
    reply: oneshot::Sender<DispatchedTask>,
}

/// What a slot gets.
pub(crate) enum DispatchedTask {
    Local(ClaimedTask),
    Remote(Lease),
    /// The node has left, or its key was revoked.
    UnknownNode,
}

/// A slot in the queue of the dispatcher. Dropped with a task in it, it gives the task back.
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
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports that a task of the model was queued.
    pub(crate) fn task_queued(&self, model: &str) {
        *self.waiting().queued.entry(model.to_owned()).or_default() += 1;
        self.wakeup.notify_one();
    }

    /// Reports that there may be tasks for any slot: a node has left, or the models of the local one changed.
    pub(crate) fn look_for_all(&self) {
        self.waiting().look_for_all = true;
        self.wakeup.notify_one();
    }

    /// Waits for a task for a slot of the local node.
    pub(super) async fn local_task(&self, node: &str) -> Option<ClaimedTask> {
        self.enqueue(None, node, true, None).local_task().await
    }

    /// Ends a task of the local node, and claims another one for its slot in the same commit: returns whether the end
    /// counts, and the task if there is one now. None when nothing was written.
    pub(super) async fn finish(&self, end: End) -> Option<(bool, Option<ClaimedTask>)> {
        let (reply, counts) = oneshot::channel();
        let node = end.node.clone();
        let mut ticket = self.enqueue(None, &node, false, Some(Ended { end, reply }));
        let counts = counts.await.ok()?;
        Some((counts, ticket.local_task().await))
    }

    /// Waits for a task for a slot of a node outside the process, or returns `None` when there is none now.
    pub(super) async fn remote_task(&self, slot: Slot, waits: bool) -> Option<DispatchedTask> {
        let node = slot.node.clone();
        self.enqueue(Some(slot), &node, waits, None).task().await
    }

    fn enqueue(&self, slot: Option<Slot>, node: &str, waits: bool, ended: Option<Ended>) -> Ticket<'_> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting();
        waiting.ended.extend(ended);
        waiting.slots.push_back(Waiter { slot, is_due: true, is_sample: false, waits, reply: sender });
        drop(waiting);
        self.wakeup.notify_one();
        Ticket { dispatcher: self, node: node.to_owned(), reply: receiver }
    }

    /// Takes note of a task whose slot did not wait for it any more; its lease is released.
    fn give_back(&self, node: String, task: DispatchedTask) {
        let lease = match task {
            DispatchedTask::Local(task) => task.lease,
            DispatchedTask::Remote(lease) => lease,
            DispatchedTask::UnknownNode => return,
        };
        self.waiting().unwanted.push((node, lease));
        self.wakeup.notify_one();
    }

    /// Takes the slots out for which a claim is worth it now: those that are due, and one for each queued task. And the
    /// tasks that have ended.
    fn select(&self, local: Option<&Slot>, max_local: usize, max: usize) -> (Vec<Candidate>, Vec<Ended>) {
        let mut waiting = self.waiting();
        let Waiting { slots, queued, look_for_all, ended, .. } = &mut *waiting;
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
                // The local node claims nothing: a slot that does not wait has no task.
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
                // One that is due may find an older task of another model.
                if let Some(count) = count.filter(|_| !waiter.is_due) {
                    *count -= 1;
                }
                selected_local += usize::from(waiter.slot.is_none());
                selected.push(Candidate { waiter, slot });
            }
        }
        *slots = left;
        if !is_full {
            queued.clear();
        }
        (selected, std::mem::take(ended))
    }

    /// How many claims were made.
    #[cfg(test)]
    pub(super) fn claims(&self) -> usize {
        self.claims.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// How many slots wait for which a claim was made.
    #[cfg(test)]
    pub(super) fn idle_slots(&self) -> usize {
        self.waiting().slots.iter().filter(|waiter| !waiter.is_due).count()
    }

    /// The slots of nodes outside the process that wait for a task.
    fn remote_slots(&self) -> Vec<SeenSlot> {
        let waiting = self.waiting();
        let slots = waiting.slots.iter().filter_map(|waiter| waiter.slot.as_ref());
        let slots: BTreeSet<_> = slots.map(|slot| (&slot.node, &slot.models)).collect();
        slots.into_iter().map(|(node, models)| (node.clone(), Arc::clone(models))).collect()
    }
}

/// Dispatches tasks until the service stops.
pub(super) async fn run(app: Arc<App>) {
    let stop = &app.parts.stop;
    let mut backstop = tokio::time::interval((app.config.lease / 3).min(MAX_BACKSTOP));
    backstop.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut touched = app.clock.now();
    let mut expired = ExpiredLeases::new(app.clock.real_time());
    while !stop.is_cancelled() {
        let now = app.clock.now();
        // Later than now when the clock was set back.
        if touched <= now.before(app.config.lease / 3) || touched > now {
            touched = now;
            touch_waiting_slots(&app).await;
        }
        match dispatch(&app, &mut expired).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(cause) => {
                tracing::error!(%cause, "tasks cannot be claimed");
                app.dispatcher.look_for_all();
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = app.dispatcher.wakeup.notified() => {}
            _ = backstop.tick() => app.dispatcher.waiting().look_for_all = true,
        }
    }
}

/// Records that the slots of nodes outside the process that wait are there.
async fn touch_waiting_slots(app: &App) {
    let slots = app.dispatcher.remote_slots();
    if !slots.is_empty()
        && let Err(cause) = app.database.touch_slots(&slots, app.clock.now()).await
    {
        tracing::warn!(%cause, "waiting nodes cannot be recorded as alive");
    }
}

/// Releases the leases of tasks whose slots did not wait for them any more.
pub(crate) async fn release_unwanted(app: &App) -> Result<()> {
    let dispatcher = &app.dispatcher;
    let mut unwanted = std::mem::take(&mut dispatcher.waiting().unwanted);
    while let Some((node, lease)) = unwanted.pop() {
        if let Err(cause) = app.database.release(&node, &lease.task, lease.attempt, app.clock.now()).await {
            unwanted.push((node, lease));
            dispatcher.waiting().unwanted.append(&mut unwanted);
            return Err(cause);
        }
        dispatcher.look_for_all();
    }
    Ok(())
}

/// Which expired leases are claimed. After an outage of the database or a suspension of the machine all leases have
/// expired, also of nodes that run on: these have time for a heartbeat first.
struct ExpiredLeases {
    last_claim: Moment,
    /// When claims stopped, and until when leases that expired since are left alone.
    outage: Option<(Moment, Moment)>,
}

impl ExpiredLeases {
    fn new(now: Moment) -> Self {
        Self { last_claim: now, outage: None }
    }

    /// The moment before which a lease has to have expired.
    fn before(&mut self, now: Moment, lease: Duration) -> Moment {
        if self.last_claim < now.before(lease / 2) {
            self.outage = Some((self.last_claim, now.after(lease / 3)));
        }
        match self.outage {
            // An end that is further away is of a clock that was ahead.
            Some((began, until)) if now < until && until <= now.after(lease / 3) => began,
            _ => now,
        }
    }

    /// Whether it is some time since a claim: shorter than what counts as an outage less the backstop.
    fn is_quiet(&self, now: Moment, lease: Duration) -> bool {
        self.last_claim < now.before(lease / 4)
    }

    fn claimed(&mut self, now: Moment) {
        self.last_claim = now;
    }
}

/// Claims tasks for the slots that may find one; returns whether there may be more.
async fn dispatch(app: &App, expired: &mut ExpiredLeases) -> Result<bool> {
    let dispatcher = &app.dispatcher;
    release_unwanted(app).await?;
    let claiming = app.node.claiming().await;
    let max = MAX_BATCH;
    #[cfg(feature = "controls")]
    let max = if app.node.is_scripted() { 1 } else { max };
    let max_local = app.node.shares.max_batch();
    let (selected, ended) = dispatcher.select(claiming.slot.as_ref(), max_local, max);
    let real_time = app.clock.real_time();
    let expired_before = expired.before(real_time, app.config.lease);
    if selected.is_empty() && ended.is_empty() {
        if expired.is_quiet(real_time, app.config.lease) {
            // Nothing to claim is no outage while the database can be written.
            app.database.check_writer().await?;
            expired.claimed(real_time);
        }
        return Ok(false);
    }
    let slots: Vec<Slot> = selected.iter().map(|candidate| candidate.slot.clone()).collect();
    let rules = LeaseRules {
        length: app.config.lease,
        attempts: app.config.lease_attempts,
        max_running: app.config.limits.account_running,
        // In the time of the tester, like the leases.
        expired_before: Moment(expired_before.0.saturating_add(app.clock.ahead())),
    };
    #[cfg(test)]
    dispatcher.claims.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let (ends, replies): (Vec<_>, Vec<_>) = ended.into_iter().map(|ended| (ended.end, ended.reply)).unzip();
    let now = app.clock.now();
    let claims = match app.database.finish_and_claim(&ends, &slots, rules, now).await {
        Ok((counts, claims)) => {
            expired.claimed(real_time);
            for (reply, counts) in replies.into_iter().zip(counts) {
                // Fails when the run was interrupted.
                let _ = reply.send(counts);
            }
            claims
        }
        Err(cause) => {
            dispatcher.waiting().slots.extend(selected.into_iter().map(|candidate| candidate.waiter));
            return Err(cause);
        }
    };
    let mut is_registered = true;
    for (candidate, claim) in selected.into_iter().zip(claims) {
        if let Claim::Leased(lease) = &claim {
            app.metrics.leased(lease, elapsed(lease.created_at, now));
        }
        is_registered &= dispatcher.deliver(&claiming, candidate, claim);
    }
    drop(claiming);
    if !is_registered {
        app.node.heartbeat(app).await?;
    }
    Ok(true)
}

impl Dispatcher {
    /// Hands a lease to its slot, or lets the slot wait on. False when the local node has to register again.
    fn deliver(&self, claiming: &Claiming<'_>, candidate: Candidate, claim: Claim) -> bool {
        let Candidate { waiter, slot } = candidate;
        let is_local = waiter.slot.is_none();
        match claim {
            Claim::Leased(lease) => {
                // Where a sample finds one task, the next one may find another.
                self.waiting().look_for_all |= waiter.is_sample;
                let task = if is_local { claiming.claimed(lease) } else { DispatchedTask::Remote(lease) };
                if let Err(unwanted) = waiter.reply.send(task) {
                    self.give_back(slot.node, unwanted);
                }
            }
            Claim::NoTask if waiter.waits => {
                self.waiting().slots.push_back(Waiter { is_due: false, is_sample: false, ..waiter });
            }
            // Dropping the reply ends the wait.
            Claim::NoTask => {}
            Claim::UnknownNode if is_local => {
                self.waiting().slots.push_back(Waiter { is_due: true, ..waiter });
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
    fn leases_that_expired_while_nothing_could_be_claimed_are_left_to_their_nodes_for_a_while() {
        let second = Duration::from_secs(1);
        let lease = second * 30;
        let begin = Moment(1_000_000);
        let mut expired = ExpiredLeases::new(begin);
        let soon = begin.after(second * 5);
        assert_eq!(expired.before(soon, lease), soon);
        expired.claimed(soon);
        // A look at the database in time keeps an idle service from taking that for an outage.
        assert!(!expired.is_quiet(soon.after(second * 7), lease));
        assert!(expired.is_quiet(soon.after(second * 8), lease));

        let back = soon.after(second * 40);
        assert_eq!(expired.before(back, lease), soon);
        // That claim failed, too.
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

    /// Slots that wait for a task of these models, and for which a claim found none.
    fn idle<'a>(dispatcher: &'a Dispatcher, models: &[&str]) -> Vec<Ticket<'a>> {
        let enqueue = |model: &&str| dispatcher.enqueue(Some(slot(model)), "node", true, None);
        let tickets = models.iter().map(enqueue).collect();
        for waiter in &mut dispatcher.waiting().slots {
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
        let unwanted = std::mem::take(&mut dispatcher.waiting().unwanted);
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
