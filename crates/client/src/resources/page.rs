//! Lists: one page, or a stream over all of them.

use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};

use crate::transport::error::Result;

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Page<T> {
    /// The records on this page; none when nothing matches.
    pub records: Vec<T>,
    /// The count over all pages, if the service told it.
    pub total: Option<u64>,
}

impl<T> Page<T> {
    /// A page as the service sends it, where null, absent and empty mean the same.
    pub(crate) fn new(records: Option<Vec<T>>, total: Option<i64>) -> Self {
        Self {
            records: records.unwrap_or_default(),
            total: total.and_then(|total| u64::try_from(total).ok()),
        }
    }
}

/// Where a page begins.
#[derive(Clone, Copy)]
pub(crate) struct Position {
    /// How many records stand before it.
    pub(crate) offset: u64,
    /// How many pages were read before it.
    pub(crate) pages: u64,
}

/// All records, page after page, beginning at an offset. Ends at an empty page, or at the total that
/// the service tells: a page may be shorter than was asked for without being the last.
pub(crate) fn records<T, Fetched>(
    first: u64,
    fetch: impl Fn(Position) -> Fetched + Send + 'static,
) -> BoxStream<'static, Result<T>>
where
    T: Send + 'static,
    Fetched: Future<Output = Result<Page<T>>> + Send + 'static,
{
    let first = Position { offset: first, pages: 0 };
    stream::try_unfold((Some(first), fetch), |(next, fetch)| async move {
        let Some(position) = next else { return Ok(None) };
        let page = fetch(position).await?;
        let offset = position.offset + page.records.len() as u64;
        let more = !page.records.is_empty() && page.total.is_none_or(|total| offset < total);
        let next = more.then_some(Position { offset, pages: position.pages + 1 });
        Ok(Some((stream::iter(page.records.into_iter().map(Ok)), (next, fetch))))
    })
    .try_flatten()
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All records of a service that never returns more than so many at once.
    async fn all(count: u64, most: u64, is_total_told: bool, by_page: bool) -> Result<Vec<u64>> {
        let read = records(0, move |position| async move {
            let start = if by_page { position.pages * most } else { position.offset };
            let total = is_total_told.then_some(count);
            Ok(Page { records: (start..count.min(start + most)).collect(), total })
        });
        read.try_collect().await
    }

    #[tokio::test]
    async fn every_record_comes_once_however_short_the_pages_are() -> Result<()> {
        for (count, most) in [(0, 10), (1, 10), (10, 10), (25, 10), (30, 1)] {
            for is_total_told in [true, false] {
                for by_page in [true, false] {
                    let read = all(count, most, is_total_told, by_page).await?;
                    assert_eq!(read, (0..count).collect::<Vec<_>>(), "{count} in pages of {most}");
                }
            }
        }
        Ok(())
    }
}
