//! Stored files: folders, statistics, deletion.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use inferstore_api::types::{
    FileUrl, FolderName, MimeCategory, StorageFile, StorageStatistics, UploadFolder,
};
use inferstore_api::{limits, operations};

use crate::resources::{Listing, Page, identifier};
use crate::transport::{Core, Error, Result};

/// How many files a stream asks for at once.
const FILES_PER_PAGE: u32 = 100;

/// The files of the account.
///
/// ```no_run
/// # async fn example(client: inferstore::Client, url: String) -> Result<(), inferstore::Error> {
/// client.storage().delete(url).await?;
/// let left = client.storage().statistics().await?;
/// println!("{} files, {} bytes", left.total_files.unwrap_or_default(), left.total_size.unwrap_or_default());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Storage {
    pub(crate) core: Arc<Core>,
}

/// One folder of the storage. Making the handle sends nothing.
#[derive(Clone, Debug)]
pub struct Folder {
    pub(crate) core: Arc<Core>,
    pub(crate) name: String,
}

/// Which files of a folder to list.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FileQuery {
    /// Only files of this MIME category. Default: all.
    pub category: Option<MimeCategory>,
    /// How many files a page holds. Default: 100 for a stream, else as the service decides.
    pub page_size: Option<u32>,
}

impl FileQuery {
    /// Files of this MIME category.
    pub fn category(category: MimeCategory) -> Self {
        Self { category: Some(category), ..Self::default() }
    }
}

impl Storage {
    /// How many files are stored, and their size.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub fn statistics(&self) -> BoxFuture<'static, Result<StorageStatistics>> {
        let core = Arc::clone(&self.core);
        async move { core.call(operations::GET_STORAGE_STATISTICS).send(|api| api.get_storage_statistics()).await }
            .boxed()
    }

    /// Deletes the file with this `download_url`.
    ///
    /// # Errors
    ///
    /// [`Error::Api`] when there is no such file, which is also the case after a delete whose response
    /// was lost.
    pub fn delete(&self, download_url: impl Into<String>) -> BoxFuture<'static, Result<()>> {
        let core = Arc::clone(&self.core);
        let file = FileUrl::new(download_url);
        async move {
            // Before the call: a lost response may have been a success.
            core.memory.uploads.forget_value(file.url.as_str());
            core.call(operations::DELETE_FILE).send(|api| api.delete_file(&file)).await.map(drop)
        }
        .boxed()
    }
}

impl Folder {
    /// The name as a folder that can be listed.
    fn listable(&self) -> Result<FolderName> {
        if limits::RESERVED_FOLDER_NAMES.contains(&self.name.as_str()) {
            return Err(Error::InvalidArgument(format!(
                "the folder {:?} cannot be listed: its path belongs to another operation of the service",
                self.name
            )));
        }
        identifier("name of a folder", &self.name)
    }

    /// The name as a folder that can be uploaded into.
    pub(crate) fn uploadable(&self) -> Result<UploadFolder> {
        let folder = self.name.parse();
        folder.map_err(|error| Error::InvalidArgument(format!("the folder cannot be uploaded into: {error}")))
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
    ///
    /// The stream ends with its first error.
    pub fn list(&self, query: FileQuery) -> Listing<StorageFile> {
        let folder = self.clone();
        let page_size = query.page_size.unwrap_or(FILES_PER_PAGE).max(1);
        let query = FileQuery { page_size: Some(page_size), ..query };
        // Pages are counted from 1, and by their number: the service may return fewer files than asked for.
        let mut page = 0;
        Listing::new(0, move |_| {
            page += 1;
            folder.page(query.clone(), page)
        })
    }

    /// One page of the files that match the query, counted from 1.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a folder that cannot be listed, and those of every call.
    pub fn page(&self, query: FileQuery, page: u64) -> BoxFuture<'static, Result<Page<StorageFile>>> {
        let folder = self.clone();
        async move {
            let name = folder.listable()?;
            let category = query.category.as_ref();
            let call = folder.core.call(operations::LIST_FILES);
            let send = call.send(|api| api.list_files(&name, Some(page), query.page_size, category));
            let listing = send.await?;
            Ok(Page {
                pages: listing.total_pages.and_then(|pages| u64::try_from(pages).ok()),
                ..Page::new(listing.files, listing.total)
            })
        }
        .boxed()
    }
}
