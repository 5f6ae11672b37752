//! The corpus as single callers see it: five of each base document, each of three operations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use openapi_impact::{Change, Severity, Tree, Uses, compare};
use serde_json::Value;

use super::{Corpus, FOLDER, ROOT};

const CONSUMERS: [(&str, &str); 10] = [
    ("published", "client none\ngetModelCost\ncreateTask\ngetTask"),
    ("published", "client openapi-typescript\nlistModels\ngetModel\ngetModelVersioning"),
    ("published", "client Go\ncreatePresignedUpload\ncreateTask\ngetTask"),
    ("published", "client openapi-python-client\nlistTasks\ngetTask\ncancelTask"),
    ("published", "client progenitor\ngetBalance\nlistFiles\ndeleteFile"),
    ("prints", "client none\ncreatePrint\ngetPrint\ngetUsage"),
    ("prints", "client openapi-typescript\nlistPrints\ngetPrint\ngetUsage"),
    ("prints", "client Go\nlistPrints\ngetPrint\ncancelPrint"),
    ("prints", "client openapi-python-client\ncreatePrint\ngetPrint\ncancelPrint"),
    ("prints", "client progenitor\nlistPrints\ncancelPrint\ngetUsage"),
];

/// Operations that `oasdiff breaking` reports on each pair; a report without an operation has an empty name.
type Reports = BTreeMap<String, Vec<String>>;

pub(super) fn recorded() -> Result<Reports> {
    let path = Path::new(ROOT).join(FOLDER).join("oasdiff.json");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("cannot read {}", path.display()))
}

pub(super) fn reported(json: &[u8]) -> Result<Vec<String>> {
    let report: Value =
        if json.trim_ascii().is_empty() { Value::Null } else { serde_json::from_slice(json)? };
    let breaking =
        report.as_array().into_iter().flatten().filter(|change| change["level"].as_u64() >= Some(2));
    Ok(breaking.map(|change| change["operationId"].as_str().unwrap_or_default().to_owned()).collect())
}

fn restricted(document: &Tree, is_kept: impl Fn(&str) -> bool) -> Result<Tree> {
    let mut document = serde_json::to_value(document)?;
    for item in document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut()) {
        let item = item.as_object_mut().context("a path is an object")?;
        item.retain(|_, operation| operation["operationId"].as_str().is_none_or(&is_kept));
    }
    Ok(document.into())
}

fn expected(old: &Tree, new: &Tree, uses: &Uses) -> Result<Vec<Change>> {
    let is_used = |id: &str| uses.operations().any(|used| used == id);
    // In the new document an operation may have another name.
    let is_known = |id: &str| old["paths"].members().any(|(_, item)| has(item, id));
    let old = restricted(old, is_used)?;
    let new = restricted(new, |id| is_used(id) || !is_known(id))?;
    let changes = compare(&old, &new).list.into_iter();
    let breaks = |change: &Change| {
        change.severity == Severity::Breaking && change.operation.as_deref().is_some_and(is_used)
    };
    Ok(changes.filter(breaks).collect())
}

fn has(path_item: &Tree, id: &str) -> bool {
    path_item.members().any(|(_, operation)| operation["operationId"].as_str() == Some(id))
}

#[test]
fn a_caller_of_three_operations_misses_nothing_and_reads_little() -> Result<()> {
    let corpus = Corpus::load()?;
    let bases = corpus.bases()?;
    let recorded = recorded()?;
    let (mut theirs, mut ours) = (0, 0);
    let mut missed = Vec::new();
    for pair in &corpus.pairs {
        let (old, new) = pair.documents(&bases)?;
        let changes = compare(&old, &new);
        let reports = recorded.get(&pair.id).map(Vec::as_slice).unwrap_or_default();
        for (_, text) in CONSUMERS.iter().filter(|(base, _)| *base == pair.base) {
            let Ok(uses) = Uses::parse(text, &old) else { continue };
            let any_client = Uses::parse(text.split_once('\n').map_or(*text, |(_, rest)| rest), &old)?;
            theirs += reports.len();
            let list = changes.for_caller(&uses, &old, &new).list;
            ours +=
                list.iter().map(|change| (&change.pointer, &change.message)).collect::<BTreeSet<_>>().len();
            let found = changes.for_caller(&any_client, &old, &new).list;
            for change in expected(&old, &new, &any_client)? {
                let is_same =
                    |other: &Change| (&other.pointer, &other.message) == (&change.pointer, &change.message);
                if !found.iter().any(is_same) {
                    missed.push(format!("{}: {}: {}", pair.id, change.pointer, change.message));
                }
            }
            let is_reported = reports.iter().any(|operation| uses.operations().any(|used| used == operation));
            if is_reported && found.is_empty() && pair.because.is_none() {
                missed.push(format!("{}: oasdiff reports {reports:?}, and we nothing for {text:?}", pair.id));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    let counts = format!("{ours} reports, {theirs} of oasdiff");
    assert!(ours * 100 <= theirs * 40, "{counts}");
    Ok(())
}
