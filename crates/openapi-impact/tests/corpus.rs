//! The corpus of changes: each with our verdict, that of oasdiff, and the reason where they differ.

#[path = "corpus/consumers.rs"]
mod consumers;
#[path = "corpus/edit.rs"]
mod edit;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use edit::Edit;

use openapi_impact::{Changes, Severity, Tree, compare};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const FOLDER: &str = "crates/openapi-impact/tests/corpus";
const OASDIFF: &str = "OASDIFF";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Corpus {
    bases: BTreeMap<String, PathBuf>,
    pairs: Vec<Pair>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    id: String,
    change: String,
    base: String,
    #[serde(default)]
    before: Vec<Edit>,
    edit: Vec<Edit>,
    ours: Verdict,
    /// All clients that are named by some change, without those that every change breaks.
    #[serde(default)]
    breaks: BTreeSet<String>,
    oasdiff: Level,
    /// Why the verdicts differ; there if and only if they do.
    because: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    None,
    Docs,
    Compatible,
    Breaking,
}

/// The highest level that `oasdiff changelog` reports. `oasdiff breaking` prints errors and warnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    None,
    Info,
    Warn,
    Err,
    Fails,
}

impl From<Option<Severity>> for Verdict {
    fn from(severity: Option<Severity>) -> Self {
        match severity {
            None => Self::None,
            Some(Severity::Docs) => Self::Docs,
            Some(Severity::Compatible) => Self::Compatible,
            Some(Severity::Breaking) => Self::Breaking,
        }
    }
}

/// Reads a file of the repository.
fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(Path::new(ROOT).join(path));
    let parsed = serde_saphyr::from_str(&text.with_context(|| format!("cannot read {}", path.display()))?);
    parsed.with_context(|| format!("cannot read {}", path.display()))
}

impl Corpus {
    fn load() -> Result<Self> {
        read(&Path::new(FOLDER).join("changes.yaml"))
    }

    fn bases(&self) -> Result<BTreeMap<&str, Tree>> {
        self.bases.iter().map(|(name, path)| Ok((name.as_str(), read(path)?))).collect()
    }
}

impl Pair {
    fn documents(&self, bases: &BTreeMap<&str, Tree>) -> Result<(Tree, Tree)> {
        let base =
            bases.get(self.base.as_str()).with_context(|| format!("there is no base {}", self.base))?;
        let edited = |document: &Tree, edits: &[Edit]| {
            let mut document = document.clone();
            for edit in edits {
                edit.apply(&mut document).with_context(|| self.id.clone())?;
            }
            Ok::<_, anyhow::Error>(document)
        };
        let old = edited(base, &self.before)?;
        let new = edited(&old, &self.edit)?;
        Ok((old, new))
    }
}

impl Pair {
    fn judge(&self, changes: &Changes) -> (Verdict, BTreeSet<String>) {
        let clients = changes.list.iter().flat_map(|change| &change.breaks);
        (changes.verdict().into(), clients.map(ToString::to_string).collect())
    }

    fn mistake(&self, changes: &Changes, oasdiff: Level) -> Option<String> {
        let (verdict, breaks) = self.judge(changes);
        if (verdict, &breaks, oasdiff) == (self.ours, &self.breaks, self.oasdiff) {
            return None;
        }
        let reasons =
            changes.list.iter().map(|change| format!("\n    {}: {}", change.pointer, change.message));
        Some(format!(
            "{} ({}) is {verdict:?}, not {:?}; breaks {breaks:?}, not {:?}; oasdiff says {oasdiff:?}, not {:?}{}\n",
            self.id,
            self.change,
            self.ours,
            self.breaks,
            self.oasdiff,
            reasons.collect::<String>()
        ))
    }
}

#[test]
#[ignore = "needs oasdiff; `cargo xtask diff --corpus` installs it"]
fn the_verdicts_of_oasdiff_are_the_recorded_ones() -> Result<()> {
    let program = std::env::var_os(OASDIFF).context("OASDIFF has to be the path of the program")?;
    let corpus = Corpus::load()?;
    let bases = corpus.bases()?;
    let recorded = consumers::recorded()?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus");
    fs::create_dir_all(&folder)?;
    let mistake = |pair: &Pair| -> Result<Option<String>> {
        let (old, new) = pair.documents(&bases)?;
        let mut oasdiff = Command::new(&program);
        oasdiff.args(["changelog", "--format", "json"]);
        for (name, document) in [("old", &old), ("new", &new)] {
            let path = folder.join(format!("{}.{name}.json", pair.id));
            fs::write(&path, serde_json::to_vec(document)?)?;
            oasdiff.arg(path);
        }
        let output = oasdiff.output().context("cannot run oasdiff")?;
        let level = if output.status.success() { level(&output.stdout)? } else { Level::Fails };
        let mut mistake = pair.mistake(&compare(&old, &new), level);
        let reported = if level == Level::Fails { Vec::new() } else { consumers::reported(&output.stdout)? };
        if reported != recorded.get(&pair.id).cloned().unwrap_or_default() {
            let text = format!("{}: oasdiff.json has other reports than {reported:?}\n", pair.id);
            mistake.get_or_insert_default().push_str(&text);
        }
        Ok(mistake)
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let chunks = corpus.pairs.chunks(corpus.pairs.len().div_ceil(workers).max(1));
    let mistakes_of = |pairs: &[Pair]| -> Result<String> {
        pairs.iter().filter_map(|pair| mistake(pair).transpose()).collect()
    };
    let mistakes = thread::scope(|scope| -> Result<String> {
        let workers: Vec<_> = chunks.map(|chunk| scope.spawn(|| mistakes_of(chunk))).collect();
        let results = workers.into_iter().map(|worker| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        results.collect()
    })?;
    assert!(mistakes.is_empty(), "verdicts that are not as recorded in {FOLDER}:\n{mistakes}");
    Ok(())
}

fn level(json: &[u8]) -> Result<Level> {
    let report: Value =
        if json.trim_ascii().is_empty() { Value::Null } else { serde_json::from_slice(json)? };
    let changes = report.as_array().into_iter().flatten();
    let highest = changes.filter_map(|change| change["level"].as_u64()).max();
    Ok(match highest.unwrap_or(0) {
        0 => Level::None,
        1 => Level::Info,
        2 => Level::Warn,
        _ => Level::Err,
    })
}

impl Verdict {
    fn agrees_with(self, level: Level) -> bool {
        match self {
            Self::None | Self::Docs => level == Level::None,
            Self::Compatible => level == Level::Info,
            Self::Breaking => matches!(level, Level::Warn | Level::Err),
        }
    }
}

#[test]
fn every_verdict_is_the_recorded_one_and_says_where_and_why() -> Result<()> {
    let corpus = Corpus::load()?;
    let bases = corpus.bases()?;
    let mut mistakes = String::new();
    for pair in &corpus.pairs {
        let (old, new) = pair.documents(&bases)?;
        let changes = compare(&old, &new);
        mistakes.extend(pair.mistake(&changes, pair.oasdiff));
        for change in &changes.list {
            let is_explained = change.severity != Severity::Breaking || change.message.contains(": ");
            assert!(is_explained, "{}: what breaks? {}", pair.id, change.message);
            let pointer = change.pointer.to_string();
            let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
            let is_there = [&old, &new].iter().any(|document| document.pointer(parent).is_some());
            assert!(is_there, "{}: there is no {pointer}", pair.id);
        }
    }
    assert!(mistakes.is_empty(), "{mistakes}");
    Ok(())
}

#[test]
fn every_pair_has_its_own_name_and_a_reason_where_oasdiff_differs() -> Result<()> {
    let corpus = Corpus::load()?;
    assert!(corpus.pairs.len() >= 130, "{} pairs", corpus.pairs.len());
    let mut ids = BTreeSet::new();
    for pair in &corpus.pairs {
        assert!(ids.insert(&pair.id), "{} is there twice", pair.id);
        assert_eq!(pair.ours.agrees_with(pair.oasdiff), pair.because.is_none(), "{}", pair.id);
    }
    Ok(())
}
