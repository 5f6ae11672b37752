//! Lists: one page, or a stream over all of them.

use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};

use crate::error::Result;

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

/// All records, page after page, beginning at an offset. Ends at an empty page, or at the total that
/// the service tells: a page may be shorter than was asked for without being the last.
pub(crate) fn records<T, Fetched>(
    first: u64,
    fetch: impl Fn(u64) -> Fetched + Send + 'static,
) -> BoxStream<'static, Result<T>>
where
    T: Send + 'static,
    Fetched: Future<Output = Result<Page<T>>> + Send + 'static,
{
    stream::try_unfold((Some(first), fetch), |(next, fetch)| async move {
        let Some(offset) = next else { return Ok(None) };
        let page = fetch(offset).await?;
        let end = offset + page.records.len() as u64;
        let more = !page.records.is_empty() && page.total.is_none_or(|total| end < total);
        Ok(Some((stream::iter(page.records.into_iter().map(Ok)), (more.then_some(end), fetch))))
    })
    .try_flatten()
    .boxed()
}
