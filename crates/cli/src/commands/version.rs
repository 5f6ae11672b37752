//! `inferstore version`, and the comparison with the releases that an operator names.

use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use inferstore::Error;
use inferstore::reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::exit;
use crate::failure::{Failure, Result};
use crate::output::Report;
use crate::settings::Session;
use crate::table::{Cell, Fit, Table};

const RELEASES_VARIABLE: &str = "INFERSTORE_RELEASES";

const VERSION: &str = env!("CARGO_PKG_VERSION");

const MAX_LIST: u64 = 1024 * 1024;
/// Longest time that a check takes, with its retries.
const CHECK_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Look for newer releases too; nothing is sent anywhere without this option
    #[arg(long)]
    pub(crate) check: bool,
    /// The list of releases, a JSON file named releases.json [env: INFERSTORE_RELEASES]
    #[arg(long, value_name = "URL", requires = "check", value_parser = NonEmptyStringValueParser::new())]
    releases: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  inferstore version
  inferstore version --format json
  inferstore version --check --releases https://host.example/inferstore/releases.json";

/// The list of releases, which `tools/release/build` writes.
#[derive(Deserialize)]
struct Releases {
    releases: Vec<Release>,
}

/// A release. Members that this version does not know are ignored.
#[derive(Deserialize, Serialize)]
struct Release {
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    date: Option<String>,
    /// The page of its files and changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

pub(crate) fn execute(_: &Arguments, session: &Session) -> Result {
    let table = Table::of_fields([("inferstore", Some(VERSION.to_owned()))]);
    session.output.report(&Report::of_one(table, json!({"version": VERSION}), VERSION))
}

/// Reports the releases above this version, the newest first.
pub(crate) async fn check(arguments: Arguments, session: &Session) -> Result {
    let given = arguments.releases.as_deref().or_else(|| session.environment.variable(RELEASES_VARIABLE));
    let Some(given) = given else {
        return Err(Failure::usage("there is no URL of releases to compare with")
            .with_hint(format!("give --releases URL, or set {RELEASES_VARIABLE} to it")));
    };
    let url = Url::parse(given).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let Some(url) = url else {
        return Err(Failure::usage("the URL of the releases is no http or https URL")
            .with_hint("such as https://host.example/inferstore/releases.json"));
    };
    let mut newer = newer(read(&url, session).await?, &url)?;
    newer.sort_by_key(|release| std::cmp::Reverse(numbers(&release.version)));
    let newest = newer.first().map_or(VERSION, |release| &release.version).to_owned();
    let mut table = Table::new([("NEWER", Fit::Keep), ("DATE", Fit::Keep), ("PAGE", Fit::Keep)]);
    for release in &newer {
        let cells = [Some(&release.version), release.date.as_ref(), release.url.as_ref()];
        table.add(cells.map(|cell| Cell::from(cell.map(String::as_str).unwrap_or_default())));
    }
    let mut report = Report::of_one(table, json!({"version": VERSION, "newer": newer}), newest);
    report.below = vec![format!("this is inferstore {VERSION}")];
    if newer.is_empty() {
        report.table = Table::default();
        report.below = vec![format!("inferstore {VERSION} is the newest release")];
    }
    session.output.report(&report)
}

/// Downloads the list, without a key.
async fn read(url: &Url, session: &Session) -> Result<Vec<u8>> {
    // Downloads of a client carry no key and call no service: this one is of none.
    let client = session.client_of("http://127.0.0.1/api/v1", "none")?;
    let download = client.download(url.as_str()).limits(|limits| {
        limits.deadline = Some(CHECK_TIMEOUT);
        limits.max_size = Some(MAX_LIST);
    });
    let content = download.bytes().await.map_err(|error| {
        let headline = format!("the releases at {} cannot be read: {}", redact_url(url), cause(&error));
        // The other codes are those of calls to a service.
        let is_reached = Failure::from(error).code != exit::NOT_REACHED;
        let code = if is_reached { exit::FAILED } else { exit::NOT_REACHED };
        Failure::new(code, headline).with_hint("check the URL, and the proxy if there is one")
    })?;
    Ok(content.to_vec())
}

/// Returns why the list was not read, without words of the object store, which other downloads come from.
fn cause(error: &Error) -> String {
    let Error::File(file) = error else { return error.to_string() };
    if let Some(status) = file.status {
        return format!("the server responded with {status}");
    }
    let sources = std::iter::successors(std::error::Error::source(file), |source| source.source());
    sources.last().map_or_else(|| file.message.clone(), ToString::to_string)
}

/// Returns the releases above this version. Pre-releases and other words are skipped.
fn newer(list: Vec<u8>, url: &Url) -> Result<Vec<Release>> {
    let unusable = |problem: String| {
        Failure::new(exit::FAILED, format!("{} is no list of releases: {problem}", redact_url(url)))
            .with_hint("the URL leads to a file such as {\"releases\": [{\"version\": \"1.2.3\"}]}")
    };
    let list: Releases = serde_json::from_slice(&list).map_err(|error| unusable(error.to_string()))?;
    if !list.releases.iter().any(|release| numbers(&release.version).is_some()) {
        return Err(unusable("it has no version such as 1.2.3".to_owned()));
    }
    let own = numbers(VERSION);
    let is_newer = |release: &Release| numbers(&release.version) > own;
    Ok(list.releases.into_iter().filter(is_newer).collect())
}

/// Returns the three numbers of a release; None for a pre-release.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let numbers: Option<Vec<u64>> = version.split('.').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// Returns a URL without credentials and query, which may be secret.
fn redact_url(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}
