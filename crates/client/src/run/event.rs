//! What happens while a model runs, and the run as a stream of it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::future::BoxFuture;
use inferstore_api::types::{TaskId, TaskStatus};

use crate::files::upload::UploadEvent;
use crate::run::outcome::Outcome;
use crate::transport::error::Result;

/// What happens while a model runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunEvent {
    /// An input looks wrong, but is sent as it is. The text is one line.
    InputWarning(String),
    /// A file among the inputs is on its way.
    Upload {
        /// The field that named it.
        field: String,
        /// How far it is.
        event: UploadEvent,
    },
    /// The task was created; from here on it can be picked up by its identifier.
    Created(TaskId),
    /// The task has this status now. A word that this version does not know is not the end.
    Status(TaskStatus),
    /// The task could not be read, for this reason. The wait goes on.
    ReadFailed(String),
    /// The run is over.
    Done(Box<Outcome>),
}

/// Who wants to know. Called between the steps of a run, so it should be quick.
pub(crate) type OnEvent<'a> = &'a mut (dyn FnMut(RunEvent) + Send);

/// A run as a stream of events: it ends with [`RunEvent::Done`], or with an error. Dropping it leaves
/// a task that was created alone.
#[must_use = "a run does nothing until it is followed"]
pub struct RunEvents {
    run: Option<BoxFuture<'static, Result<Outcome>>>,
    /// What has happened and was not told yet.
    untold: Arc<Mutex<VecDeque<RunEvent>>>,
    end: Option<Result<RunEvent>>,
}

impl RunEvents {
    /// Follows what `run` makes of the listener that it is handed.
    pub(crate) fn of<Run>(run: impl FnOnce(Box<dyn FnMut(RunEvent) + Send>) -> Run) -> Self
    where
        Run: Future<Output = Result<Outcome>> + Send + 'static,
    {
        let untold = Arc::new(Mutex::new(VecDeque::new()));
        let heard = Arc::clone(&untold);
        let listener = Box::new(move |event| {
            heard.lock().unwrap_or_else(PoisonError::into_inner).push_back(event);
        });
        Self { run: Some(Box::pin(run(listener))), untold, end: None }
    }

    fn next_untold(&self) -> Option<RunEvent> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Stream for RunEvents {
    type Item = Result<RunEvent>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // What has happened is told before the run goes on, so that events come while they are true.
        if let Some(event) = self.next_untold() {
            return Poll::Ready(Some(Ok(event)));
        }
        if let Some(run) = &mut self.run
            && let Poll::Ready(result) = run.as_mut().poll(context)
        {
            self.run = None;
            self.end = Some(result.map(|outcome| RunEvent::Done(Box::new(outcome))));
        }
        match self.next_untold() {
            Some(event) => Poll::Ready(Some(Ok(event))),
            None if self.run.is_some() => Poll::Pending,
            None => Poll::Ready(self.end.take()),
        }
    }
}

impl std::fmt::Debug for RunEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunEvents").field("is_over", &self.run.is_none()).finish_non_exhaustive()
    }
}
