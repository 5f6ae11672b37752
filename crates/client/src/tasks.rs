//! The task history, and one task by its identifier.

use futures_util::Stream;
use inferstore_api::types::{self, TaskId, TaskRecord};

use crate::call::Call;
use crate::client::Client;
use crate::deadline::Deadline;
use crate::error::Result;
use crate::page::{self, Page};
use crate::segment::identifier;

/// The most records that the service returns at once.
pub(crate) const MAX_RECORDS: u32 = 100;

/// The tasks of the account.
#[derive(Clone, Debug)]
pub struct Tasks {
    pub(crate) client: Client,
}

/// One task, by its identifier. Making the handle sends nothing, so a task can be stored by its
/// identifier and picked up by another process.
#[derive(Clone, Debug)]
pub struct Task {
    pub(crate) client: Client,
    id: String,
}

impl Client {
    /// The tasks of the account.
    pub fn tasks(&self) -> Tasks {
        Tasks { client: self.clone() }
    }

    /// The task with this identifier.
    pub fn task(&self, id: impl ToString) -> Task {
        Task { client: self.clone(), id: id.to_string() }
    }
}

impl Tasks {
    /// The whole history, oldest first, as a stream that reads page after page.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// use futures_util::TryStreamExt;
    ///
    /// let mut tasks = std::pin::pin!(client.tasks().list());
    /// while let Some(task) = tasks.try_next().await? {
    ///     println!("{}: {:?} for {:?}", task.task_id, task.status, task.cost);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The stream ends with its first error.
    pub fn list(&self) -> impl Stream<Item = Result<TaskRecord>> + Send + use<> {
        let tasks = self.clone();
        page::records(0, move |position| {
            let tasks = tasks.clone();
            async move { tasks.page(MAX_RECORDS, position.offset).await }
        })
    }

    /// One page of the history, oldest first: `limit` records (at most 100) after `offset`.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub async fn page(&self, limit: u32, offset: u64) -> Result<Page<TaskRecord>> {
        self.page_until(limit, offset, Deadline::never()).await
    }

    pub(crate) async fn page_until(
        &self,
        limit: u32,
        offset: u64,
        deadline: Deadline,
    ) -> Result<Page<TaskRecord>> {
        let client = &*self.client.inner;
        let call = Call::repeatable("listTasks").until(deadline).setting_the_clock();
        let page = call.send(client, || client.api.list_tasks(Some(limit), Some(offset))).await?;
        Ok(Page::new(page.records, page.total))
    }
}

impl Task {
    /// The identifier, as it was given.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn checked_id(&self) -> Result<TaskId> {
        identifier("identifier of a task", &self.id)
    }

    /// The task as it is now.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub async fn get(&self) -> Result<types::TaskDetail> {
        self.get_until(Deadline::never()).await
    }

    pub(crate) async fn get_until(&self, deadline: Deadline) -> Result<types::TaskDetail> {
        let (client, id) = (&*self.client.inner, &self.checked_id()?);
        let call = Call::repeatable("getTask").about(id).until(deadline);
        call.send(client, || client.api.get_task(id)).await
    }

    /// Cancels the task if it is still in the queue; it is not billed then. A task that a node is
    /// running cannot be interrupted.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`](crate::Error::Refused) when it is no longer in the queue.
    /// [`Error::Unreachable`](crate::Error::Unreachable) when the answer was lost; read the task to
    /// see whether it was canceled.
    pub async fn cancel(&self) -> Result<()> {
        self.cancel_until(Deadline::never()).await
    }

    pub(crate) async fn cancel_until(&self, deadline: Deadline) -> Result<()> {
        let (client, id) = (&*self.client.inner, &self.checked_id()?);
        let call = Call::once("cancelTask").about(id).until(deadline);
        call.send(client, || client.api.cancel_task(id)).await.map(drop)
    }
}
