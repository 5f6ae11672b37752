//! Published Arazzo flows, run with `redocly respect`, and the curl recipes of the document, against a service, unchanged.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::recipes::Recipes;
use crate::service::Service;
use crate::side_by_side;
use crate::tools::{LINTERS, Tools, absolute, must};

const PUBLISHED: &str = "target/publish";
const FOLDER: &str = "target/flows";

const DOCUMENT: &str = "inferstore.yaml";
const FLOWS: &str = "flows.arazzo.yaml";
const UPLOAD_AND_RUN: &str = "upload-and-run.arazzo.yaml";

pub(crate) const MODEL: &str = "color-extraction";

/// Model with the same input and no node, so its tasks stay queued.
const UNSERVED_MODEL: &str = "face-mesh";

const PICTURE: &str = "picture.bmp";

struct Run {
    file: &'static str,
    workflows: &'static [&'static str],
    inputs: Value,
}

/// Runs everything against a service. The recipes upload the picture of the flows.
pub(crate) fn run(root: &Path, service: &Service) -> Result<String> {
    let published = root.join(PUBLISHED);
    ensure!(published.join(DOCUMENT).is_file(), "{PUBLISHED} is missing; run `cargo xtask publish` first");
    let document = crate::read_document(&published.join(DOCUMENT))?;
    let recipes = Recipes::of(root, &document, service)?;
    let picture_url = recipes.upload()?;
    let mut report = flows(root, &published, service, &picture_url)?;
    report.push_str(&recipes.call(&picture_url)?);
    Ok(report)
}

fn flows(root: &Path, published: &Path, service: &Service, picture_url: &str) -> Result<String> {
    let folder = absolute(&root.join(FOLDER))?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut expected = BTreeSet::new();
    for name in [DOCUMENT, FLOWS, UPLOAD_AND_RUN] {
        fs::copy(published.join(name), folder.join(name)).with_context(|| format!("cannot copy {name}"))?;
        expected.extend(workflows(&crate::read_document(&published.join(name))?));
    }
    let picture = bitmap();
    fs::write(folder.join(PICTURE), &picture).with_context(|| format!("cannot write {PICTURE}"))?;
    let key = &service.api_key;
    let task_input = json!({"input": picture_url});
    let runs = [
        Run {
            file: FLOWS,
            workflows: &["declareSmallUpload", "runModel", "rejectWrongKey"],
            inputs: json!({
                "api_key": key, "name": "flow.png", "mime": "image/png", "size": 5_242_880,
                "model_id": MODEL, "task_input": task_input,
            }),
        },
        Run {
            file: FLOWS,
            workflows: &["declareLargeUpload", "cancelQueuedTask"],
            inputs: json!({
                "api_key": key, "name": "flow.mp4", "mime": "video/mp4", "size": 5_242_881,
                "model_id": UNSERVED_MODEL, "task_input": task_input,
            }),
        },
        Run {
            file: UPLOAD_AND_RUN,
            workflows: &["uploadAndRun"],
            inputs: json!({"api_key": key, "model_id": MODEL, "size": picture.len()}),
        },
    ];
    let tools = Tools::install(root, &LINTERS)?;
    let [small, large, upload] = runs.each_ref().map(|run| || run.respect(&tools, &folder, service));
    let ran = side_by_side([&small, &large, &upload]);
    let ran: BTreeSet<String> = ran?.into_iter().flatten().collect();
    ensure!(ran == expected, "published are the flows {expected:?}, but {ran:?} ran");
    Ok(format!("{} flows run as published\n", ran.len()))
}

impl Run {
    fn respect(&self, tools: &Tools<'_>, folder: &Path, service: &Service) -> Result<BTreeSet<String>> {
        let log: PathBuf = folder.join(self.workflows.join("-")).with_extension("json");
        let mut redocly = tools.node("redocly")?;
        redocly.current_dir(folder).args(["respect", self.file]).arg("--json-output").arg(&log);
        redocly.args(self.workflows.iter().flat_map(|workflow| ["--workflow", *workflow]));
        redocly.args(["--server", &format!("inferstore={}", service.base_url)]);
        redocly.env("REDOCLY_CLI_RESPECT_INPUT", self.inputs.to_string());
        must("Node.js", &mut redocly)?;
        let text = fs::read_to_string(&log).with_context(|| format!("cannot read {}", log.display()))?;
        let log: Value = serde_json::from_str(&text).context("the log of redocly respect is not JSON")?;
        ensure!(log["status"] == "success", "redocly respect ends with {}:\n{text}", log["status"]);
        Ok(names(&log["files"][self.file]["executedWorkflows"]).collect())
    }
}

fn workflows(document: &Value) -> impl Iterator<Item = String> {
    names(&document["workflows"])
}

fn names(workflows: &Value) -> impl Iterator<Item = String> {
    let workflows = workflows.as_array().into_iter().flatten();
    workflows.filter_map(|workflow| workflow["workflowId"].as_str().map(str::to_owned))
}

/// Returns a single-color BMP file of 5,760,054 bytes, above the limit of the small tier.
fn bitmap() -> Vec<u8> {
    const WIDTH: u32 = 1_600;
    const HEIGHT: u32 = 1_200;
    const HEADER: u32 = 54;
    const PIXELS: u32 = WIDTH * HEIGHT * 3;
    /// One plane of 24 bits per pixel.
    const PLANES_AND_DEPTH: u32 = 1 | 24 << 16;
    let fields =
        [HEADER + PIXELS, 0, HEADER, 40, WIDTH, HEIGHT, PLANES_AND_DEPTH, 0, PIXELS, 2_835, 2_835, 0, 0];
    let mut file = b"BM".to_vec();
    file.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
    file.resize((HEADER + PIXELS) as usize, 0x80);
    file
}
