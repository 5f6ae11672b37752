//! The end of a batch by a signal: its tasks go on, or those that are still queued are canceled.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use futures_util::stream;
use inferstore_batch::Item;

use super::Batch;
use crate::commands::run::summary::{FileOutcome, Status, Summary};
use crate::commands::signals::Signals;
use crate::exit;
use crate::failure::Result;

pub(super) struct WaitingItem {
    /// The report of the file after an interrupt.
    so_far: FileOutcome,
    item: Item,
}

impl Batch<'_> {
    pub(super) async fn interrupted(
        &self,
        mut summary: Summary,
        total: usize,
        signals: &mut Signals,
    ) -> Result {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let left = self.leave(waiting, signals).await;
        let mut tasks = "tasks that were created go on".to_owned();
        if self.plan.options.cancel_on_interrupt {
            let canceled = left.iter().filter(|ended| ended.status == Status::Canceled).count();
            tasks = format!("{canceled} queued tasks were canceled");
        }
        left.into_iter().for_each(|left| self.add(left, &mut summary));
        // The interrupt is the failure of the batch.
        let _ = summary.report(total, self.session);
        let hint = "the same command continues, and pays nothing twice".to_owned();
        Err(summary.failure(exit::DETACHED, format!("interrupted; {tasks}"), hint))
    }

    /// Leaves the tasks that were waited for alone, or cancels those that are still queued. Another signal ends that.
    async fn leave(&self, waiting: BTreeMap<usize, WaitingItem>, signals: &mut Signals) -> Vec<FileOutcome> {
        let mut left: Vec<WaitingItem> = waiting.into_values().collect();
        if self.plan.options.cancel_on_interrupt {
            let cancels = stream::iter(&mut left)
                .for_each_concurrent(usize::from(self.plan.options.jobs), |waiting| self.cancel(waiting));
            tokio::select! {
                biased;
                () = signals.next() => {}
                () = cancels => {}
            }
        }
        left.into_iter().map(|waiting| waiting.so_far).collect()
    }

    /// Cancels the task of a file if it is still queued. One that runs goes on.
    async fn cancel(&self, WaitingItem { so_far, item }: &mut WaitingItem) {
        // A task whose create was interrupted is not known.
        let Some(task) = so_far.task.clone().filter(|_| so_far.status == Status::Unfinished) else { return };
        if self.plan.client.task(task).cancel().await.is_ok() {
            so_far.status = Status::Canceled;
            // Without the line, the next start reads that the task is canceled.
            let _ = item.failed("canceled");
            self.delete_inputs(item).await;
        }
    }

    /// Notes what an interrupt reports of a file from now on.
    pub(super) fn note(&self, item: &Item, ended: &FileOutcome) {
        let waiting = WaitingItem { so_far: ended.clone(), item: item.clone() };
        self.waiting.lock().insert(ended.place, waiting);
    }
}
