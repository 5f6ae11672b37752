//! Pages of a list of models. One that is far into the list is found by the order of the public models, which is cached:
//! by an offset alone, the database counts the models before it one by one.

use async_trait::async_trait;

use super::cache::Caches;
use super::lists::{PUBLIC, keys, order, parts};
use crate::Result;
use crate::accounts::AccountId;
use crate::catalog::{ModelPage, ModelSummary, Search, Sort};

/// The offset from which on a page is far: to count fewer models takes less time than the rest of a request.
const FAR: u64 = 500;

/// What a model is ordered by: its place, and the number of its publication.
pub(super) type Key = (i64, i64);

/// How an engine reads lists.
#[async_trait]
pub(super) trait Lists: Sync {
    fn caches(&self) -> &Caches;
    /// A page by its offset.
    async fn page_by_offset(&self, search: &Search) -> Result<ModelPage>;
    /// What a statement of `keys` returns.
    async fn keys(&self, caller: AccountId, sql: String) -> Result<Vec<Key>>;
    /// The models of these numbers in this order, without those that are not in the list.
    async fn models_by_number(&self, search: &Search, numbers: &[i64]) -> Result<Vec<ModelSummary>>;
}

pub(super) async fn page(database: &impl Lists, search: &Search) -> Result<ModelPage> {
    match far_page(database, search).await? {
        Some(page) => Ok(page),
        None => database.caches().page(search, || database.page_by_offset(search)).await,
    }
}

/// None for a page that is not far, or of another list than those of public models, and when a model has left the list
/// since its order was read.
async fn far_page(database: &impl Lists, search: &Search) -> Result<Option<ModelPage>> {
    let (parts, more) = parts(search.filter);
    let (place, order) = order(search.sort);
    let is_far = search.offset >= FAR && search.folded_text().is_none();
    let ([PUBLIC, own @ ..], Some(place), true) = (parts, place, is_far) else { return Ok(None) };
    let read = async |parts: &[&str]| {
        let mut keys = database.keys(search.caller, keys(parts, more, place, order)).await?;
        keys.iter_mut().for_each(|key| *key = ascending(*key, search.sort));
        Ok(keys)
    };
    let public = database.caches().order(search.sort, more, || read(&[PUBLIC])).await?;
    let own = if own.is_empty() { Vec::new() } else { read(own).await? };
    let numbers = merged_page(&public, &own, search);
    let models = database.models_by_number(search, &numbers).await?;
    let total = public.len() + own.len();
    Ok((models.len() == numbers.len()).then_some((models, total as u64)))
}

/// A key that is less for the model that comes first.
const fn ascending((place, number): Key, sort: Sort) -> Key {
    match sort {
        Sort::CreatedOldest => (place, number),
        Sort::Created | Sort::Modified => (-place, -number),
        Sort::Likes | Sort::Downloads | Sort::Trending => (-place, number),
    }
}

/// The numbers of the models on a page of two lists as one.
fn merged_page(public: &[Key], own: &[Key], search: &Search) -> Vec<i64> {
    let offset = usize::try_from(search.offset).unwrap_or(usize::MAX);
    let is_before = |(own_before, key): &(usize, &Key)| {
        own_before + public.partition_point(|public| public < *key) < offset
    };
    let own_before = own.iter().enumerate().take_while(is_before).count();
    let limit = search.limit as usize;
    let public = public.iter().skip(offset - own_before).take(limit);
    let mut page: Vec<Key> = own.iter().skip(own_before).take(limit).chain(public).copied().collect();
    page.sort_unstable();
    page.iter().take(limit).map(|(_, number)| number.abs()).collect()
}
