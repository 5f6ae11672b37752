//! The operations of the service by noun: account, models, tasks, storage; and lists, as one page or as a stream over
//! all.
//!
//! Their futures are boxed here: the body of an async function is otherwise compiled by every crate that awaits it.

mod models;
mod storage;
mod tasks;

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use inferstore_api::operations;
use inferstore_api::types::AccountBalance;
use serde::{Deserialize, Serialize};

pub use models::{Model, Models};
pub use storage::{FileQuery, Folder, Storage};
pub(crate) use tasks::MAX_RECORDS;
pub use tasks::{Task, Tasks};

use crate::transport::{Core, Error, Items, Result};

/// The account that owns the API key.
#[derive(Clone, Debug)]
pub struct Account {
    pub(crate) core: Arc<Core>,
}

impl Account {
    /// The balance, free credits, debt and earnings, as exact decimals.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// let balance = client.account().balance().await?;
    /// println!("{}", balance.balance.unwrap_or_default());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Dropping the future is safe: a read has no effect.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub fn balance(&self) -> BoxFuture<'static, Result<AccountBalance>> {
        let core = Arc::clone(&self.core);
        async move { core.call(operations::GET_BALANCE).send(|api| api.get_balance()).await }.boxed()
    }
}

/// The text as an identifier, unless it would change the path that it becomes a segment of.
pub(crate) fn identifier<Id: From<String>>(what: &str, text: &str) -> Result<Id> {
    let shown = crate::transport::redact::cut(text, 80);
    let invalid =
        |problem: &str| Error::InvalidArgument(format!("{shown:?} cannot be the {what}: {problem}"));
    if text.trim().is_empty() {
        return Err(invalid("it is empty"));
    }
    if matches!(text, "." | "..") {
        return Err(invalid("as a segment of a path it would lead to another operation"));
    }
    Ok(Id::from(text.to_owned()))
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Page<T> {
    /// The records on this page; none when nothing matches.
    pub records: Vec<T>,
    /// The number of records on all pages, if the service states it.
    pub total: Option<u64>,
    /// The number of pages, if the service states it.
    pub pages: Option<u64>,
}

impl<T> Page<T> {
    /// A page as the service sends it, where null, absent and empty mean the same.
    pub fn new(records: Option<Vec<T>>, total: Option<i64>) -> Self {
        let total = total.and_then(|total| u64::try_from(total).ok());
        Self { records: records.unwrap_or_default(), total, pages: None }
    }
}

/// A stream over all records of a list. It reads the next page when the records of the last one are
/// used up, and ends with its first error.
pub type Listing<T> = Items<T>;

impl<T: Send + 'static> Listing<T> {
    /// `fetch` reads the page that follows so many records. Ends at an empty page, or at the total that the service
    /// states: a page may be shorter than requested without being the last.
    pub(crate) fn new<Fetched>(first: u64, fetch: impl FnMut(u64) -> Fetched + Send + 'static) -> Self
    where
        Fetched: Future<Output = Result<Page<T>>> + Send + 'static,
    {
        let pages = stream::try_unfold((Some(first), fetch), |(offset, mut fetch)| async move {
            let Some(offset) = offset else { return Ok::<_, Error>(None) };
            let page = fetch(offset).await?;
            let end = offset + page.records.len() as u64;
            let has_more = !page.records.is_empty() && page.total.is_none_or(|total| end < total);
            Ok(Some((stream::iter(page.records).map(Ok), (has_more.then_some(end), fetch))))
        });
        Self(pages.try_flatten().boxed())
    }
}

#[cfg(test)]
mod tests {
    use inferstore_api::types::TaskId;

    use super::*;

    #[test]
    fn an_identifier_that_changes_the_path_is_an_error_and_every_other_is_taken() {
        for text in ["", " ", ".", ".."] {
            assert!(identifier::<TaskId>("identifier of a task", text).is_err(), "{text:?}");
        }
        for text in ["a", "...", "a/b", "ä", "a b"] {
            let id = identifier::<TaskId>("identifier of a task", text);
            assert_eq!(id.ok().as_ref().map(TaskId::as_str), Some(text));
        }
    }

    /// All records of a service that returns at most `most` at once.
    async fn all(count: u64, most: u64, is_total_stated: bool, by_page: bool) -> Result<Vec<u64>> {
        let mut pages = 0;
        let listing = Listing::new(0, move |offset| {
            let start = if by_page { pages * most } else { offset };
            pages += 1;
            let total = is_total_stated.then_some(count);
            let records = (start..count.min(start + most)).collect();
            async move { Ok(Page { records, total, pages: None }) }
        });
        listing.try_collect().await
    }

    #[tokio::test]
    async fn every_record_comes_once_however_short_the_pages_are() -> Result<()> {
        for (count, most) in [(0, 10), (1, 10), (10, 10), (25, 10), (30, 1)] {
            for is_total_stated in [true, false] {
                for by_page in [true, false] {
                    let read = all(count, most, is_total_stated, by_page).await?;
                    assert_eq!(read, (0..count).collect::<Vec<_>>(), "{count} in pages of {most}");
                }
            }
        }
        Ok(())
    }
}
