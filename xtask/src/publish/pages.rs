//! The reference pages: one HTML file that holds all it needs and loads nothing more.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::descriptions::with_linked_decisions;
use crate::lint::REDOCLY_RULES;
use inferstore_contract::tools::{Tools, must};
use openapi_impact::Tree;

/// Redocly logos that the pages would load from outside; `NO_PICTURE` replaces them.
const LOGOS: [&str; 2] =
    ["https://cdn.redoc.ly/redoc/logo-mini-full.svg", "https://cdn.redoc.ly/redoc/logo-mini.svg"];

const NO_PICTURE: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg'/%3E";

/// Without its picture the frame around it says nothing; and a word of the API in a table is not to be broken in two.
const STYLE: &str = "<style>a[href='https://redocly.com/redoc/'] { display: none !important } \
    td code { white-space: nowrap !important }</style>";

/// Content security policy of the pages: the browser loads nothing from elsewhere, whatever Redocly requests.
const POLICY: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
    script-src 'unsafe-inline' 'unsafe-eval' blob:; worker-src blob:; style-src 'unsafe-inline'; \
    img-src data: blob:; font-src data:; connect-src blob: data:; form-action 'none'; base-uri 'none'\">";

/// A function of browsers that WebKit lacks. Redoc makes no index for its search without it.
const IDLE: &str = "<script>window.requestIdleCallback??=(work)=>setTimeout(work,1,\
    {didTimeout:false,timeRemaining:()=>50});window.cancelIdleCallback??=clearTimeout;</script>";

pub(super) fn build(tools: &Tools<'_>, document: &Tree, scratch: &Path) -> Result<String> {
    let (input, output) = (scratch.join("pages.json"), scratch.join("reference.html"));
    let text = serde_json::to_string(&for_redocly(document)).context("cannot write the document")?;
    fs::write(&input, text).context("cannot write what the pages are made of")?;
    let mut command = tools.node("redocly")?;
    command.arg("build-docs").arg(&input).arg("--output").arg(&output);
    command.args(["--inlineBundle", "--config", REDOCLY_RULES]);
    must("Node.js", &mut command)?;
    let page = fs::read_to_string(&output).context("Redocly wrote no pages")?;
    fs::remove_file(&input).context("cannot remove what the pages were made of")?;
    alone(&page)
}

fn alone(page: &str) -> Result<String> {
    let mut page = page.to_owned();
    for logo in LOGOS {
        ensure!(
            page.contains(logo),
            "the pages no longer load {logo}; look at what they load now, and at xtask/src/publish/pages.rs"
        );
        page = page.replace(logo, NO_PICTURE);
    }
    let head = page.find("<head>").context("the pages have no head")? + "<head>".len();
    page.insert_str(head, &format!("\n  {POLICY}\n  {STYLE}\n  {IDLE}"));
    Ok(page)
}

fn for_redocly(document: &Tree) -> Tree {
    with_calls(document).map(|key, value| if key == "info" { value.clone() } else { with_links(value) })
}

fn with_links(value: &Tree) -> Tree {
    match value.as_str() {
        Some(text) => Tree::text(with_linked_decisions(text, "#section/Our-decision")),
        None => value.map(|_, value| with_links(value)),
    }
}

/// The document with a sample call in each description of an operation: Redocly shows no samples elsewhere.
fn with_calls(document: &Tree) -> Tree {
    let sample = document["x-codeSamples"].items().first().and_then(|sample| sample["source"].as_str());
    document.map(|key, value| match (key, value.as_str(), sample) {
        ("description", Some(description), Some(sample)) => {
            Tree::text(format!("{description}\n\n```sh\n{}\n```\n", sample.trim_end()))
        }
        _ => with_calls(value),
    })
}
