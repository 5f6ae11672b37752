//! `inferstore files list`, and the choice of stored files by URL, key or pattern.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use glob::Pattern;
use inferstore::types::{MimeCategory, StorageFile, UploadFolder};
use inferstore::{Client, FileQuery, Timestamp};
use serde_json::json;

use crate::candidates::folders;
use crate::exit;
use crate::failure::{Failure, Result, did_you_mean};
use crate::lists::{self, Fits, Range};
use crate::settings::Session;
use crate::table::{Cell, Fit};
use crate::time;
use crate::values::{folder_names, size};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  inferstore files list\n  inferstore files list 'samples/2026-*.png'\n  inferstore files list samples --type image\n  inferstore files list samples --search street --sort size\n  inferstore files list samples --all --format jsonl"
)]
pub(crate) struct ListArguments {
    /// A folder, or a pattern of keys such as 'samples/*.png'
    #[arg(value_name = "FOLDER|PATTERN", add = folders())]
    keys: Option<String>,
    /// Only files of this type
    #[arg(long = "type", value_name = "TYPE", requires = "keys", value_parser = PossibleValuesParser::new(MimeCategory::ALL.iter().map(MimeCategory::as_str)).try_map(|word| word.parse::<MimeCategory>()))]
    category: Option<MimeCategory>,
    /// Only files whose names or keys begin so
    #[arg(long, value_name = "TEXT", requires = "keys")]
    prefix: Option<String>,
    /// Only files with this text in their names, in any case
    #[arg(long, value_name = "TEXT", requires = "keys")]
    search: Option<String>,
    /// The order
    #[arg(long, value_enum, value_name = "ORDER", requires = "keys", default_value_t = Sort::Newest)]
    sort: Sort,
    /// Number of files to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Number of files to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
    /// Show all files, page after page
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// The latest upload first
    Newest,
    /// The earliest upload first
    Oldest,
    /// By name
    Name,
    /// The largest first
    Size,
}

pub(super) async fn execute(arguments: ListArguments, client: &Client, session: &Session) -> Result {
    let ListArguments { keys, category, prefix, search, sort, limit, offset, all } = arguments;
    let Some(keys) = keys else { return list_folders(client, session).await };
    let (folder, name) = split(&keys)?;
    let pattern = match name {
        "" => None,
        _ => Some(Pattern::new(&keys).map_err(|error| {
            Failure::new(exit::INPUT, format!("{keys:?} is no pattern: {error}"))
                .with_hint("`*`, `?` and `[…]` stand for other characters, and `[[]` for a bracket")
        })?),
    };
    let search = search.map(|text| text.to_lowercase());
    let fits = |file: &StorageFile| {
        let key = file.key.as_deref().unwrap_or_default();
        let name = key.split_once('/').map_or(key, |(_, name)| name);
        let begins = |prefix: &String| name.starts_with(prefix.as_str()) || key.starts_with(prefix.as_str());
        pattern.as_ref().is_none_or(|pattern| key == keys || pattern.matches(key))
            && prefix.as_ref().is_none_or(begins)
            && search.as_ref().is_none_or(|text| name.to_lowercase().contains(text.as_str()))
    };
    let is_filtered = pattern.is_some() || prefix.is_some() || search.is_some();
    let fits: Fits<'_, StorageFile> = if is_filtered { Some(&fits) } else { None };
    let limit = if all { u64::MAX } else { u64::from(limit) };
    let range = Range { offset, limit, is_newest_first: sort == Sort::Newest };
    let is_sorted = matches!(sort, Sort::Name | Sort::Size);
    let folder = &client.folder(folder.as_str());
    let fetch = |number, size| {
        let mut query = FileQuery::default();
        query.category = category;
        query.page_size = Some(size);
        folder.page(query, number)
    };
    // Any other order is known once all files are.
    let read = if is_sorted { Range::ALL } else { range };
    let mut listed = lists::numbered(read, fits, fetch).await?;
    if is_sorted {
        listed.records.sort_by(|(one, _), (other, _)| match sort {
            Sort::Size => other.size.cmp(&one.size),
            _ => one.key.cmp(&other.key),
        });
        lists::cut(&mut listed.records, offset, limit);
    }
    let columns = [
        ("KEY", Fit::Keep),
        ("TYPE", Fit::Drop(2)),
        ("SIZE", Fit::Drop(1)),
        ("CREATED", Fit::Drop(3)),
        ("URL", Fit::Drop(4)),
    ];
    let cells = |file: &StorageFile| {
        let bytes = file.size.and_then(|bytes| u64::try_from(bytes).ok());
        let text = |text: &Option<String>| Cell::from(text.as_deref().unwrap_or_default());
        let created = time::age(file.created_at.as_ref());
        let size = Cell::from(bytes.map(size).unwrap_or_default());
        vec![text(&file.key), text(&file.mime), size, created, text(&file.download_url)]
    };
    let quiet = |file: &StorageFile| file.download_url.clone().unwrap_or_default();
    session.output.report(&listed.report("files", columns, cells, quiet))
}

async fn list_folders(client: &Client, session: &Session) -> Result {
    let mut rows = Vec::new();
    for folder in folder_names() {
        let mut query = FileQuery::default();
        query.page_size = Some(1);
        let total = client.folder(folder).page(query, 1).await?.total;
        let count = total.map(|total| total.to_string()).unwrap_or_default();
        rows.push((
            [folder, &count].map(Cell::from),
            json!({"folder": folder, "total": total}),
            folder.into(),
        ));
    }
    session.output.report(&lists::report([("FOLDER", Fit::Keep), ("FILES", Fit::Keep)], rows))
}

#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// Unknown for a file that is named by its URL.
    pub(crate) key: Option<String>,
    pub(crate) url: String,
    pub(crate) size: Option<u64>,
    pub(crate) created: Option<SystemTime>,
}

impl Stored {
    fn of(file: StorageFile) -> Option<Self> {
        let size = file.size.and_then(|size| u64::try_from(size).ok());
        let created = file.created_at.as_ref().and_then(Timestamp::to_system_time);
        Some(Self { key: file.key, url: file.download_url?, size, created })
    }

    pub(crate) fn name(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.url)
    }

    pub(super) fn own_name(&self) -> Option<&str> {
        self.key.as_deref()?.split_once('/').map(|(_, name)| name)
    }
}

fn split(word: &str) -> Result<(UploadFolder, &str)> {
    let (folder, name) = word.split_once('/').unwrap_or((word, ""));
    let folder = folder.parse().map_err(|_| {
        let folders = folder_names().collect::<Vec<_>>().join(", ");
        let hint = format!("a key is such as samples/a.png; the folders are {folders}");
        Failure::new(exit::INPUT, format!("{word:?} is in no folder of the storage"))
            .with_hint(did_you_mean(folder, folder_names()) + &hint)
    })?;
    Ok((folder, name))
}

/// The files that URLs, keys and patterns name; with `is_prefix`, those whose keys begin so. Each folder is listed once.
pub(super) async fn select(words: &[String], is_prefix: bool, client: &Client) -> Result<Vec<Stored>> {
    let mut folders: HashMap<UploadFolder, Vec<Stored>> = HashMap::new();
    let mut selected: Vec<Stored> = Vec::new();
    for word in words {
        if word.contains("://") {
            selected.push(Stored { key: None, url: word.clone(), size: None, created: None });
            continue;
        }
        let (folder, name) = split(word)?;
        if name.is_empty() && !is_prefix {
            return Err(Failure::new(exit::INPUT, format!("{word} is a folder"))
                .with_hint(format!("give -r for all its files, or a pattern such as '{folder}/*.png'")));
        }
        let start = if name.is_empty() { format!("{folder}/") } else { word.clone() };
        let files = match folders.entry(folder) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(all(folder, client).await?),
        };
        // A key may have the characters of a pattern.
        let is_key = || files.iter().any(|file| file.key.as_deref() == Some(word.as_str()));
        let pattern =
            Pattern::new(word).ok().filter(|_| word.contains(['*', '?', '[']) && !is_prefix && !is_key());
        let fits = |file: &&Stored| {
            let key = file.key.as_deref().unwrap_or_default();
            match &pattern {
                Some(pattern) => pattern.matches(key),
                None if is_prefix => key.starts_with(&start),
                None => key == word,
            }
        };
        let matching: Vec<Stored> = files.iter().filter(fits).cloned().collect();
        if matching.is_empty() {
            return Err(Failure::new(exit::INPUT, format!("there is no file {word:?}"))
                .with_hint(format!("`inferstore files list {folder}` shows the keys")));
        }
        selected.extend(matching);
    }
    let mut seen = HashSet::new();
    selected.retain(|file| seen.insert(file.url.clone()));
    Ok(selected)
}

/// All files of a folder, oldest first. A deletion meanwhile moves later files to pages that were read, so a folder
/// that has become smaller is read again.
pub(in crate::commands) async fn all(folder: UploadFolder, client: &Client) -> Result<Vec<Stored>> {
    const READINGS: usize = 5;
    let pages = client.folder(folder.as_str());
    let mut query = FileQuery::default();
    query.page_size = Some(100);
    'readings: for _ in 0..READINGS {
        let (mut all, mut read, mut total) = (Vec::new(), 0, None);
        for number in 1.. {
            let page = pages.page(query.clone(), number).await?;
            if page.total.zip(total).is_some_and(|(now, before)| now < before) {
                continue 'readings;
            }
            total = page.total;
            read += page.records.len() as u64;
            let is_last = page.records.is_empty() || total.is_some_and(|total| read >= total);
            all.extend(page.records.into_iter().filter_map(Stored::of));
            if is_last {
                return Ok(all);
            }
        }
    }
    Err(Failure::new(exit::FAILED, format!("files of {folder} are deleted while they are listed"))
        .with_hint("try again when no other program deletes files"))
}
