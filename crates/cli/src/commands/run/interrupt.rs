//! Ctrl-C and SIGTERM during a run: it detaches, or cancels when that was asked for.

use std::time::Duration;

use inferstore::types::{TaskId, TaskStatus};
use inferstore::{Client, RunEvent};
use serde_json::json;

use crate::commands::signals::Signals;
use crate::exit;
use crate::failure::{Failure, Result, task_record};
use crate::settings::Session;
use crate::table::printable;

const SECOND_INTERRUPT_TIMEOUT: Duration = Duration::from_secs(2);

/// Signals that interrupt a run, and the state of the run that decides what an interruption does.
pub(super) struct Interrupts {
    cancels_at_once: bool,
    signals: Signals,
    /// The last one was Ctrl-C, which can be pressed again.
    is_ctrl_c: bool,
    /// The create may have been sent.
    is_creating: bool,
    task: Option<TaskId>,
    status: Option<TaskStatus>,
    /// Interrupted when the create may have been sent, so its response is waited for.
    is_pending: bool,
}

impl Interrupts {
    pub(super) fn new(cancels_at_once: bool) -> Result<Self> {
        Ok(Self {
            cancels_at_once,
            signals: Signals::new()?,
            is_ctrl_c: false,
            is_creating: false,
            task: None,
            status: None,
            is_pending: false,
        })
    }

    pub(super) async fn next(&mut self) {
        self.is_ctrl_c = self.signals.next_is_ctrl_c().await;
    }

    pub(super) fn see(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Creating => self.is_creating = true,
            RunEvent::Created(task) => self.task = Some(task.clone()),
            RunEvent::Status(status) => self.status = Some(status.clone()),
            _ => {}
        }
    }

    /// Notes that no task was created. Returns whether the run may begin again: no one has interrupted it.
    pub(super) fn refused(&mut self) -> bool {
        self.is_creating = false;
        !self.is_pending
    }

    pub(super) fn task(&self) -> Option<TaskId> {
        self.task.clone()
    }

    /// Returns true when the task that an interrupt waited for is there.
    pub(super) fn is_detaching(&self) -> bool {
        self.is_pending && self.task.is_some()
    }

    /// Handles a signal. Returns only if the run has to go on until the task is known.
    pub(super) async fn handle(&mut self, client: &Client, session: &Session) -> Result {
        if self.task.is_some() {
            return self.detach(client, session).await;
        }
        if self.is_pending {
            let headline = "interrupted; whether a task was created is unknown";
            return Err(Failure::new(exit::OUTCOME_UNKNOWN, headline)
                .with_hint("`inferstore task list` shows the tasks")
                .with_json(Some(json!({ "candidates": [] }).to_string())));
        }
        if !self.is_creating {
            return Err(Failure::new(exit::FAILED, "interrupted; no task was created")
                .with_hint("the same command starts it again"));
        }
        session.note("interrupted; detaching as soon as the task is known (Ctrl-C again stops at once)");
        self.is_pending = true;
        Ok(())
    }

    /// Leaves the task alone, unless it is to be canceled.
    pub(super) async fn detach(&mut self, client: &Client, session: &Session) -> Result {
        let Some(task) = self.task.clone() else { return Ok(()) };
        // JSON has it in the failure.
        if !session.output.is_json() {
            session.output.data(printable(task.as_str()))?;
        }
        let canceled = self.cancel(&task, client, session).await;
        let status = canceled.as_ref().map_or(self.status.as_ref(), |()| Some(&TaskStatus::Canceled));
        let record = Some(task_record(&task, status));
        let failure = canceled.err().unwrap_or_else(|| {
            let headline = format!("the task {task} was canceled and is not billed");
            Failure::new(exit::TASK_CANCELED, headline).with_hint("run it again if that was not intended")
        });
        Err(failure.with_json(record))
    }

    /// Cancels the task, at once or at another signal after Ctrl-C; else fails.
    async fn cancel(&mut self, task: &TaskId, client: &Client, session: &Session) -> Result {
        let hint = format!("pick it up with: inferstore task wait {task} -o outputs/");
        if !self.cancels_at_once {
            session.note(format!("detached; the task {task} goes on, and is billed if it succeeds"));
            if !self.is_interrupted_again(session).await {
                return Err(Failure::new(exit::DETACHED, "interrupted; the task goes on").with_hint(hint));
            }
        }
        let canceled = tokio::select! {
            biased;
            () = self.next() => {
                let headline = "interrupted; whether the task was canceled is unknown";
                return Err(Failure::new(exit::DETACHED, headline).with_hint(hint));
            }
            canceled = client.task(task).cancel() => canceled,
        };
        // What ends the command is the interrupt, whatever the reason that the task goes on.
        canceled.map_err(|error| {
            Failure::from(error)
                .with_code(exit::DETACHED)
                .with_hint(format!("the task may be running; {hint}"))
        })
    }

    async fn is_interrupted_again(&mut self, session: &Session) -> bool {
        // A terminal that closes may send SIGHUP twice, and a supervisor waits for the end.
        if !self.is_ctrl_c {
            return false;
        }
        session.note("Ctrl-C again cancels it if it is still in the queue");
        tokio::time::timeout(SECOND_INTERRUPT_TIMEOUT, self.next()).await.is_ok()
    }
}
