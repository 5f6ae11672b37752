//! HTML pages of the Markdown files of a publication, with one menu, copy buttons and filters.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use pulldown_cmark::{Event, Options, Parser, Tag, html};

use crate::links::with_anchors;
use inferstore_contract::examples::{EXAMPLES, Example, FOLDER};

const PAGE: &str = include_str!("guide.html");

const MENU: [(&str, &str); 8] = [
    ("README", "Start"),
    ("run", "Run a model"),
    ("safe-creates", "A lost response"),
    ("testing", "Test your program"),
    ("controls", "Faults"),
    ("changelog", "Changelog"),
    ("generators", "Generators"),
    ("reference", "Reference"),
];

/// Languages with a package: the page whose first program runs a model, and the mark of its code.
const PACKAGES: [(&str, &str, &str); 2] =
    [("Python", "sdk/python/README.md", "python"), ("TypeScript", "sdk/typescript/README.md", "ts")];

pub(super) fn run(read: impl Fn(&str) -> Result<String>) -> Result<String> {
    let mut text = "# Run a model on a picture\n\nThe same run in each language: upload a picture, create one task even when a \
        response is lost, wait for it, download the result. Python and TypeScript have a package; the others need an HTTP library \
        alone. The address, which ends in `/api/v1`, and the key are in the environment.\n"
        .to_owned();
    for (language, page, mark) in PACKAGES {
        let page_text = read(page)?;
        let (_, program) = page_text
            .split_once(&format!("```{mark}\n"))
            .with_context(|| format!("{page} has no program in {mark}"))?;
        let program = program.split("\n```").next().unwrap_or_default();
        text.push_str(&format!("\n## {language}\n\n```{mark}\n{program}\n```\n"));
    }
    for Example { file, language, .. } in &EXAMPLES {
        let program = read(&format!("{FOLDER}/{file}"))?;
        text.push_str(&format!(
            "\n## {language}\n\n[`{file}`](examples/{file})\n\n````text\n{}\n````\n",
            program.trim_end()
        ));
    }
    Ok(text)
}

pub(super) fn pages(
    files: &BTreeMap<String, String>,
    version: &str,
    older: &[String],
) -> BTreeMap<String, String> {
    let markdown = MENU.iter().filter_map(|(name, _)| Some((*name, files.get(&format!("{name}.md"))?)));
    markdown
        .filter(|(name, _)| !files.contains_key(&format!("{name}.html")))
        .map(|(name, text)| (format!("{name}.html"), page(name, text, version, older)))
        .collect()
}

fn page(name: &str, markdown: &str, version: &str, older: &[String]) -> String {
    let title = markdown.lines().next().unwrap_or_default().trim_start_matches("# ");
    let link = |(entry, title): &(&str, &str)| {
        let current = if *entry == name { " aria-current=\"page\"" } else { "" };
        format!("<a href=\"{entry}.html\"{current}>{title}</a>")
    };
    let older = older.iter().map(|version| format!("<a href=\"versions/{version}.yaml\">{version}</a>"));
    PAGE.replace("{{title}}", title)
        .replace("{{version}}", version)
        .replace("{{menu}}", &MENU.iter().map(link).collect::<Vec<_>>().join("\n    "))
        .replace("{{older}}", &older.collect::<Vec<_>>().join(", "))
        .replace("{{content}}", &content(markdown))
}

fn content(markdown: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
    let mut text = String::new();
    html::push_html(&mut text, with_anchors(Parser::new_ext(markdown, options).map(linked)).into_iter());
    text
}

fn linked(event: Event<'_>) -> Event<'_> {
    let Event::Start(Tag::Link { link_type, dest_url, title, id }) = event else { return event };
    let (file, anchor) = dest_url.split_once('#').map_or((&*dest_url, ""), |(file, anchor)| (file, anchor));
    let is_page = MENU.iter().any(|(name, _)| file.strip_suffix(".md") == Some(name));
    let dest_url = match (is_page, anchor) {
        (false, _) => dest_url,
        (true, "") => file.replace(".md", ".html").into(),
        (true, anchor) => format!("{}#{anchor}", file.replace(".md", ".html")).into(),
    };
    Event::Start(Tag::Link { link_type, dest_url, title, id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_menu_its_anchors_and_links_to_pages() {
        let text = "# A lost response\n\n## The `rule` of the service\n\n## The rule of the service\n\n[faults](controls.md#all), [a](x.md)\n\n| a |\n|---|\n| <b |\n";
        let files = BTreeMap::from([("safe-creates.md".to_owned(), text.to_owned())]);
        let pages = pages(&files, "2.0.0", &["1.0.0".to_owned()]);
        let page = &pages["safe-creates.html"];
        for part in [
            "<title>A lost response",
            "<a href=\"safe-creates.html\" aria-current=\"page\">",
            "<h2 id=\"the-rule-of-the-service\">",
            "<h2 id=\"the-rule-of-the-service-1\">",
            "<a href=\"controls.html#all\">faults</a>, <a href=\"x.md\">a</a>",
            "<td>&lt;b</td>",
            "<a href=\"versions/1.0.0.yaml\">1.0.0</a>",
        ] {
            assert!(page.contains(part), "no {part} in {page}");
        }
        assert!(!page.contains("{{"));
    }
}
