//! Tasks that this client created, or is creating. A lost create must not adopt one of them as its own.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use inferstore_api::types::{ModelId, TaskId};
use tokio::sync::RwLock;
use tokio::time::Instant;

use super::{Fingerprint, lock};

/// How many tasks are remembered.
const MAX_TASKS: usize = 10_000;

/// How long a create of unknown outcome may still add its task to the history.
pub(crate) const DOUBT: Duration = Duration::from_secs(60);

/// Two creates with this in common cannot be told apart in the task history.
pub(crate) type CreateKey = (ModelId, Fingerprint);

/// Tasks that this client created, or is creating.
#[derive(Debug, Default)]
pub(crate) struct OwnTasks(Mutex<Tasks>);

#[derive(Debug, Default)]
struct Tasks {
    known: HashSet<TaskId>,
    /// The known tasks, oldest first.
    order: VecDeque<TaskId>,
    creates: HashMap<CreateKey, Creates>,
    /// The inputs of tasks that were read in search of a lost one; they never change.
    inputs: HashMap<TaskId, Fingerprint>,
}

/// The unsettled creates of one key.
#[derive(Debug, Default)]
struct Creates {
    open: u32,
    /// Until when a create that ended in doubt may still appear in the history.
    doubtful_until: Option<Instant>,
    gate: Gate,
}

/// Held shared by each create of a key, and alone by a search for a task to adopt: the task of a create
/// that waits for its response is in the history already, and nothing else says whose it is.
pub(crate) type Gate = Arc<RwLock<()>>;

impl Creates {
    fn is_in_use(&self) -> bool {
        self.open > 0 || self.is_doubtful() || Arc::strong_count(&self.gate) > 1
    }

    fn is_doubtful(&self) -> bool {
        self.doubtful_until.is_some_and(|until| Instant::now() < until)
    }
}

impl OwnTasks {
    /// Remembers the task; `false` if it was known.
    pub(crate) fn claim(&self, task: &TaskId) -> bool {
        let tasks = &mut *lock(&self.0);
        if !tasks.known.insert(task.clone()) {
            return false;
        }
        tasks.order.push_back(task.clone());
        if tasks.order.len() > MAX_TASKS
            && let Some(oldest) = tasks.order.pop_front()
        {
            tasks.known.remove(&oldest);
        }
        true
    }

    pub(crate) fn contains(&self, task: &TaskId) -> bool {
        lock(&self.0).known.contains(task)
    }

    /// The inputs of a task, if they were read before.
    pub(crate) fn inputs_of(&self, task: &TaskId) -> Option<Fingerprint> {
        lock(&self.0).inputs.get(task).copied()
    }

    pub(crate) fn remember_inputs(&self, task: &TaskId, inputs: Fingerprint) {
        let tasks = &mut *lock(&self.0);
        if tasks.inputs.len() >= MAX_TASKS {
            tasks.inputs.clear();
        }
        tasks.inputs.insert(task.clone(), inputs);
    }

    /// The gate of this key.
    pub(crate) fn gate(&self, key: &CreateKey) -> Gate {
        let tasks = &mut *lock(&self.0);
        Arc::clone(&tasks.creates.entry(key.clone()).or_default().gate)
    }

    /// How long a create of this key that ended in doubt may still appear in the history.
    pub(crate) fn doubt_left(&self, key: &CreateKey) -> Duration {
        let tasks = lock(&self.0);
        let until = tasks.creates.get(key).and_then(|creates| creates.doubtful_until);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Notes that a create is about to be sent.
    pub(crate) fn start_create(&self, key: CreateKey) -> PendingCreate<'_> {
        let tasks = &mut *lock(&self.0);
        tasks.creates.retain(|_, creates| creates.is_in_use());
        tasks.creates.entry(key.clone()).or_default().open += 1;
        PendingCreate { own_tasks: self, key, is_settled: false }
    }
}

/// A create whose outcome is not known yet. Dropped unsettled, it leaves doubt behind.
pub(crate) struct PendingCreate<'a> {
    own_tasks: &'a OwnTasks,
    key: CreateKey,
    is_settled: bool,
}

impl PendingCreate<'_> {
    /// It has its task, or certainly has none.
    pub(crate) fn settle(mut self) {
        self.is_settled = true;
    }

    /// Whether a task in the history may be that of another create of this client with the same inputs.
    pub(crate) fn is_ambiguous(&self) -> bool {
        let tasks = lock(&self.own_tasks.0);
        tasks.creates.get(&self.key).is_some_and(|creates| creates.open > 1 || creates.is_doubtful())
    }
}

impl Drop for PendingCreate<'_> {
    fn drop(&mut self) {
        let tasks = &mut *lock(&self.own_tasks.0);
        let Some(creates) = tasks.creates.get_mut(&self.key) else { return };
        creates.open = creates.open.saturating_sub(1);
        if !self.is_settled {
            creates.doubtful_until = Instant::now().checked_add(DOUBT);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::memory::fingerprint;

    fn key(model: &str, angle: i32) -> CreateKey {
        let Ok(model) = model.parse();
        (model, fingerprint(&json!({ "angle": angle })))
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_create_of_the_same_inputs_makes_another_ambiguous() {
        let own = OwnTasks::default();
        let first = own.start_create(key("m", 1));
        let others = [own.start_create(key("m", 2)), own.start_create(key("n", 1))];
        assert!(!first.is_ambiguous());
        let second = own.start_create(key("m", 1));
        assert!(first.is_ambiguous() && second.is_ambiguous());
        second.settle();
        assert!(!first.is_ambiguous(), "the other one has its task, which is known");
        drop(own.start_create(key("m", 1)));
        assert!(first.is_ambiguous(), "the other one may have left a task behind");
        assert!(others.iter().all(|other| !other.is_ambiguous()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_create_that_starts_after_one_of_unknown_outcome_is_ambiguous_for_a_while() {
        let own = OwnTasks::default();
        drop(own.start_create(key("m", 1)));
        let later = own.start_create(key("m", 1));
        assert!(later.is_ambiguous());
        tokio::time::advance(DOUBT).await;
        assert!(!later.is_ambiguous());
    }

    #[test]
    fn a_task_is_claimed_once_and_the_memory_is_bounded() {
        let own = OwnTasks::default();
        let id = |number: usize| TaskId::from(number.to_string());
        assert!(own.claim(&id(0)) && !own.claim(&id(0)) && own.contains(&id(0)));
        for number in 1..=MAX_TASKS {
            own.claim(&id(number));
        }
        assert!(!own.contains(&id(0)) && own.contains(&id(MAX_TASKS)));
    }
}
