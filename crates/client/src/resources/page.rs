//! Lists: one page, or a stream over all pages.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::transport::{Error, Items, Result};

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

/// The start of a page.
#[derive(Clone, Copy)]
pub(crate) struct Position {
    /// How many records precede it.
    pub(crate) offset: u64,
    /// How many pages were read before it.
    pub(crate) pages: u64,
}

/// A stream over all records of a list. It reads the next page when the records of the last one are
/// used up, and ends with its first error.
pub type Listing<T> = Items<T>;

impl<T: Send + 'static> Listing<T> {
    /// Ends at an empty page, or at the total that the service states: a page may be shorter than
    /// requested without being the last.
    pub(crate) fn new<Fetched>(first: u64, fetch: impl Fn(Position) -> Fetched + Send + 'static) -> Self
    where
        Fetched: Future<Output = Result<Page<T>>> + Send + 'static,
    {
        let start = Some(Position { offset: first, pages: 0 });
        let pages = stream::try_unfold((start, fetch), |(position, fetch)| async move {
            let Some(position) = position else { return Ok::<_, Error>(None) };
            let page = fetch(position).await?;
            let offset = position.offset + page.records.len() as u64;
            let has_more = !page.records.is_empty() && page.total.is_none_or(|total| offset < total);
            let next = has_more.then_some(Position { offset, pages: position.pages + 1 });
            Ok(Some((stream::iter(page.records).map(Ok), (next, fetch))))
        });
        Self(pages.try_flatten().boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All records of a service that returns at most `most` at once.
    async fn all(count: u64, most: u64, is_total_stated: bool, by_page: bool) -> Result<Vec<u64>> {
        let listing = Listing::new(0, move |position| async move {
            let start = if by_page { position.pages * most } else { position.offset };
            let total = is_total_stated.then_some(count);
            Ok(Page { records: (start..count.min(start + most)).collect(), total, pages: None })
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
