//! The tasks of this client: those that it has, and those that it is about to have. None of them may be
//! taken for the lost task of another create.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use inferstore_api::types::{ModelId, TaskId, TaskInput};
use serde_json::Value;

use crate::same::same_json;

/// How many tasks are remembered as ours.
const REMEMBERED: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct OwnTasks(Mutex<Own>);

#[derive(Debug, Default)]
struct Own {
    known: HashSet<String>,
    order: VecDeque<String>,
    /// The creates whose outcome is not known yet.
    open: Vec<Open>,
    next: u64,
}

#[derive(Debug)]
struct Open {
    number: u64,
    model: ModelId,
    input: Value,
    /// Whether a create of the same ended in doubt meanwhile: a task in the history may be its task.
    has_lost_twin: bool,
}

impl Open {
    /// Whether the task of one could be taken for that of the other.
    fn is_twin_of(&self, other: &Self) -> bool {
        other.number != self.number && other.model == self.model && same_json(&other.input, &self.input)
    }
}

impl OwnTasks {
    fn lock(&self) -> MutexGuard<'_, Own> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the task; `false` if it was known.
    pub(super) fn claim(&self, task: &TaskId) -> bool {
        let own = &mut *self.lock();
        if !own.known.insert(task.to_string()) {
            return false;
        }
        own.order.push_back(task.to_string());
        if own.order.len() > REMEMBERED
            && let Some(oldest) = own.order.pop_front()
        {
            own.known.remove(&oldest);
        }
        true
    }

    pub(super) fn contains(&self, task: &TaskId) -> bool {
        self.lock().known.contains(task.as_str())
    }

    /// Notes that a create is about to be sent, until the ticket is dropped.
    pub(super) fn open(&self, model: &ModelId, input: &TaskInput) -> Ticket<'_> {
        let own = &mut *self.lock();
        let (number, input) = (own.next, Value::Object(input.0.clone()));
        own.next += 1;
        own.open.push(Open { number, model: model.clone(), input, has_lost_twin: false });
        Ticket { own: self, number, is_settled: false }
    }
}

/// A create whose outcome is not known yet. Dropped unsettled, it leaves doubt behind.
pub(super) struct Ticket<'a> {
    own: &'a OwnTasks,
    number: u64,
    is_settled: bool,
}

impl Ticket<'_> {
    /// It has its task, or has none for sure.
    pub(super) fn settle(mut self) {
        self.is_settled = true;
    }

    /// Whether a task in the history may as well be that of another create of the same, sent by this client
    /// at the same time.
    pub(super) fn has_twin(&self) -> bool {
        let own = self.own.lock();
        let this = own.open.iter().find(|open| open.number == self.number);
        this.is_some_and(|this| this.has_lost_twin || own.open.iter().any(|other| other.is_twin_of(this)))
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let own = &mut *self.own.lock();
        let Some(at) = own.open.iter().position(|open| open.number == self.number) else { return };
        let open = own.open.swap_remove(at);
        if !self.is_settled {
            let twins = own.open.iter_mut().filter(|other| other.is_twin_of(&open));
            twins.for_each(|twin| twin.has_lost_twin = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn input(angle: i32) -> TaskInput {
        TaskInput(json!({ "angle": angle }).as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn only_a_create_of_the_same_at_the_same_time_leaves_doubt() {
        let own = OwnTasks::default();
        let (model, another) = (ModelId::new("m"), ModelId::new("n"));
        let first = own.open(&model, &input(1));
        let others = [own.open(&model, &input(2)), own.open(&another, &input(1))];
        assert!(!first.has_twin());
        let second = own.open(&model, &input(1));
        assert!(first.has_twin() && second.has_twin());
        second.settle();
        assert!(!first.has_twin(), "the other one has its task, which is known");
        drop(own.open(&model, &input(1)));
        assert!(first.has_twin(), "the other one may have left a task behind");
        assert!(others.iter().all(|other| !other.has_twin()));
        assert!(!own.open(&another, &input(2)).has_twin());
    }
}
