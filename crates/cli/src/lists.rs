//! Lists: one page as the service wrote it, or all pages joined.

use inferstore::{Error, Page};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::failure::Result;
use crate::output::Report;
use crate::settings::Session;
use crate::table::Table;

/// Records, each beside its JSON as the service wrote it.
pub(crate) struct Listed<T> {
    pub(crate) records: Vec<(T, String)>,
    /// The count over all pages, if the service told it.
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
pub(crate) async fn page<T>(
    session: &Session,
    fetch: impl Future<Output = Result<Page<T>, Error>>,
) -> Result<Listed<T>> {
    let page = fetch.await?;
    let payload = session.payload();
    let texts = payload.as_ref().and_then(|payload| serde_json::from_str::<Payload>(payload.get()).ok());
    let texts = texts.and_then(|payload| payload.records).unwrap_or_default();
    let texts = texts.into_iter().map(|text| text.to_string());
    Ok(Listed {
        records: page.records.into_iter().zip(texts).collect(),
        total: page.total,
        page: payload.map(|payload| payload.to_string()),
    })
}

/// All pages from an offset on. Ends at an empty page, or at the total that the service tells. `fetch` gets
/// the offset of a page, and the number of pages before it.
pub(crate) async fn all<T, Fetched>(
    session: &Session,
    first: u64,
    fetch: impl Fn(u64, u64) -> Fetched,
) -> Result<Listed<T>>
where
    Fetched: Future<Output = Result<Page<T>, Error>>,
{
    let mut all = Listed { records: Vec::new(), total: None, page: None };
    let mut pages = 0;
    loop {
        let offset = first + all.records.len() as u64;
        let next = page(session, fetch(offset, pages)).await?;
        pages += 1;
        let is_empty = next.records.is_empty();
        all.total = next.total;
        all.records.extend(next.records);
        let end = first + all.records.len() as u64;
        if is_empty || all.total.is_some_and(|total| end >= total) {
            return Ok(all);
        }
    }
}

impl<T> Listed<T> {
    /// Keeps those that fit, at most so many of them.
    pub(crate) fn keep(&mut self, fits: impl Fn(&T) -> bool, most: usize) {
        self.records.retain(|(record, _)| fits(record));
        self.records.truncate(most);
        self.page = None;
    }

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
        Report { table, below: Some(below), json, records: Some(texts), quiet }
    }
}
