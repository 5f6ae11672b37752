//! Published collections of Postman and Bruno: `newman` and `bru` send every request to a service.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::SERVE;
use crate::examples::PHOTO;
use crate::service::Service;
use crate::tools::{Set, Tools, absolute, must};

pub(crate) const NAME: &str = "collections";

const PROGRAMS: Set<'static> =
    Set { name: "collections", npm: &["newman@6.2.2", "@usebruno/cli@4.1.0"], pypi: &[] };

const PUBLISHED: &str = "target/publish";
const WORK: &str = "target/collections";
const POSTMAN: &str = "postman_collection.json";
const BRUNO: &str = "bruno";

pub(crate) fn run(root: &Path) -> Result<String> {
    let published = absolute(&root.join(PUBLISHED))?;
    let collection = published.join(POSTMAN);
    let text = fs::read_to_string(&collection)
        .with_context(|| format!("{} is missing; run `cargo xtask publish` first", collection.display()))?;
    let collection: Value = serde_json::from_str(&text).context("the collection of Postman is not JSON")?;
    let expected = texts(&collection["item"], "/name");
    let work = absolute(&root.join(WORK))?;
    let folder = work.join(BRUNO);
    if work.exists() {
        fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    }
    crate::consumers::copy(&published.join(BRUNO), &folder)?;
    fs::write(folder.join(POSTMAN), text).context("cannot copy the collection of Postman")?;
    let size = fs::copy(root.join(PHOTO), folder.join("photo.png")).context("cannot copy the picture")?;

    let service = Service::start(&SERVE)?;
    let variables = [
        format!("base_url={}", service.base_url),
        format!("api_key={}", service.api_key),
        format!("size={size}"),
    ];
    let tools = Tools::install(root, &PROGRAMS)?;
    let results = ["postman.json", "bruno.json"].map(|name| work.join(name));
    let newman = ["run", POSTMAN, "--reporters", "json", "--reporter-json-export"];
    let bru = ["run", "--reporter-json"];
    for (program, options, result, names) in [
        ("newman", newman.as_slice(), &results[0], ("/run/executions", "/item/name")),
        ("bru", bru.as_slice(), &results[1], ("/0/results", "/name")),
    ] {
        let mut command = tools.node(program)?;
        command.current_dir(&folder).args(options).arg(result);
        must("Node.js", command.args(variables.iter().flat_map(|variable| ["--env-var", variable])))?;
        let report = fs::read_to_string(result).with_context(|| format!("{program} writes no report"))?;
        let report: Value = serde_json::from_str(&report).context("a report is not JSON")?;
        let sent = texts(report.pointer(names.0).unwrap_or_default(), names.1);
        ensure!(sent == expected, "{program} sends {sent:?} instead of {expected:?}");
    }
    Ok(format!("{} requests pass in the collections of Postman and Bruno\n", expected.len()))
}

fn texts(list: &Value, pointer: &str) -> BTreeSet<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| item.pointer(pointer)?.as_str().map(str::to_owned)).collect()
}
