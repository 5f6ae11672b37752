//! Status of many tasks, read from pages of the task history.

use std::collections::HashMap;
use std::time::Duration;

use inferstore::types::{TaskId, TaskStatus};
use inferstore::{Error, Tasks};

const PAGE: u32 = 100;

#[derive(Default)]
pub(crate) struct Shown {
    /// Position in the history and status of each task found.
    pub(crate) tasks: HashMap<TaskId, (u64, TaskStatus)>,
    /// True if the tasks have to be searched from the end of the history again.
    pub(crate) is_search_due: bool,
    pub(crate) retry_after: Duration,
    total: Option<u64>,
}

/// Reads the pages on which the wanted tasks were last seen, if that takes fewer requests than reading each
/// task. Then searches for the other tasks if `searches` is true.
pub(crate) async fn show(tasks: Tasks, wanted: HashMap<TaskId, Option<u64>>, searches: bool) -> Shown {
    let mut shown = Shown { is_search_due: searches, ..Shown::default() };
    let mut pages: Vec<u64> = wanted.values().flatten().copied().collect();
    let known = pages.len();
    pages.sort_unstable();
    pages.dedup_by(|position, start| *position < *start + u64::from(PAGE));
    if pages.len() < known {
        for start in pages {
            shown.read_page(&tasks, &wanted, start, PAGE).await;
        }
        // Tasks that moved, or whose page is unreadable, are searched in the next round.
        shown.is_search_due |= shown.tasks.len() < known;
    }
    if searches {
        shown.search(&tasks, &wanted).await;
    }
    shown
}

impl Shown {
    /// Searches the history backwards, until all tasks are found or reading each task takes fewer requests.
    async fn search(&mut self, tasks: &Tasks, wanted: &HashMap<TaskId, Option<u64>>) {
        if self.total.is_none() && !self.read_page(tasks, wanted, 0, 1).await {
            return;
        }
        let mut end = self.total.unwrap_or_default();
        for _ in 0..wanted.len() {
            if end == 0 || self.tasks.len() == wanted.len() {
                break;
            }
            end = end.saturating_sub(PAGE.into());
            if !self.read_page(tasks, wanted, end, PAGE).await {
                return;
            }
        }
        self.is_search_due = false;
    }

    /// Records the tasks of a page. Returns true if the page was readable.
    async fn read_page(
        &mut self,
        tasks: &Tasks,
        wanted: &HashMap<TaskId, Option<u64>>,
        start: u64,
        limit: u32,
    ) -> bool {
        let page = match tasks.page(limit, start).await {
            Ok(page) => page,
            Err(error) => {
                self.retry_after = Error::retry_after(&error).unwrap_or_default();
                return false;
            }
        };
        self.total = page.total.or(self.total);
        for (position, record) in (start..).zip(page.records) {
            // A record without a status says nothing about its task.
            if let (true, Some(status)) = (wanted.contains_key(&record.task_id), record.status) {
                self.tasks.insert(record.task_id, (position, status));
            }
        }
        true
    }
}
