//! Lists: one page as the service wrote it, several pages joined, or the newest records first.

use inferstore::types::TaskRecord;
use inferstore::{Client, Error, Page};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::failure::Result;
use crate::output::Report;
use crate::settings::Session;
use crate::table::Table;

/// The most records that the service returns at once.
pub(crate) const MAX_PAGE: u32 = 100;

/// Records, each beside its JSON as the service wrote it.
pub(crate) struct Listed<T> {
    pub(crate) records: Vec<(T, String)>,
    /// The count over all pages, if the service states it.
    pub(crate) total: Option<u64>,
    /// The payload, if it was one page.
    page: Option<String>,
}

#[derive(Deserialize)]
struct Payload {
    #[serde(alias = "files")]
    records: Option<Vec<Box<RawValue>>>,
}

/// One page.
async fn page<T>(
    session: &Session,
    fetch: impl Future<Output = Result<Page<T>, Error>>,
) -> Result<Listed<T>> {
    let page = fetch.await?;
    let payload = session.payload();
    let texts = serde_json::from_str::<Payload>(&payload).ok();
    let texts = texts.and_then(|payload| payload.records).unwrap_or_default();
    let texts = texts.into_iter().map(|text| text.to_string());
    Ok(Listed {
        records: page.records.into_iter().zip(texts).collect(),
        total: page.total,
        page: Some(payload).filter(|payload| !payload.is_empty()),
    })
}

/// At most `limit` records from an offset on.
pub(crate) async fn range<T, Fetched>(
    session: &Session,
    first: u64,
    limit: u64,
    fetch: impl Fn(u64, u32) -> Fetched,
) -> Result<Listed<T>>
where
    Fetched: Future<Output = Result<Page<T>, Error>>,
{
    let size = |left: u64| u32::try_from(left).unwrap_or(MAX_PAGE).min(MAX_PAGE);
    pages(session, first, limit, move |read| Some(fetch(first.saturating_add(read), size(limit - read))))
        .await
}

/// At most `limit` records from an offset on, of a list that is read by the number of a page and its size.
pub(crate) async fn numbered<T, Fetched>(
    session: &Session,
    offset: u64,
    limit: u64,
    fetch: impl Fn(u64, u32) -> Fetched,
) -> Result<Listed<T>>
where
    Fetched: Future<Output = Result<Page<T>, Error>>,
{
    let size = u32::try_from(limit).unwrap_or(MAX_PAGE).clamp(1, MAX_PAGE);
    let skipped = offset % u64::from(size);
    let first = offset - skipped;
    let wanted = skipped.saturating_add(limit);
    // A page that is not full is the last one.
    let is_full = move |read: u64| read.is_multiple_of(u64::from(size));
    let number = move |read: u64| (first + read) / u64::from(size) + 1;
    let mut listed =
        pages(session, first, wanted, move |read| is_full(read).then(|| fetch(number(read), size))).await?;
    if skipped > 0 || listed.records.len() as u64 > wanted {
        listed.page = None;
        listed.records.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
        listed.records.drain(..usize::try_from(skipped).unwrap_or(0).min(listed.records.len()));
    }
    Ok(listed)
}

/// Records from page to page, each fetched by how many were read before, until there are `limit`. Ends at an empty
/// page, or at the total of the service.
async fn pages<T, Fetched>(
    session: &Session,
    first: u64,
    limit: u64,
    fetch: impl Fn(u64) -> Option<Fetched>,
) -> Result<Listed<T>>
where
    Fetched: Future<Output = Result<Page<T>, Error>>,
{
    let mut listed = Listed { records: Vec::new(), total: None, page: None };
    while let Some(fetched) = fetch(listed.records.len() as u64) {
        let next = page(session, fetched).await?;
        if listed.records.is_empty() {
            listed = next;
        } else if next.records.is_empty() {
            break;
        } else {
            listed.page = None;
            listed.total = next.total;
            listed.records.extend(next.records);
        }
        let read = listed.records.len() as u64;
        if read == 0 || read >= limit || listed.total.is_some_and(|total| first.saturating_add(read) >= total)
        {
            break;
        }
    }
    Ok(listed)
}

/// The newest records that fit, the newest first, of a list that the service orders oldest first. `offset` of those
/// that fit are left out.
pub(crate) async fn newest<T, Fetched>(
    session: &Session,
    offset: u64,
    limit: u64,
    fits: Option<&(dyn Fn(&T) -> bool + Sync)>,
    fetch: impl Fn(u32, u64) -> Fetched,
) -> Result<Listed<T>>
where
    Fetched: Future<Output = Result<Page<T>, Error>>,
{
    let total = page(session, fetch(1, 0)).await?.total.unwrap_or(0);
    // The service counts all records, not those that fit.
    let counted = Some(total).filter(|_| fits.is_none());
    let mut newest = Listed { records: Vec::new(), total: counted, page: None };
    // Which records fit is known when they are read.
    let skipped = if fits.is_some() { offset } else { 0 };
    let wanted = skipped.saturating_add(limit);
    let mut end = total.saturating_sub(offset - skipped);
    while end > 0 && (newest.records.len() as u64) < wanted {
        let left = wanted - newest.records.len() as u64;
        let size = if fits.is_some() { u64::from(MAX_PAGE) } else { left.min(u64::from(MAX_PAGE)) };
        let start = end.saturating_sub(size);
        let size = u32::try_from(end - start).unwrap_or(MAX_PAGE);
        let older = page(session, fetch(size, start)).await?;
        let older = older.records.into_iter().rev();
        newest.records.extend(older.filter(|(record, _)| fits.is_none_or(|fits| fits(record))));
        end = start;
    }
    newest.records.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
    let skipped = usize::try_from(skipped).unwrap_or(usize::MAX).min(newest.records.len());
    newest.records.drain(..skipped);
    Ok(newest)
}

/// The newest tasks, the newest first.
pub(crate) async fn newest_tasks(client: &Client, offset: u64, limit: u32) -> Result<Vec<TaskRecord>, Error> {
    let tasks = client.tasks();
    let total = tasks.page(1, 0).await?.total.unwrap_or(0);
    let end = total.saturating_sub(offset);
    let start = end.saturating_sub(u64::from(limit.min(MAX_PAGE)));
    if start == end {
        return Ok(Vec::new());
    }
    let size = u32::try_from(end - start).unwrap_or(MAX_PAGE);
    let mut records = tasks.page(size, start).await?.records;
    records.reverse();
    Ok(records)
}

impl<T: DeserializeOwned> Listed<T> {
    /// The list in every format. `field` is the name that the service has for its records.
    pub(crate) fn report(self, field: &str, table: Table, quiet: impl Fn(&T) -> String) -> Report {
        let shown = self.records.len();
        let quiet = self.records.iter().map(|(record, _)| quiet(record)).collect();
        let texts: Vec<String> = self.records.into_iter().map(|(_, text)| text).collect();
        let json = self.page.unwrap_or_else(|| {
            let total = self.total.map(|total| format!(r#","total":{total}"#)).unwrap_or_default();
            format!(r#"{{"{field}":[{}]{total}}}"#, texts.join(","))
        });
        let below = match self.total {
            Some(total) => format!("{shown} of {total}"),
            None => format!("{shown} shown"),
        };
        let table = if shown == 0 { Table::default() } else { table };
        Report { table, below: vec![below], json, records: Some(texts), quiet, ..Report::default() }
            .of_type::<T>()
    }
}
