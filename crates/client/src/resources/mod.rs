//! Handles by noun: model, task history, folder; and lists, as one page or as a stream over all pages.
//!
//! Futures are boxed here: otherwise every crate that awaits an async function compiles its body.

mod keys;
mod model;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use inferstore_api::limits::{MAX_LIST_TASKS_LIMIT, RESERVED_FOLDER_NAMES};
use inferstore_api::operations;
use inferstore_api::types::{FolderName, MimeCategory, StorageFile, TaskId, TaskRecord};
use serde::{Deserialize, Serialize};

pub use keys::Keys;
pub use model::Model;

use crate::files::source::File;
use crate::files::upload::Upload;
use crate::transport::{Core, Deadline, Error, Items, Result, identifier};

const FILES_PER_PAGE: u32 = 100;

/// Page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Page<T> {
    /// Records on this page; empty if nothing matches.
    pub records: Vec<T>,
    /// Number of records on all pages, if the service states it.
    pub total: Option<u64>,
}

impl<T> Page<T> {
    /// Makes a page from the response, where null, absent and empty are equivalent.
    pub fn new(records: Option<Vec<T>>, total: Option<i64>) -> Self {
        let total = total.and_then(|total| u64::try_from(total).ok());
        Self { records: records.unwrap_or_default(), total }
    }
}

/// Stream over all records of a list, which reads a page when the last one is used up, and ends with its first error.
pub type Listing<T> = Items<T>;

impl<T: Send + 'static> Listing<T> {
    /// Makes a stream; `fetch` reads the page after the given number of records. Ends at an empty page, or at
    /// the total of the service: a page may be shorter than requested without being the last.
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

/// Handle of the account's tasks.
#[derive(Clone, Debug)]
pub struct Tasks {
    pub(crate) core: Arc<Core>,
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
    pub fn list(&self) -> Listing<TaskRecord> {
        let tasks = self.clone();
        Listing::new(0, move |offset| tasks.page(MAX_LIST_TASKS_LIMIT, offset))
    }

    /// Returns one page of the history, oldest first: at most `limit` records (at most 100) from `offset` on.
    pub fn page(&self, limit: u32, offset: u64) -> BoxFuture<'static, Result<Page<TaskRecord>>> {
        let core = Arc::clone(&self.core);
        Box::pin(async move {
            let page = core.list_tasks(limit, offset, Deadline::never()).await?;
            Ok(Page::new(page.records, page.total))
        })
    }

    /// Marks tasks as known to this program, such as those in a journal after a restart: they are never
    /// adopted for another create, see [`Client::adopt_or_start`](crate::Client::adopt_or_start). The latest
    /// 100,000 are remembered, including the tasks that this client created.
    pub fn claim<Ids: IntoIterator<Item: Into<TaskId>>>(&self, tasks: Ids) {
        for task in tasks {
            self.core.memory.claim(&task.into());
        }
    }
}

/// Handle of one folder of the storage. Making the handle sends nothing.
#[derive(Clone, Debug)]
pub struct Folder {
    pub(crate) core: Arc<Core>,
    pub(crate) name: String,
}

/// Filter and page size of a list of files.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FileQuery {
    /// Only files of this MIME category. Default: all.
    pub category: Option<MimeCategory>,
    /// Number of files per page. Default: 100 for a stream, else the service decides.
    pub page_size: Option<u32>,
}

impl FileQuery {
    /// Makes a query for files of this MIME category.
    pub fn category(category: MimeCategory) -> Self {
        Self { category: Some(category), ..Self::default() }
    }
}

impl Folder {
    fn listable(&self) -> Result<FolderName> {
        if RESERVED_FOLDER_NAMES.contains(&self.name.as_str()) {
            return Err(Error::InvalidArgument(format!(
                "the folder {:?} cannot be listed: its path belongs to another operation of the service",
                self.name
            )));
        }
        identifier("name of a folder", &self.name)
    }

    /// Uploads a file into the folder: a path, or any [`File`].
    ///
    /// # Errors
    ///
    /// [`Error::File`] if the file cannot be read, is empty or larger than 100 MiB, changes during the upload, or is
    /// rejected by object storage; [`Error::InvalidArgument`] for a folder without uploads;
    /// [`Error::DeadlineReached`]; and those of every call, because the service issues the target.
    pub fn upload(&self, file: impl Into<File>) -> Upload {
        Upload::new(Arc::clone(&self.core), self.name.clone(), file.into())
    }

    /// All files that match the query, as a stream that reads page after page.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// use inferstore::{FileQuery, types::MimeCategory};
    ///
    /// let mut files = client.folder("samples").list(FileQuery::category(MimeCategory::Image));
    /// while let Some(file) = files.next().await {
    ///     println!("{:?}", file?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self, query: FileQuery) -> Listing<StorageFile> {
        let folder = self.clone();
        let page_size = query.page_size.unwrap_or(FILES_PER_PAGE).max(1);
        let query = FileQuery { page_size: Some(page_size), ..query };
        // Page numbers start at 1. Count pages, not files: the service may return fewer files than requested.
        let mut page = 0;
        Listing::new(0, move |_| {
            page += 1;
            folder.page(query.clone(), page)
        })
    }

    /// Returns one page of the files that match the query, counted from 1.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a folder that cannot be listed, and those of every call.
    pub fn page(&self, query: FileQuery, page: u64) -> BoxFuture<'static, Result<Page<StorageFile>>> {
        let folder = self.clone();
        Box::pin(async move {
            let name = folder.listable()?;
            let category = query.category.as_ref();
            let call = folder.core.call(operations::LIST_FILES);
            let send = call.send(|api| api.list_files(&name, Some(page), query.page_size, category));
            let listing = send.await?;
            Ok(Page::new(listing.files, listing.total))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists all records of a service that returns at most `most` per page.
    async fn all(count: u64, most: u64, is_total_stated: bool, by_page: bool) -> Result<Vec<u64>> {
        let mut pages = 0;
        let listing = Listing::new(0, move |offset| {
            let start = if by_page { pages * most } else { offset };
            pages += 1;
            let total = is_total_stated.then_some(count);
            let records = (start..count.min(start + most)).collect();
            async move { Ok(Page { records, total }) }
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
