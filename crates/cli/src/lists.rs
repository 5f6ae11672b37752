//! Lists: one page as the service wrote it, several pages joined, or the newest records first.

use inferstore::types::{ModelListRequest, ModelSummary, TaskRecord};
use inferstore::{Client, Error, Page};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::failure::Result;
use crate::output::Report;
use crate::recorded::with_json;
use crate::table::{Cell, Fit, Table};

/// The most records that the service returns at once.
pub(crate) const MAX_PAGE: u32 = 100;

/// The filter of a list; None for all records.
pub(crate) type Fits<'a, T> = Option<&'a (dyn Fn(&T) -> bool + Sync)>;

/// Records, each beside its JSON as the service wrote it, which is empty unless JSON is written.
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

/// Returns the report of a list that this command makes. A row has the cells, the JSON and the `--quiet` text.
pub(crate) fn report<C: Into<Cell>, const N: usize>(
    columns: [(&str, Fit); N],
    rows: impl IntoIterator<Item = ([C; N], Value, String)>,
) -> Report {
    let mut table = Table::new(columns);
    let (mut records, mut quiet) = (Vec::new(), Vec::new());
    for (cells, record, name) in rows {
        table.add(cells);
        records.push(record.to_string());
        quiet.push(name);
    }
    Report::of_list(table, records, quiet)
}

pub(crate) fn records(payload: &str) -> Vec<String> {
    let records = serde_json::from_str::<Payload>(payload).ok().and_then(|payload| payload.records);
    records.iter().flatten().map(ToString::to_string).collect()
}

async fn page<T>(fetch: impl Future<Output = Result<Page<T>, Error>>) -> Result<Listed<T>> {
    let (page, payload) = with_json(fetch).await?;
    let mut texts = records(&payload).into_iter();
    let mut text = || texts.next().unwrap_or_default();
    Ok(Listed {
        records: page.records.into_iter().map(|record| (record, text())).collect(),
        total: page.total,
        page: Some(payload).filter(|payload| !payload.is_empty()),
    })
}

/// At most `limit` records from an offset on. Ends at an empty page, or at the total of the service.
pub(crate) async fn range<T>(
    first: u64,
    limit: u64,
    fetch: impl AsyncFn(u64, u32) -> Result<Page<T>, Error>,
) -> Result<Listed<T>> {
    let mut listed = Listed { records: Vec::new(), total: None, page: None };
    loop {
        let read = listed.records.len() as u64;
        let size = u32::try_from(limit - read).unwrap_or(MAX_PAGE).min(MAX_PAGE);
        let next = page(fetch(first.saturating_add(read), size)).await?;
        if next.records.is_empty() && read > 0 {
            return Ok(listed);
        }
        listed.page = next.page.filter(|_| read == 0);
        listed.total = next.total;
        listed.records.extend(next.records);
        let now = listed.records.len() as u64;
        let is_last = listed.total.is_some_and(|total| first.saturating_add(now) >= total);
        if now == read || now >= limit || is_last {
            return Ok(listed);
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) limit: u64,
    /// The newest record comes first. The service has the oldest first.
    pub(crate) is_newest_first: bool,
}

impl Range {
    pub(crate) const ALL: Self = Self { offset: 0, limit: u64::MAX, is_newest_first: false };
}

/// The records that fit, of a list that is read by the number of a page and its size. A service may return shorter
/// pages than asked for: pages are counted, and their length is that of the first one.
pub(crate) async fn numbered<T: Send, Fetched>(
    range: Range,
    fits: Fits<'_, T>,
    fetch: impl Fn(u64, u32) -> Fetched + Send + Sync,
) -> Result<Listed<T>>
where
    Fetched: Future<Output = Result<Page<T>, Error>> + Send,
{
    let Range { offset, limit, is_newest_first } = range;
    let wanted = if fits.is_some() { u64::MAX } else { limit };
    let size = u32::try_from(wanted).unwrap_or(MAX_PAGE).clamp(1, MAX_PAGE);
    let first = page(fetch(1, size)).await?;
    let (total, length) = (first.total, first.records.len() as u64);
    let is_whole = length == 0 || total.is_some_and(|total| total <= length);
    let is_in_order = !is_newest_first || length <= 1;
    if is_whole && fits.is_none() && is_in_order && offset == 0 {
        return Ok(first);
    }
    // Positions are known where all records fit.
    let start = if fits.is_some() || length == 0 { 0 } else { offset };
    let skipped = offset - start;
    let wanted = count(limit.saturating_add(skipped));
    let is_wanted = |(record, _): &(T, String)| fits.is_none_or(|fits| fits(record));
    let mut records: Vec<(T, String)> = Vec::new();
    let mut first = Some(first);
    let mut read = async |number: u64| match first.take_if(|_| number == 1) {
        Some(first) => Ok(first.records),
        None => page(fetch(number, size)).await.map(|page| page.records),
    };
    if let Some(total) = total.filter(|_| is_newest_first && length > 0) {
        let mut end = total.saturating_sub(start);
        while end > 0 && records.len() < wanted {
            let before = (end - 1) / length;
            let mut older = read(before + 1).await?;
            older.truncate(count(end - before * length));
            records.extend(older.into_iter().rev().filter(is_wanted));
            end = before * length;
        }
    } else {
        // Without a total, the newest records are known at the end.
        let (mut number, mut before) = match is_newest_first || length == 0 {
            true => (1, 0),
            false => (start / length + 1, start % length),
        };
        while is_newest_first || records.len() < wanted {
            let next = read(number).await?;
            if next.is_empty() {
                break;
            }
            records.extend(next.into_iter().skip(count(before)).filter(is_wanted));
            if total.is_some_and(|total| number * length >= total) {
                break;
            }
            number += 1;
            before = 0;
        }
        if is_newest_first {
            records.reverse();
            cut(&mut records, start, u64::MAX);
        }
    }
    cut(&mut records, skipped, limit);
    // The service counts all records, not those that fit.
    Ok(Listed { records, total: total.filter(|_| fits.is_none()), page: None })
}

/// The newest records that fit, newest first, of a list that the service orders oldest first; skips `offset` of them.
pub(crate) async fn newest<T, Fetched>(
    offset: u64,
    limit: u64,
    fits: Fits<'_, T>,
    fetch: impl Fn(u32, u64) -> Fetched,
) -> Result<Listed<T>>
where
    Fetched: Future<Output = Result<Page<T>, Error>>,
{
    let total = page(fetch(1, 0)).await?.total.unwrap_or(0);
    let counted = Some(total).filter(|_| fits.is_none());
    let mut newest = Listed { records: Vec::new(), total: counted, page: None };
    // The filter needs the records themselves.
    let skipped = if fits.is_some() { offset } else { 0 };
    let wanted = skipped.saturating_add(limit);
    let mut end = total.saturating_sub(offset - skipped);
    while end > 0 && (newest.records.len() as u64) < wanted {
        let left = if fits.is_some() { u64::MAX } else { wanted - newest.records.len() as u64 };
        let start = end.saturating_sub(left.min(u64::from(MAX_PAGE)));
        let size = u32::try_from(end - start).unwrap_or(MAX_PAGE);
        let older = page(fetch(size, start)).await?;
        let older = older.records.into_iter().rev();
        newest.records.extend(older.filter(|(record, _)| fits.is_none_or(|fits| fits(record))));
        end = start;
    }
    cut(&mut newest.records, skipped, limit);
    Ok(newest)
}

pub(crate) async fn first_models(client: &Client) -> Result<Vec<ModelSummary>, Error> {
    let query = ModelListRequest { limit: Some(MAX_PAGE), offset: Some(0), ..Default::default() };
    Ok(client.models_page(query).await?.records)
}

pub(crate) async fn newest_tasks(client: &Client, limit: u64) -> Result<Vec<TaskRecord>> {
    let tasks = client.tasks();
    let listed = newest(0, limit, None, |limit, offset| tasks.page(limit, offset)).await?;
    Ok(listed.records.into_iter().map(|(task, _)| task).collect())
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

pub(crate) fn cut<T>(records: &mut Vec<T>, skipped: u64, limit: u64) {
    records.drain(..count(skipped).min(records.len()));
    records.truncate(count(limit));
}

impl<T: DeserializeOwned> Listed<T> {
    /// The list in every format. `field` is the name that the service has for its records.
    pub(crate) fn report(
        self,
        field: &str,
        columns: impl IntoIterator<Item = (&'static str, Fit)>,
        cells: impl Fn(&T) -> Vec<Cell>,
        quiet: impl Fn(&T) -> String,
    ) -> Report {
        let shown = self.records.len();
        let mut table = if shown == 0 { Table::default() } else { Table::new(columns) };
        self.records.iter().for_each(|(record, _)| table.add(cells(record)));
        let quiet = self.records.iter().map(|(record, _)| quiet(record)).collect();
        let texts: Vec<String> = self.records.into_iter().map(|(_, text)| text).collect();
        let json = self.page.unwrap_or_else(|| {
            let total = self.total.map(|total| format!(r#","total":{total}"#)).unwrap_or_default();
            format!(r#"{{"{field}":[{}]{total}}}"#, texts.join(","))
        });
        let shown_of = |total| format!("{shown} of {total}");
        let below = self.total.map_or_else(|| format!("{shown} shown"), shown_of);
        Report { table, below: vec![below], json, records: Some(texts), quiet, ..Report::default() }
            .of_type::<T>()
    }
}
