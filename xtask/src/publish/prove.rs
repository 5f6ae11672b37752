//! Shows in a headless browser that the published pages need no network, that their search finds
//! things, and that every operation shows an example.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::validate::{items, operations};
use inferstore_contract::tools::{Set, Tools, absolute, must};

/// Drives a browser that is installed already; brings none of its own.
const BROWSER: Set<'static> = Set { name: "browser", npm: &["puppeteer-core@24.8.2"], pypi: &[] };

const CHROMIUMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

const SCRIPT: &str = "xtask/src/publish/prove.mjs";

pub(super) fn prove(root: &Path, folder: &Path, document: &Value) -> Result<String> {
    let chromium = chromium().with_context(|| {
        format!("the proof needs Chromium, and there is none of {CHROMIUMS:?} here; install chromium and try again")
    })?;
    let tools = Tools::install(root, &BROWSER)?;
    let operations = operations(document).map(|(.., operation)| {
        json!({"id": operation["operationId"], "summary": operation["summary"], "tag": operation["tags"][0]})
    });
    let task = json!({
        "browser": chromium,
        "driver": absolute(&tools.node_folder().join("node_modules/puppeteer-core"))?,
        "folder": folder,
        "pictures": absolute(&root.join("target/proof"))?,
        "tags": items(&document["tags"]).map(|tag| &tag["name"]).collect::<Vec<_>>(),
        "operations": operations.collect::<Vec<_>>(),
    });
    let proof =
        must("Node.js", tools.command("node").arg(absolute(&root.join(SCRIPT))?).arg(task.to_string()))?;
    Ok(String::from_utf8_lossy(&proof.stdout).into_owned())
}

fn chromium() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH")?).collect();
    let candidates = CHROMIUMS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates.into_iter().find(|path| path.is_file())
}
