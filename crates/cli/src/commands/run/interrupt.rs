//! Ctrl-C during a run: it detaches, or cancels when that was asked for.

use std::time::Duration;

use inferstore::types::TaskId;
use inferstore::{Client, RunEvent, UploadEvent};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::exit;
use crate::failure::{Failure, Result};
use crate::settings::Session;

/// How long a second Ctrl-C is waited for.
const SECOND_THOUGHTS: Duration = Duration::from_secs(2);

/// Where a run is when someone interrupts it.
pub(super) struct Interrupts {
    cancels_at_once: bool,
    signals: UnboundedReceiver<()>,
    /// Files that are on their way, and not whole yet.
    uploads: usize,
    has_begun: bool,
    task: Option<TaskId>,
    /// Interrupted when the create may have been sent, so its answer is waited for.
    is_pending: bool,
}

impl Interrupts {
    pub(super) fn new(cancels_at_once: bool) -> Self {
        let (sender, signals) = unbounded_channel();
        // On its own, so that no Ctrl-C is lost while something else is awaited.
        tokio::spawn(
            async move { while tokio::signal::ctrl_c().await.is_ok() && sender.send(()).is_ok() {} },
        );
        Self { cancels_at_once, signals, uploads: 0, has_begun: false, task: None, is_pending: false }
    }

    /// Ends at the next Ctrl-C.
    pub(super) async fn next(&mut self) {
        if self.signals.recv().await.is_none() {
            // Signals are not received, so nothing can interrupt.
            std::future::pending::<()>().await;
        }
    }

    /// Keeps up with the run.
    pub(super) fn see(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Upload { event: UploadEvent::Started { .. }, .. } => {
                self.uploads += 1;
                self.has_begun = true;
            }
            RunEvent::Upload { event: UploadEvent::Progress { sent, size, .. }, .. } if sent == size => {
                self.uploads = self.uploads.saturating_sub(1);
            }
            RunEvent::Created(task) => self.task = Some(task.clone()),
            _ => {}
        }
    }

    /// Whether something was sent that is not a question.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether the task that an interrupt waited for is there.
    pub(super) fn is_detaching(&self) -> bool {
        self.is_pending && self.task.is_some()
    }

    /// A Ctrl-C. Returns only if the run has to go on until the task is known.
    pub(super) async fn handle(&mut self, client: &Client, session: &Session) -> Result {
        if self.task.is_some() {
            return self.detach(client, session).await;
        }
        if self.uploads > 0 || self.is_pending {
            let message = match self.is_pending {
                true => "interrupted; whether a task was created is unknown",
                false => "interrupted; no task was created",
            };
            return Err(
                Failure::new(exit::FAILED, message).with_hint("`inferstore task list` shows the tasks")
            );
        }
        session
            .output
            .note("interrupted; detaching as soon as the task is known (Ctrl-C again stops at once)");
        self.is_pending = true;
        Ok(())
    }

    /// Leaves the task alone, unless it is to be canceled.
    pub(super) async fn detach(&mut self, client: &Client, session: &Session) -> Result {
        let Some(task) = self.task.clone() else { return Ok(()) };
        session.output.data(task.as_str())?;
        if !self.cancels_at_once {
            session.output.note(format!("detached; the task {task} goes on, and is billed if it succeeds"));
            session.output.note("Ctrl-C again cancels it if it is still in the queue");
            if tokio::time::timeout(SECOND_THOUGHTS, self.next()).await.is_err() {
                let hint = format!("pick it up with: inferstore task wait {task} -o outputs/");
                return Err(Failure::new(exit::DETACHED, "interrupted; the task goes on").with_hint(hint));
            }
        }
        client.task(&task).cancel().await.map_err(|error| {
            let mut failure = Failure::from(error);
            failure.hint = Some(format!(
                "the task may be running; pick it up with: inferstore task wait {task} -o outputs/"
            ));
            failure
        })?;
        Err(Failure::new(exit::TASK_CANCELED, format!("the task {task} was canceled and is not billed"))
            .with_hint("run it again if that was not intended"))
    }
}
