//! Curl recipes of the document: runs every shell sample and every shell block of a tag as printed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::service::Service;
use crate::tools::{absolute, must};

const FOLDER: &str = "target/recipes";

const PHOTO: &str = "photo.png";
const VIDEO: &str = "video.mp4";
const PHOTO_SOURCE: &str = "crates/cli/demo/hazy.png";
const VIDEO_SIZE: usize = 5_242_881;

/// Arguments in every block, one of each list, and values with characters that are special in curl, jq or a form.
const SPECIAL_NAMES: [(&str, &str); 2] = [
    ("--arg name photo.png", r#"--arg name 'a; "b" \ [1]{c} @<é&.png'"#),
    ("--arg name video.mp4", r#"--arg name 'a; "b" \ [1]{c} @<é&.mp4'"#),
];
const SPECIAL_TYPES: [(&str, &str); 2] = [
    ("--arg mime image/png", r#"--arg mime 'image/png; a="b\"c"'"#),
    ("--arg mime video/mp4", r#"--arg mime 'video/mp4; a="b\"c"'"#),
];

/// Creates a task that stays queued: no node serves this model.
const QUEUE_TASK: &str = r#"
curl -sS --fail-with-body "$BASE_URL/api-key/model/face-mesh/task" -H "x-api-key: $API_KEY" \
  -H "content-type: application/json" -d "{\"input\": \"$FILE_URL\"}"
"#;

const MAKE_KEY: &str = r#"
curl -sS --fail-with-body "$BASE_URL/api-key/keys" -H "x-api-key: $API_KEY" \
  -H "content-type: application/json" -d '{"name": "to be revoked"}'
"#;

/// Last operation: it deletes the file that other samples use as an input.
const LAST: &str = "deleteFile";

pub(crate) struct Recipes<'a> {
    service: &'a Service,
    folder: PathBuf,
    blocks: Vec<Recipe>,
    samples: Vec<Recipe>,
}

struct Recipe {
    name: String,
    script: String,
}

impl Recipe {
    fn with_special_characters(&self) -> Result<Self> {
        let mut script = self.script.clone();
        for arguments in [SPECIAL_NAMES, SPECIAL_TYPES] {
            let declared = arguments.into_iter().find(|(printed, _)| script.contains(printed));
            let (printed, special) = declared.with_context(|| {
                format!("{} has none of {:?}", self.name, arguments.map(|(printed, _)| printed))
            })?;
            script = script.replace(printed, special);
        }
        Ok(Self { name: format!("{}, with special characters,", self.name), script })
    }
}

impl<'a> Recipes<'a> {
    pub(crate) fn of(root: &Path, document: &Value, service: &'a Service) -> Result<Self> {
        let folder = absolute(&root.join(FOLDER))?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        fs::copy(root.join(PHOTO_SOURCE), folder.join(PHOTO)).context("cannot copy the picture")?;
        fs::write(folder.join(VIDEO), vec![0; VIDEO_SIZE]).context("cannot write the video")?;
        let blocks = blocks(document);
        let samples = samples(document)?;
        Ok(Self { service, folder, blocks, samples })
    }

    /// Runs the blocks of the tags, as printed and with special characters. Returns the URL of the picture.
    pub(crate) fn upload(&self) -> Result<String> {
        let mut picture = None;
        for block in &self.blocks {
            let output = self.shell(block, &[])?;
            let Some(file) = [PHOTO, VIDEO].into_iter().find(|file| block.script.contains(file)) else {
                continue;
            };
            let url = self.compare(block, file, &output)?;
            if file == PHOTO {
                picture = Some(url);
            }
            let special = block.with_special_characters()?;
            self.compare(&special, file, &self.shell(&special, &[])?)?;
        }
        picture.with_context(|| format!("no shell block of a tag uploads {PHOTO}"))
    }

    /// Runs the samples of the operations on an uploaded file. Deletes the file.
    pub(crate) fn call(&self, file_url: &str) -> Result<String> {
        let queue = Recipe { name: "a queued task".to_owned(), script: QUEUE_TASK.to_owned() };
        let created = succeeded(&queue, &self.shell(&queue, &[("FILE_URL", file_url)])?)?;
        let task = created["data"]["data"].as_str().context("no task was created")?;
        let make = Recipe { name: "a new key".to_owned(), script: MAKE_KEY.to_owned() };
        let made = succeeded(&make, &self.shell(&make, &[])?)?;
        let key = made["data"]["id"].as_str().context("no key was made")?;
        for sample in &self.samples {
            let output = self.shell(sample, &[("FILE_URL", file_url), ("TASK_ID", task), ("KEY_ID", key)])?;
            succeeded(sample, &output)?;
        }
        let (samples, blocks) = (self.samples.len(), self.blocks.len());
        Ok(format!("{samples} curl samples and {blocks} shell blocks run as printed\n"))
    }

    fn compare(&self, block: &Recipe, file: &str, output: &str) -> Result<String> {
        let url = output.trim_end().lines().last().unwrap_or_default().to_owned();
        let mut curl = Command::new("curl");
        let stored = must("curl", curl.args(["-sS", "--fail", &url]))
            .with_context(|| format!("{} stores no {file}", block.name))?;
        let sent = fs::read(self.folder.join(file)).with_context(|| format!("cannot read {file}"))?;
        ensure!(stored.stdout == sent, "{} stores {file} with other bytes", block.name);
        Ok(url)
    }

    /// Returns the standard output of a recipe. An unset variable is a failure.
    fn shell(&self, recipe: &Recipe, variables: &[(&str, &str)]) -> Result<String> {
        let mut shell = Command::new("sh");
        shell.args(["-eu", "-c", &recipe.script]).current_dir(&self.folder);
        shell.envs(variables.iter().copied());
        let output = must("a shell with curl and jq", self.service.connect(&mut shell))
            .with_context(|| format!("the shell recipe of {} fails", recipe.name))?;
        String::from_utf8(output.stdout).with_context(|| format!("{} prints no text", recipe.name))
    }
}

fn succeeded(recipe: &Recipe, output: &str) -> Result<Value> {
    let response: Value = serde_json::from_str(output)
        .with_context(|| format!("the shell recipe of {} prints no JSON: {output:?}", recipe.name))?;
    ensure!(response["status"] == "success", "the shell recipe of {} prints {output}", recipe.name);
    Ok(response)
}

fn blocks(document: &Value) -> Vec<Recipe> {
    let tags = document["tags"].as_array().into_iter().flatten();
    tags.flat_map(|tag| {
        let name = format!("the tag {}", tag["name"].as_str().unwrap_or_default());
        let description = tag["description"].as_str().unwrap_or_default();
        let fenced = description.split("```sh\n").skip(1).filter_map(|text| text.split("```").next());
        fenced.map(move |script| Recipe { name: name.clone(), script: script.to_owned() })
    })
    .collect()
}

fn samples(document: &Value) -> Result<Vec<Recipe>> {
    let mut samples = Vec::new();
    let paths = document["paths"].as_object().context("the document has no paths")?;
    let operations = paths.values().filter_map(Value::as_object).flat_map(|path| path.values());
    for operation in operations {
        let Some(name) = operation["operationId"].as_str() else { continue };
        let printed = operation["x-codeSamples"].as_array().into_iter().flatten();
        let scripts: Vec<&str> = printed
            .filter(|sample| sample["lang"] == "Shell")
            .filter_map(|sample| sample["source"].as_str())
            .collect();
        if scripts.is_empty() {
            bail!("{name} has no x-codeSamples for the shell");
        }
        samples.extend(
            scripts.into_iter().map(|script| Recipe { name: name.to_owned(), script: script.to_owned() }),
        );
    }
    samples.sort_by_key(|sample| sample.name == LAST);
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recipes_are_found_as_printed() -> Result<()> {
        let sample = |text: &str| json!([{"lang": "Shell", "source": text}, {"lang": "C", "source": "no"}]);
        let document = json!({
            "tags": [
                {"name": "Account"},
                {"name": "Storage", "description": "One:\n\n```sh\none \\\n  two\n```\n\nTwo:\n\n```sh\nthree\n```\n"},
            ],
            "paths": {
                "/a": {"delete": {"operationId": "deleteFile", "x-codeSamples": sample("curl a")}},
                "/b": {"parameters": [], "get": {"operationId": "getB", "x-codeSamples": sample("curl b")}},
            },
        });
        let scripts = |recipes: Vec<Recipe>| -> Vec<(String, String)> {
            recipes.into_iter().map(|recipe| (recipe.name, recipe.script)).collect()
        };
        let tag = "the tag Storage".to_owned();
        let expected = [(tag.clone(), "one \\\n  two\n".to_owned()), (tag, "three\n".to_owned())];
        assert_eq!(scripts(blocks(&document)), expected);
        let expected = [("getB", "curl b"), ("deleteFile", "curl a")];
        let found = scripts(samples(&document)?);
        assert_eq!(found, expected.map(|(name, script)| (name.to_owned(), script.to_owned())));
        Ok(())
    }

    #[test]
    fn an_operation_without_a_sample_is_an_error() {
        let document = json!({"paths": {"/a": {"get": {"operationId": "getA"}}}});
        assert!(samples(&document).is_err());
    }

    #[test]
    fn special_characters_replace_the_name_and_the_type() -> Result<()> {
        let recipe = |script: &str| Recipe { name: "the tag Storage".to_owned(), script: script.to_owned() };
        let special = recipe("jq -n --arg name photo.png --arg mime image/png").with_special_characters()?;
        assert!(special.script.contains("é&.png") && special.script.contains("image/png; a="));
        assert!(
            recipe("jq -n --arg name photo.png --arg mime image/webp").with_special_characters().is_err()
        );
        assert!(recipe("jq -n --arg name other.png --arg mime image/png").with_special_characters().is_err());
        Ok(())
    }

    #[test]
    fn a_failure_body_is_no_success() {
        let recipe = Recipe { name: "getA".to_owned(), script: String::new() };
        assert!(succeeded(&recipe, r#"{"status": "success"}"#).is_ok());
        assert!(succeeded(&recipe, r#"{"status": "fail", "message": "no"}"#).is_err());
        assert!(succeeded(&recipe, "").is_err());
    }
}
