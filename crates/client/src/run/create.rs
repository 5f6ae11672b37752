//! Creating a task at most once. There is no key that would make a second create harmless, so a
//! create that may have reached the service is not sent again unless the caller takes the risk. When
//! its answer is lost, the task history tells what happened, or the caller is told that nobody knows.

mod history;
mod own;

use std::time::Duration;

use inferstore_api::types::{ModelId, TaskId, TaskInput};
use tokio::time::{Instant, sleep};
use tracing::debug;

use crate::client::Client;
use crate::transport::call::Call;
use crate::transport::deadline::Deadline;
use crate::transport::error::{CallContext, Error, Result, UnknownOutcome};
use crate::transport::retry::Safety;
use history::Look;
pub(crate) use own::OwnTasks;
use own::Ticket;

/// How often the history is read at first, with pauses between that are like those of a repeat: the service
/// may still be working on the create whose connection broke.
const LOOKS: u32 = 3;

/// A create, with all that is needed to recognize its task.
pub(crate) struct Create<'a> {
    pub(crate) client: &'a Client,
    pub(crate) model: &'a ModelId,
    pub(crate) input: &'a TaskInput,
    /// Sends it again after a refusal that says to try later.
    pub(crate) repeat_refused: bool,
    /// Sends it again when its answer was lost and the history, read after so long, shows no trace.
    pub(crate) repeat_absent: Option<Duration>,
    pub(crate) deadline: Deadline,
}

impl Create<'_> {
    /// Sends the create, again only as the caller allows, and finds out what became of it.
    pub(crate) async fn send(&self) -> Result<TaskId> {
        let mut sent = 0;
        loop {
            sent += 1;
            match self.send_once().await {
                Err(Error::OutcomeUnknown(unknown))
                    if unknown.shows_nothing() && self.may_send_again(sent) =>
                {
                    debug!(sent, "the history shows no trace of a create, so it is sent again");
                }
                result => return result,
            }
        }
    }

    fn may_send_again(&self, sent: u32) -> bool {
        let client = &*self.client.inner;
        let is_allowed = self.repeat_absent.is_some() && !self.deadline.is_over();
        is_allowed && sent < client.settings.retry.max_attempts && client.budget.take()
    }

    async fn send_once(&self) -> Result<TaskId> {
        let client = &*self.client.inner;
        let ticket = client.own_tasks.open(self.model, self.input);
        let result = self.send_known(&ticket).await;
        // What is left of a create in doubt may be a task.
        if !matches!(result, Err(Error::OutcomeUnknown(_))) {
            ticket.settle();
        }
        result
    }

    async fn send_known(&self, ticket: &Ticket<'_>) -> Result<TaskId> {
        let client = &*self.client.inner;
        let sent_at = Instant::now();
        let call = Call::new("createTask", Safety::Create { repeat_refused: self.repeat_refused })
            .until(self.deadline);
        match call.send(client, || client.api.create_task(self.model, self.input)).await {
            Ok(created) => {
                client.own_tasks.claim(&created.data);
                Ok(created.data)
            }
            Err(Error::Transport(context) | Error::Decode(context)) if !context.is_retry_safe => {
                self.look_for_it(*context, sent_at, ticket).await
            }
            // A gateway that gave up says nothing about the service behind it.
            Err(Error::Api(context)) if context.is_ambiguous() => {
                self.look_for_it(*context, sent_at, ticket).await
            }
            Err(error) => Err(error),
        }
    }

    /// Adopts the one task in the history that can be the lost one; anything but exactly one is told, and so
    /// is one that may belong to a create of the same that this client has sent at the same time.
    async fn look_for_it(
        &self,
        context: CallContext,
        sent_at: Instant,
        ticket: &Ticket<'_>,
    ) -> Result<TaskId> {
        let lost_at = Instant::now();
        let mut last = Look::default();
        for look in 1.. {
            match self.deadline.cut(self.look(sent_at)).await {
                Some(Ok(seen)) => last = seen,
                Some(Err(error)) => {
                    debug!(look, error = %error.headline(), "the history could not be read");
                    last.is_whole = false;
                }
                None => last.is_whole = false,
            }
            if let [task] = &last.matches[..]
                && last.is_whole
                && !ticket.has_twin()
                && self.client.inner.own_tasks.claim(task)
            {
                debug!(%task, "a create whose answer was lost was found in the history");
                return Ok(task.clone());
            }
            // A single one that another run has claimed meanwhile is not shown by the next look.
            let is_settled = last.is_whole && last.matches.len() > 1;
            let Some(pause) = self.pause_after(look, lost_at).filter(|_| !is_settled) else { break };
            if self.deadline.cut(sleep(pause)).await.is_none() {
                break;
            }
        }
        Err(Error::OutcomeUnknown(Box::new(UnknownOutcome {
            context,
            candidates: last.matches,
            history_was_read: last.is_whole,
        })))
    }

    /// How long to wait for the next look at the history, if there is to be one.
    fn pause_after(&self, look: u32, lost_at: Instant) -> Option<Duration> {
        match look {
            ..LOOKS => Some(self.client.inner.settings.retry.initial_backoff.saturating_mul(look)),
            LOOKS => self.repeat_absent.map(|grace| grace.saturating_sub(lost_at.elapsed())),
            _ => None,
        }
    }
}
