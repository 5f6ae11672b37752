//! Lists of models in SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::SqliteDatabase;
use super::statements::Statements as _;
use crate::Result;
use crate::catalog::{Filter, ModelPage, ModelPages, Search, Sort, trending_since};
use crate::database::lists::{PUBLIC, SUMMARY, order, parts};
use crate::database::records::{column, model_summary};

const MATCHING: &str = "AND (instr(folded_name, $2) > 0 OR instr(folded_description, $2) > 0)";

/// Maximum number of candidates. For a more frequent text, scanning the list in order soon finds the first models.
const MAX_CANDIDATES: usize = 1_000;

const MIN_INDEXED: usize = 3;
const MAX_INDEXED: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Order,
    Text,
    Candidates,
}

impl By {
    const fn models(self) -> &'static str {
        match self {
            Self::Order | Self::Text => "models",
            Self::Candidates => {
                "(SELECT value AS candidate FROM json_each($3)) CROSS JOIN models ON sequence = candidate"
            }
        }
    }
}

const TREND: &str = "coalesce((SELECT sum(tasks) FROM model_days WHERE model = models.id AND day > $4), 0)";

/// Returns the query for the positions of matching models up to the page's end; trending ones by score, then by likes.
fn places(place: Option<&str>, by: By, condition: &str) -> String {
    let models = by.models();
    if let Some(place) = place {
        return format!("SELECT {place} AS place, sequence AS number FROM {models} WHERE {condition}");
    }
    if by == By::Candidates {
        return format!(
            "SELECT {TREND} AS place, likes AS next, sequence AS number FROM {models} WHERE {condition}"
        );
    }
    format!(
        "SELECT place, likes AS next, sequence AS number FROM (SELECT model, sum(tasks) AS place \
         FROM model_days INDEXED BY model_days_by_day WHERE day > $4 GROUP BY model) AS used \
         CROSS JOIN models ON models.id = used.model WHERE {condition} \
         UNION ALL SELECT * FROM ( \
           SELECT 0 AS place, likes AS next, sequence AS number FROM models WHERE {condition} \
           AND NOT EXISTS (SELECT 1 FROM model_days WHERE model = models.id AND day > $4) \
           ORDER BY next DESC, number LIMIT $5 + $6)"
    )
}

#[async_trait]
impl ModelPages for SqliteDatabase {
    async fn models(&self, search: &Search) -> Result<ModelPage> {
        let read = || async {
            let query = search.clone();
            match search.reads_many() {
                true => self.scan(move |db| models(db, &query)).await,
                false => self.read(move |db| models(db, &query)).await,
            }
        };
        self.caches.page(search, read).await
    }
}

fn models(db: &Connection, search: &Search) -> Result<ModelPage> {
    let (text, since) = (search.folded_text(), trending_since(search.now));
    let snapshot = db.unchecked_transaction()?;
    let candidates = text.as_deref().map(|text| candidates(&snapshot, text)).transpose()?.flatten();
    let by = match (&text, &candidates) {
        (None, _) => By::Order,
        (_, None) => By::Text,
        (_, Some(_)) => By::Candidates,
    };
    let statement = List::new(search.filter, search.sort, by);
    let total = snapshot.one(&statement.count, params![search.caller, text, candidates], column)?;
    // There are never more models, and the sum with the limit stays an integer.
    let offset = search.offset.min(u32::MAX.into());
    let params = params![search.caller, text, candidates, since, search.limit, offset];
    Ok((snapshot.all(&statement.page, params, model_summary)?, total))
}

/// Returns the numbers of the models that may contain a text; None if too many, or if the text is too short.
pub(super) fn candidates(db: &Connection, text: &str) -> Result<Option<String>> {
    let looked_up: Vec<char> = text.chars().take(MAX_INDEXED).collect();
    if looked_up.len() < MIN_INDEXED {
        return Ok(None);
    }
    let phrase = format!("\"{}\"", String::from_iter(looked_up).replace('"', "\"\""));
    let select = "SELECT rowid FROM model_texts WHERE model_texts MATCH ? LIMIT ?";
    let numbers: Vec<i64> = db.all(select, params![phrase, MAX_CANDIDATES + 1], column)?;
    Ok((numbers.len() <= MAX_CANDIDATES).then(|| serde_json::json!(numbers).to_string()))
}

/// Statements of a list: for the account $1, the text $2, candidates $3, trending since $4, limit $5 and offset $6.
pub(super) struct List {
    pub(super) count: String,
    pub(super) page: String,
}

impl List {
    pub(super) fn new(filter: Option<Filter>, sort: Sort, by: By) -> Self {
        let (parts, more) = parts(filter);
        let matching = if by == By::Order { "" } else { MATCHING };
        let (place, order) = order(sort);
        let each = |select: &dyn Fn(&str) -> String, between: &str| {
            parts.iter().map(|part| select(part)).collect::<Vec<_>>().join(between)
        };
        let count = |part: &str| match (by, part) {
            (By::Order, PUBLIC) => {
                format!("SELECT sum(models) FROM model_counts WHERE {PUBLIC} AND owner = 0 {more}")
            }
            (By::Order, part) => format!("SELECT sum(models) FROM model_counts WHERE {part} {more}"),
            // An index would read almost all models too, each individually.
            (By::Text, PUBLIC) => {
                format!("SELECT count(*) FROM models NOT INDEXED WHERE {PUBLIC} {more} {matching}")
            }
            _ => format!("SELECT count(*) FROM {} WHERE {part} {more} {matching}", by.models()),
        };
        let counts = each(&|part| format!("coalesce(({}), 0)", count(part)), " + ");
        // All parameters are named, even if the parts do not use them.
        let count = format!("SELECT {counts}, $1, $2, $3");
        let keys = each(&|part| places(place, by, &format!("{part} {more} {matching}")), " UNION ALL ");
        let page = format!(
            "SELECT {SUMMARY} FROM ({keys} ORDER BY {order} LIMIT $5 OFFSET $6) AS page \
             CROSS JOIN models ON models.sequence = page.number \
             JOIN accounts ON accounts.id = models.owner ORDER BY {order}"
        );
        // In SQLite, $1 is a name, and ?1 a parameter number.
        Self { count: count.replace('$', "?"), page: page.replace('$', "?") }
    }
}
