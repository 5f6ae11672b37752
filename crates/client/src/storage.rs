//! Stored files: folders, statistics, deletion.

use futures_util::Stream;
use inferstore_api::types::{
    FileUrl, FolderName, MimeCategory, StorageFile, StorageStatistics, UploadFolder,
};

use crate::call::Call;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::page::{self, Page};
use crate::segment::identifier;

/// Segments that stand beside the folders in the paths of the service. A folder of such a name
/// cannot be listed, because its path belongs to another operation.
const RESERVED_FOLDERS: [&str; 2] = ["statistics", "create-presigned-url"];

/// How many files a stream asks for at once.
const FILES_PER_PAGE: u32 = 100;

/// The files of the account.
#[derive(Clone, Debug)]
pub struct Storage {
    client: Client,
}

/// One folder of the storage. Making the handle sends nothing.
#[derive(Clone, Debug)]
pub struct Folder {
    pub(crate) client: Client,
    name: String,
}

/// Which files of a folder to list.
#[derive(Clone, Debug, Default)]
pub struct FileQuery {
    /// Only files of this MIME category.
    pub category: Option<MimeCategory>,
    /// How many files a page holds.
    pub page_size: Option<u32>,
}

impl Client {
    /// The files of the account.
    pub fn storage(&self) -> Storage {
        Storage { client: self.clone() }
    }

    /// A folder by its name: one of those for uploads ([`UploadFolder`]), or any other that the
    /// service lists.
    pub fn folder(&self, name: impl ToString) -> Folder {
        Folder { client: self.clone(), name: name.to_string() }
    }
}

impl Storage {
    /// How many files are stored, and their size.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub async fn statistics(&self) -> Result<StorageStatistics> {
        let client = &*self.client.inner;
        Call::repeatable("getStorageStatistics").send(client, || client.api.get_storage_statistics()).await
    }

    /// Deletes the file with this `download_url`.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when there is no such file, which is also the case after a delete whose
    /// answer was lost.
    pub async fn delete(&self, download_url: impl Into<String>) -> Result<()> {
        let client = &*self.client.inner;
        let file = &FileUrl { url: download_url.into() };
        Call::once("deleteFile").send(client, || client.api.delete_file(file)).await.map(drop)
    }
}

impl Folder {
    /// The name, as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name as a folder that can be listed.
    fn listable(&self) -> Result<FolderName> {
        if RESERVED_FOLDERS.contains(&self.name.as_str()) {
            return Err(Error::Settings(format!(
                "the folder {:?} cannot be listed: its path belongs to another operation of the service",
                self.name
            )));
        }
        identifier("name of a folder", &self.name)
    }

    /// The name as a folder that can be uploaded into.
    pub(crate) fn uploadable(&self) -> Result<UploadFolder> {
        self.name
            .parse()
            .map_err(|error| Error::Settings(format!("the folder cannot be uploaded into: {error}")))
    }

    /// All files that match, as a stream that reads page after page.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// use futures_util::TryStreamExt;
    /// use inferstore::{FileQuery, types::MimeCategory};
    ///
    /// let images = FileQuery { category: Some(MimeCategory::Image), ..FileQuery::default() };
    /// let mut files = std::pin::pin!(client.folder("samples").list(images));
    /// while let Some(file) = files.try_next().await? {
    ///     println!("{file:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The stream ends with its first error.
    pub fn list(&self, query: FileQuery) -> impl Stream<Item = Result<StorageFile>> + Send + use<> {
        let folder = self.clone();
        let size = query.page_size.unwrap_or(FILES_PER_PAGE).max(1);
        page::records(0, move |position| {
            let (folder, query) = (folder.clone(), FileQuery { page_size: Some(size), ..query.clone() });
            // Counted from 1, and not from what was asked for: the service may return less at once.
            async move { folder.page(&query, position.pages + 1).await }
        })
    }

    /// One page of the files that match, counted from 1.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`] for a folder that cannot be listed, and those of every call.
    pub async fn page(&self, query: &FileQuery, page: u64) -> Result<Page<StorageFile>> {
        let (client, name) = (&*self.client.inner, &self.listable()?);
        let category = query.category.as_ref();
        let call = Call::repeatable("listFiles");
        let listing =
            call.send(client, || client.api.list_files(name, Some(page), query.page_size, category)).await?;
        Ok(Page::new(listing.files, listing.total))
    }
}
