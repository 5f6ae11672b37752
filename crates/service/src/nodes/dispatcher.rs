//! Dispatcher: one loop per process that claims queued tasks for all slots of nodes that wait for one. Waiting
//! slots cause no queries: a claim is made for a new slot, for a task that was queued, and, as a backstop,
//! at an interval for expired leases and for tasks that another process has queued.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::local_node::{Claiming, ClaimedTask};
use super::{NODE, RETRY_INTERVAL};
use crate::Error;
use crate::lifecycle::app::App;
use crate::queue::{Claim, Lease, LeaseRules, Slot};

/// How many slots share one transaction.
const MAX_BATCH: usize = 64;
/// The longest time between two looks at the queue while slots wait.
const MAX_BACKSTOP: Duration = Duration::from_secs(5);

/// Slots that wait for a task.
#[derive(Default)]
pub(crate) struct Dispatcher {
    waiting: Mutex<Waiting>,
    wakeup: Notify,
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
}

/// A slot for which a claim is worth it now.
struct Candidate {
    waiter: Waiter,
    /// What it may claim.
    slot: Slot,
    /// Stands for every slot with the same models.
    is_sample: bool,
}

/// A slot that waits.
struct Waiter {
    /// `None` for a slot of the local node.
    slot: Option<Slot>,
    /// No claim was made for it yet.
    is_new: bool,
    reply: oneshot::Sender<DispatchedTask>,
}

/// A task for a slot.
pub(crate) enum DispatchedTask {
    Local(ClaimedTask),
    Remote(Lease),
}

impl DispatchedTask {
    fn into_lease(self) -> Lease {
        match self {
            Self::Local(task) => task.lease,
            Self::Remote(lease) => lease,
        }
    }
}

/// A slot in the queue of the dispatcher. Dropped with a task in it, it gives the task back.
struct Ticket<'a> {
    dispatcher: &'a Dispatcher,
    node: String,
    reply: oneshot::Receiver<DispatchedTask>,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.reply.close();
        let Ok(task) = self.reply.try_recv() else { return };
        let node = std::mem::take(&mut self.node);
        self.dispatcher.waiting().unwanted.push((node, task.into_lease()));
        self.dispatcher.wakeup.notify_one();
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
    pub(super) async fn local_task(&self) -> Option<ClaimedTask> {
        match self.task(None, NODE).await? {
            DispatchedTask::Local(task) => Some(task),
            DispatchedTask::Remote(_) => None,
        }
    }

    /// Waits for a task for a slot of a node outside the process; `None` when the node is not known any more.
    pub(super) async fn remote_task(&self, slot: Slot) -> Option<Lease> {
        let node = slot.node.clone();
        match self.task(Some(slot), &node).await? {
            DispatchedTask::Remote(lease) => Some(lease),
            DispatchedTask::Local(_) => None,
        }
    }

    async fn task(&self, slot: Option<Slot>, node: &str) -> Option<DispatchedTask> {
        let (sender, receiver) = oneshot::channel();
        let mut ticket = Ticket { dispatcher: self, node: node.to_owned(), reply: receiver };
        self.waiting().slots.push_back(Waiter { slot, is_new: true, reply: sender });
        self.wakeup.notify_one();
        (&mut ticket.reply).await.ok()
    }

    /// Takes the slots out for which a claim is worth it now.
    fn select(&self, local: Option<&Slot>, max: usize) -> Vec<Candidate> {
        let mut waiting = self.waiting();
        let Waiting { slots, queued, look_for_all, .. } = &mut *waiting;
        let mut selected = Vec::new();
        let mut left = VecDeque::new();
        // Slots with the same models find the same tasks: one of each looks for all.
        let mut sampled: BTreeSet<Arc<[String]>> = BTreeSet::new();
        let mut is_full = false;
        for waiter in slots.drain(..).filter(|waiter| !waiter.reply.is_closed()) {
            let Some(slot) = waiter.slot.as_ref().or(local) else {
                left.push_back(waiter);
                continue;
            };
            let for_queued = slot.models.iter().find(|model| queued.get(*model).is_some_and(|count| *count > 0));
            let is_sample = *look_for_all && !sampled.contains(&slot.models);
            let is_wanted = waiter.is_new || for_queued.is_some() || is_sample;
            is_full |= is_wanted && selected.len() >= max;
            if !is_wanted || is_full {
                left.push_back(waiter);
                continue;
            }
            if let Some(count) = for_queued.cloned().and_then(|model| queued.get_mut(&model)) {
                *count -= 1;
            }
            if is_sample {
                sampled.insert(Arc::clone(&slot.models));
            }
            let slot = slot.clone();
            selected.push(Candidate { waiter, slot, is_sample });
        }
        *slots = left;
        if !is_full {
            queued.clear();
            *look_for_all = false;
        }
        selected
    }

    /// The nodes outside the process that wait for a task.
    fn remote_nodes(&self) -> Vec<String> {
        let waiting = self.waiting();
        let nodes: BTreeSet<&String> =
            waiting.slots.iter().filter_map(|waiter| Some(&waiter.slot.as_ref()?.node)).collect();
        nodes.into_iter().cloned().collect()
    }
}

/// Dispatches tasks until the service stops.
pub(super) async fn run(app: Arc<App>, stop: CancellationToken) {
    let backstop = (app.config.lease / 3).min(MAX_BACKSTOP);
    let mut timer = tokio::time::interval(backstop);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut touched = app.clock.now();
    loop {
        match dispatch(&app).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(cause) => {
                tracing::error!(%cause, "tasks could not be claimed");
                app.dispatcher.look_for_all();
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = app.dispatcher.wakeup.notified() => {}
            _ = timer.tick() => {
                app.dispatcher.waiting().look_for_all = true;
                let now = app.clock.now();
                // A node that waits is alive.
                if touched <= now.before(app.config.lease / 3) {
                    touched = now;
                    let nodes = app.dispatcher.remote_nodes();
                    if !nodes.is_empty() && let Err(cause) = app.database.touch_nodes(&nodes, now).await {
                        tracing::warn!(%cause, "waiting nodes could not be recorded as alive");
                    }
                }
            }
        }
    }
}

/// Claims tasks for the slots that may find one; returns whether there may be more.
async fn dispatch(app: &App) -> Result<bool, Error> {
    let dispatcher = &app.dispatcher;
    let unwanted = std::mem::take(&mut dispatcher.waiting().unwanted);
    for (node, lease) in &unwanted {
        app.database.release(node, &lease.task, lease.attempt, app.clock.now()).await?;
        dispatcher.look_for_all();
    }
    let claiming = app.node.claiming().await;
    // A hook decides after each claim what the next one may be.
    let max = if app.node.has_hook() { 1 } else { MAX_BATCH };
    let selected = dispatcher.select(claiming.slot.as_ref(), max);
    if selected.is_empty() {
        return Ok(false);
    }
    let slots: Vec<Slot> = selected.iter().map(|candidate| candidate.slot.clone()).collect();
    let rules = LeaseRules {
        length: app.config.lease,
        attempts: app.config.lease_attempts,
        max_running: app.config.limits.account_running,
    };
    let claims = match app.database.claim(&slots, rules, app.clock.now()).await {
        Ok(claims) => claims,
        Err(cause) => {
            dispatcher.waiting().slots.extend(selected.into_iter().map(|candidate| candidate.waiter));
            return Err(cause);
        }
    };
    let mut is_registered = true;
    for (candidate, claim) in selected.into_iter().zip(claims) {
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
        let Candidate { waiter, slot, is_sample } = candidate;
        let is_local = waiter.slot.is_none();
        match claim {
            Claim::Leased(lease) => {
                // Where a sample finds one task, the next one may find another.
                self.waiting().look_for_all |= is_sample;
                let task = if is_local { claiming.claimed(lease) } else { DispatchedTask::Remote(lease) };
                if let Err(unwanted) = waiter.reply.send(task) {
                    self.waiting().unwanted.push((slot.node, unwanted.into_lease()));
                }
            }
            Claim::NoTask => self.waiting().slots.push_back(Waiter { is_new: false, ..waiter }),
            Claim::UnknownNode if is_local => {
                self.waiting().slots.push_back(waiter);
                return false;
            }
            // Dropping the reply ends the wait.
            Claim::UnknownNode => {}
        }
        true
    }
}
