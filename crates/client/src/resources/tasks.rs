//! The task history, and one task by its identifier.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use inferstore_api::types::{ModelId, TaskDetail, TaskId, TaskRecord};
use inferstore_api::{limits, operations};

use crate::resources::{Listing, Page, identifier};
use crate::transport::{Core, Deadline, Result};

/// The largest page of the task history.
pub(crate) const MAX_RECORDS: u32 = limits::MAX_LIST_TASKS_LIMIT;

/// The tasks of the account.
#[derive(Clone, Debug)]
pub struct Tasks {
    pub(crate) core: Arc<Core>,
}

/// One task, by its identifier. Making the handle sends nothing, so a task can be stored by its
/// identifier and picked up by another process.
#[derive(Clone, Debug)]
pub struct Task {
    pub(crate) core: Arc<Core>,
    pub(crate) id: TaskId,
    /// Known when this client created the task, or the caller named it.
    pub(crate) model: Option<ModelId>,
}

impl Tasks {
    /// The whole history, oldest first, as a stream that reads page after page.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// let mut tasks = client.tasks().list();
    /// while let Some(task) = tasks.next().await {
    ///     let task = task?;
    ///     println!("{} costs {}", task.task_id, task.cost.unwrap_or_default());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The stream ends with its first error.
    pub fn list(&self) -> Listing<TaskRecord> {
        let tasks = self.clone();
        Listing::new(0, move |offset| tasks.page(MAX_RECORDS, offset))
    }

    /// One page of the history, oldest first: at most `limit` records (at most 100) from `offset` on.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub fn page(&self, limit: u32, offset: u64) -> BoxFuture<'static, Result<Page<TaskRecord>>> {
        let tasks = self.clone();
        async move { tasks.page_until(limit, offset, Deadline::never()).await }.boxed()
    }

    pub(crate) async fn page_until(
        &self,
        limit: u32,
        offset: u64,
        deadline: Deadline,
    ) -> Result<Page<TaskRecord>> {
        let call = self.core.call(operations::LIST_TASKS).until(deadline);
        let page = call.send(|api| api.list_tasks(Some(limit), Some(offset))).await?;
        Ok(Page::new(page.records, page.total))
    }

    /// Marks tasks as known to this program, such as those that a journal lists after a restart. They are
    /// never adopted for another create: see [`Client::adopt_or_start`](crate::Client::adopt_or_start). The
    /// latest 100,000 are remembered, together with the tasks that this client created.
    pub fn claim<Ids: IntoIterator<Item: Into<TaskId>>>(&self, tasks: Ids) {
        for task in tasks {
            self.core.memory.own_tasks.claim(&task.into());
        }
    }
}

impl Task {
    pub(crate) fn new(core: &Arc<Core>, id: impl Into<TaskId>) -> Self {
        Self { core: Arc::clone(core), id: id.into(), model: None }
    }

    /// The identifier, as it was given.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    pub(crate) fn check_id(&self) -> Result<()> {
        identifier::<TaskId>("identifier of a task", self.id.as_str()).map(drop)
    }

    /// The task as it is now.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub fn get(&self) -> BoxFuture<'static, Result<TaskDetail>> {
        let task = self.clone();
        async move { task.get_until(Deadline::never()).await }.boxed()
    }

    pub(crate) async fn get_until(&self, deadline: Deadline) -> Result<TaskDetail> {
        self.check_id()?;
        let call = self.core.call(operations::GET_TASK).about(&self.id).until(deadline);
        call.send(|api| api.get_task(&self.id)).await
    }

    /// Cancels the task if it is still in the queue; it is not billed then. A task that a node is
    /// running cannot be interrupted.
    ///
    /// Dropping the future may leave the task canceled or not; read it to see.
    ///
    /// # Errors
    ///
    /// [`Error::Api`](crate::Error::Api) when it is no longer in the queue.
    /// [`Error::Transport`](crate::Error::Transport) when the response was lost; read the task to
    /// see whether it was canceled.
    pub fn cancel(&self) -> BoxFuture<'static, Result<()>> {
        let task = self.clone();
        async move { task.cancel_until(Deadline::never()).await }.boxed()
    }

    pub(crate) async fn cancel_until(&self, deadline: Deadline) -> Result<()> {
        self.check_id()?;
        let call = self.core.call(operations::CANCEL_TASK).about(&self.id).until(deadline);
        call.send(|api| api.cancel_task(&self.id)).await.map(drop)
    }
}
