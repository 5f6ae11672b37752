//! The texts of a publication in Markdown: README, reference, and the overview for language models.

use anyhow::{Context, Result};
use inferstore_contract::examples::{EXAMPLES, Example};
use openapi_impact::{METHODS, Tree};

use crate::descriptions::with_linked_decisions;
use crate::links::links;

const SECTIONS: [&str; 2] = ["## Start in your language", "## Breaking changes"];

pub(super) fn readme(of_repository: &str, version: &str) -> Result<String> {
    let mut text = format!(
        "# Inferstore API {version}\n\nOpen `index.html`, or begin here. `inferstore.yaml` is the whole API; nothing else is needed \
         to call it.\n"
    );
    for title in SECTIONS {
        let (_, section) = of_repository
            .split_once(&format!("\n{title}\n"))
            .with_context(|| format!("openapi/README.md has no section {title:?}"))?;
        let section = section.split("\n## ").next().unwrap_or_default();
        text.push_str(&format!("\n{title}\n{}\n", section.trim_end()));
    }
    // The rules are of the repository alone.
    let text = text.split("\nThe rules are in `crates/").next().unwrap_or_default().trim_end();
    Ok(text.replace("](../docs/", "](") + "\n")
}

pub(super) fn without_dead_links(text: &str, is_published: impl Fn(&str) -> bool) -> String {
    let mut kept = text.to_owned();
    // The last link is replaced first, so that the ranges of the others stay valid.
    for (range, target) in links(text).into_iter().rev() {
        let file = target.split('#').next().unwrap_or_default();
        let link = &text[range.clone()];
        if !file.is_empty()
            && !is_published(file)
            && let Some(end) = link.rfind("](")
        {
            kept.replace_range(range, link[..end].trim_start_matches(['!', '[']));
        }
    }
    kept
}

pub(super) fn reference(document: &Tree, version: &str) -> String {
    let mut text = String::new();
    for tag in document["tags"].items() {
        text.push_str(&format!(
            "\n## {}\n\n{}\n",
            tag["name"].as_str().unwrap_or_default(),
            description(tag)
        ));
        for (path, item) in document["paths"].members() {
            let operations = item.members().filter(|(method, _)| METHODS.contains(method));
            for (method, operation) in operations
                .filter(|(_, operation)| operation["tags"].items().iter().any(|name| *name == tag["name"]))
            {
                let summary = operation["summary"].as_str().unwrap_or_default();
                let id = operation["operationId"].as_str().unwrap_or_default();
                let call = format!("`{} {path}` (`{id}`)", method.to_uppercase());
                text.push_str(&format!("\n### {summary}\n\n{call}\n\n{}\n", description(operation)));
                for sample in operation["x-codeSamples"].items() {
                    let source = sample["source"].as_str().unwrap_or_default().trim();
                    text.push_str(&format!("\n```sh\n{source}\n```\n"));
                }
            }
        }
    }
    let text = with_linked_decisions(&text, "#our-decision");
    format!("# Inferstore API {version}\n\n{}\n{text}", description(&document["info"]))
}

fn description(node: &Tree) -> &str {
    node["description"].as_str().unwrap_or_default().trim()
}

pub(super) fn llms(document: &Tree, version: &str) -> String {
    let examples: String = EXAMPLES
        .iter()
        .map(|Example { file, language, .. }| format!("- [{language}](examples/{file})\n"))
        .collect();
    let about = description(&document["info"]).split("\n\n").next().unwrap_or_default().replace('\n', " ");
    format!(
        "# Inferstore API {version}\n\n> {about}\n\n\
         Every call carries the header `x-api-key`. A run: `createPresignedUpload`, send the bytes to object storage without \
         the key, `createTask` with a random `Idempotency-Key`, `getTask` until the status is terminal. In Python and \
         TypeScript, the packages in `sdk` of the repository do all of that.\n\n\
         ## Documents\n\n\
         - [OpenAPI 3.0.3](inferstore.yaml): the whole API\n\
         - [Reference](reference.md): every operation, in Markdown\n\
         - [README](README.md): first steps, and what counts as breaking\n\
         - [Run a model](run.md): the same run in nine languages\n\
         - [Changelog](changelog.md): what changed, and whom it breaks\n\
         - [Requests for Postman](postman_collection.json), and for Bruno in the folder `bruno`\n\
         - [Model kinds](kinds.json): the JSON Schemas of the inputs and outputs\n\
         - [A lost response](safe-creates.md): what sending again does\n\
         - [Controls](controls.md): a service for tests that fails on purpose\n\n\
         ## Examples\n\n{examples}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_readme_has_the_sections_for_readers() -> Result<()> {
        let text = "# A\n\n## Start in your language\n\nSee [c](../docs/controls.md).\n\n## Change\n\nNo.\n\n## Breaking changes\n\nYes.\n\nThe rules are in `crates/x`.\n";
        let readme = readme(text, "2.0.0")?;
        assert!(readme.ends_with("See [c](controls.md).\n\n## Breaking changes\n\nYes.\n"), "{readme}");
        assert!(super::readme("# A\n", "2.0.0").is_err());
        Ok(())
    }

    #[test]
    fn a_link_to_what_is_not_published_is_its_words_alone() {
        let text = "[a](a.md#b), [a `b`](../x/y.md), ![p](p.png) [w](https://w.example/), [h](#h) a[0](1)\n";
        let without = without_dead_links(text, |file| file == "a.md" || file == "p.png");
        assert_eq!(without, "[a](a.md#b), a `b`, ![p](p.png) [w](https://w.example/), [h](#h) a0\n");
    }

    #[test]
    fn the_reference_has_each_operation_under_its_tag() {
        let operation = json!({
            "operationId": "getA", "tags": ["T"], "summary": "Read A", "description": "It reads. † Twice.",
            "x-codeSamples": [{"source": "curl a\n"}],
        });
        let document = json!({
            "info": {"description": "An API."}, "tags": [{"name": "T", "description": "About."}],
            "paths": {"/a": {"parameters": [], "get": operation}},
        });
        let text = reference(&Tree::from(document), "2.0.0");
        assert!(
            text.ends_with(
                "## T\n\nAbout.\n\n### Read A\n\n`GET /a` (`getA`)\n\nIt reads. [†](#our-decision \"Our decision\") Twice.\n\n```sh\ncurl a\n```\n"
            ),
            "{text}"
        );
    }
}
