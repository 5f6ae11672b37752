//! Runs the three OpenAPI linters over the document and its flows.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::document::{DOCUMENT, Document};
use inferstore_contract::tools::{LINTERS, Tools, output_of};

pub(crate) const REDOCLY_RULES: &str = "openapi/redocly.yaml";

const SPECTRAL_RULES: &str = "openapi/spectral.yaml";
const FLOWS: &str = "openapi/flows.arazzo.yaml";
/// Spectral does not know the extension of Redocly that this one needs.
const UPLOAD_AND_RUN: &str = "openapi/upload-and-run.arazzo.yaml";

const STAMP: &str = "target/tools/linted";

/// Runs the linters, unless they have passed the same documents by the same rules.
pub(crate) fn lint_once(root: &Path) -> Result<String> {
    let mut content = Vec::new();
    for name in [DOCUMENT, FLOWS, UPLOAD_AND_RUN, REDOCLY_RULES, SPECTRAL_RULES] {
        content.extend(fs::read(root.join(name)).with_context(|| format!("cannot read {name}"))?);
    }
    let hash = Document::hash(&content);
    let stamp = root.join(STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|passed| passed == hash) {
        return Ok("linters: passed, as before\n".to_owned());
    }
    let report = lint(root)?;
    fs::write(&stamp, hash).with_context(|| format!("cannot write {STAMP}"))?;
    Ok(report)
}

pub(crate) fn lint(root: &Path) -> Result<String> {
    let tools = Tools::install(root, &LINTERS)?;
    let spectral = ["lint", "--fail-severity=hint", "-r", SPECTRAL_RULES, DOCUMENT, FLOWS];
    let runs = [
        (
            "Redocly",
            tools
                .node("redocly")?
                .args(["lint", "--config", REDOCLY_RULES, DOCUMENT, FLOWS, UPLOAD_AND_RUN])
                .output(),
        ),
        ("Spectral", tools.node("spectral")?.args(spectral).output()),
        ("openapi-spec-validator", tools.python("openapi-spec-validator")?.arg(DOCUMENT).output()),
    ];
    let mut report = String::new();
    let mut failed = Vec::new();
    for (name, run) in runs {
        let output = run.with_context(|| format!("cannot run {name}"))?;
        if output.status.success() {
            report.push_str(&format!("{name}: passed\n"));
        } else {
            report.push_str(&format!("{name}:\n{}", output_of(&output)));
            failed.push(name);
        }
    }
    ensure!(failed.is_empty(), "{report}\n{DOCUMENT} does not pass {}", failed.join(" and "));
    Ok(report)
}
