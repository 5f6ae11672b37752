//! What a task goes through, and how far it has come.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

/// How long a task stays in a status.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stay {
    /// So many reads of the task show the status; the next one shows what follows. The history shows
    /// it too, but does not count.
    Reads(u32),
    /// So long, by tokio's clock, from the moment in which the task came into the status.
    For(Duration),
}

/// The statuses of a task in their order, and its end. A new plan ends at once, with a result made up
/// from the outputs that the model declares.
#[derive(Clone)]
pub(crate) struct TaskPlan {
    steps: Vec<(String, Stay)>,
    pub(super) end: End,
    /// The price of the model, unless told.
    pub(super) cost: Option<Value>,
}

#[derive(Clone)]
pub(super) enum End {
    Success(Option<Value>),
    Failed { message: String, error: Value },
    Canceled,
}

impl TaskPlan {
    pub(crate) fn new() -> Self {
        Self { steps: Vec::new(), end: End::Success(None), cost: None }
    }

    pub(crate) fn queued(self, stay: Stay) -> Self {
        self.status("in_queue", stay)
    }

    pub(crate) fn computing(self, stay: Stay) -> Self {
        self.status("computing", stay)
    }

    /// Any word, also one that no client knows.
    pub(crate) fn status(mut self, word: &str, stay: Stay) -> Self {
        self.steps.push((word.to_owned(), stay));
        self
    }

    pub(crate) fn succeeds_with(self, result: Value) -> Self {
        Self { end: End::Success(Some(result)), ..self }
    }

    pub(crate) fn fails_with(self, message: &str, error: Value) -> Self {
        Self { end: End::Failed { message: message.to_owned(), error }, ..self }
    }

    pub(crate) fn ends_canceled(self) -> Self {
        Self { end: End::Canceled, ..self }
    }

    pub(crate) fn costs(self, cost: Value) -> Self {
        Self { cost: Some(cost), ..self }
    }
}

/// Ends with a success that the second read shows.
impl Default for TaskPlan {
    fn default() -> Self {
        Self::new().queued(Stay::Reads(1))
    }
}

/// How far a task has come in its plan.
pub(super) struct Progress {
    step: usize,
    /// Reads that showed this step.
    reads: u32,
    since: Instant,
}

/// What makes a task go on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Push {
    Read,
    Time,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { step: 0, reads: 0, since: Instant::now() }
    }

    /// The word of the step; none at the end of the plan.
    pub(super) fn word<'a>(&self, plan: &'a TaskPlan) -> Option<&'a str> {
        plan.steps.get(self.step).map(|(word, _)| word.as_str())
    }

    /// Goes on as far as the plan allows. A task in the queue waits for its model to be served.
    /// Returns whether the step changed.
    pub(super) fn go_on(&mut self, plan: &TaskPlan, push: Push, served: bool) -> bool {
        let before = self.step;
        if push == Push::Read {
            self.reads = self.reads.saturating_add(1);
        }
        while let Some((word, stay)) = plan.steps.get(self.step) {
            if word == "in_queue" && !served {
                (self.reads, self.since) = (0, Instant::now());
                break;
            }
            let next_since = match stay {
                Stay::Reads(reads) if push == Push::Read && self.reads > *reads => Instant::now(),
                Stay::For(duration) if self.since + *duration <= Instant::now() => self.since + *duration,
                _ => break,
            };
            *self = Self { step: self.step + 1, reads: u32::from(push == Push::Read), since: next_since };
        }
        self.step != before
    }
}
