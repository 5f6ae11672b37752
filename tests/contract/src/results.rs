//! Table of results: support of the document by each generator. Committed as `openapi/generators.md`.

use std::fmt::Write;

use crate::consumers::Consumer;
use crate::expectations::MODES;

#[derive(Clone)]
pub(crate) enum Support {
    Passed,
    /// Unsupported by the generator; the consumer names the upstream reason.
    Cannot(String),
    Failed(String),
    /// Depends on an earlier column, or does not apply.
    NotApplicable,
}

pub(crate) struct Row {
    id: String,
    title: String,
    outcomes: Vec<(&'static str, Support)>,
}

impl Row {
    pub(crate) fn new(consumer: &Consumer) -> Self {
        let title = format!("{} | {}", consumer.name, consumer.generator);
        Self { id: consumer.id.clone(), title, outcomes: Vec::new() }
    }

    /// Records the result of a column. A column declared as unsupported must fail.
    pub(crate) fn record(
        &mut self,
        consumer: &Consumer,
        column: &'static str,
        failure: Option<String>,
    ) -> bool {
        let is_passed = failure.is_none();
        let outcome = match (failure, consumer.cannot.get(column)) {
            (None, None) => Support::Passed,
            (None, Some(_)) => {
                Support::Failed("it passes, though its consumer.yaml says that it cannot".to_owned())
            }
            (Some(_), Some(reason)) => Support::Cannot(reason.clone()),
            (Some(failure), None) => Support::Failed(failure),
        };
        self.outcomes.push((column, outcome));
        is_passed
    }

    pub(crate) fn fail(&mut self, column: &str, why: &str) {
        for (recorded, outcome) in &mut self.outcomes {
            if *recorded == column {
                *outcome = Support::Failed(why.to_owned());
            }
        }
    }

    pub(crate) fn skip(&mut self, column: &'static str) {
        self.outcomes.push((column, Support::NotApplicable));
    }

    pub(crate) fn skip_modes(mut self) -> Self {
        self.outcomes.extend(MODES.map(|(mode, _)| (mode, Support::NotApplicable)));
        self
    }

    pub(crate) fn failures(&self) -> impl Iterator<Item = String> {
        self.outcomes.iter().filter_map(|(column, outcome)| match outcome {
            Support::Failed(why) => Some(format!("{}, {column}: {why}", self.id)),
            _ => None,
        })
    }

    pub(crate) fn line(&self) -> String {
        let mut line = format!("| {} |", self.title);
        for (column, outcome) in &self.outcomes {
            let cell = match outcome {
                Support::Passed => "yes".to_owned(),
                Support::Cannot(_) => format!("no [^{}-{column}]", self.id),
                Support::Failed(_) => "**fails**".to_owned(),
                Support::NotApplicable => "–".to_owned(),
            };
            line.push_str(&format!(" {cell} |"));
        }
        line
    }

    fn footnotes(&self) -> impl Iterator<Item = String> {
        self.outcomes.iter().filter_map(|(column, outcome)| match outcome {
            Support::Cannot(reason) => {
                let reason: Vec<&str> = reason.split_whitespace().collect();
                Some(format!("[^{}-{column}]: {}", self.id, reason.join(" ")))
            }
            _ => None,
        })
    }
}

pub(crate) fn page(rows: &[Row], version: &str) -> String {
    let mut page = format!(
        "# What generators make of the document\n\n\
         Written by `cargo xtask contract --all --publish` for version {version} of the document; `.ci/run` repeats the \
         first rows. Each client is generated with the options that `index.html` shows, compiled, and drives the \
         service through the whole life of a caller: balance, catalog, uploads in both tiers, runs, history, \
         cancel, files. Then it does so again through a proxy that gives every response that the document allows. \
         A dash marks a column that does not apply, such as generating for a tool that reads the document itself.\n\n\
         | column | the client |\n|---|---|\n\
         | generates, compiles | is generated without an error, and compiles together with its program |\n\
         | runs | drives the service |\n\
         | new word | keeps a word that an open vocabulary does not list |\n\
         | new field | ignores a field that the document does not describe |\n\
         | nulls | reads `null` in every optional field; *inner*: inside of lists and objects |\n\
         | 201 | takes any 2xx for success |\n\
         | HTML 502, 429 | reports the status code of an HTML page from a gateway, and of a refusal |\n\
         | digits | keeps all 21 digits of an amount in a string, and the double of a price |\n\n",
    );
    let titles = MODES.iter().map(|(_, title)| *title);
    let columns: Vec<&str> =
        ["for", "generator", "generates", "compiles"].into_iter().chain(titles).collect();
    let _ = writeln!(page, "| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
    for row in rows {
        let _ = writeln!(page, "{}", row.line());
    }
    page.push('\n');
    for footnote in rows.iter().flat_map(Row::footnotes) {
        let _ = writeln!(page, "{footnote}");
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use anyhow::Context;

    use super::*;

    fn consumer() -> anyhow::Result<Consumer> {
        Ok(serde_json::from_value(serde_json::json!({
            "name": "Go", "generator": "some generator 1.0", "build": "true", "run": "true",
            "cannot": {"digits": "It reads amounts as floats."},
        }))?)
    }

    #[test]
    fn a_mode_that_a_generator_cannot_do_has_a_footnote() -> anyhow::Result<()> {
        let consumer = consumer()?;
        let mut row = Row::new(&consumer);
        row.skip("generate");
        assert!(row.record(&consumer, "plain", None));
        assert!(!row.record(&consumer, "digits", Some("lost".to_owned())));
        assert_eq!(row.failures().count(), 0);
        assert_eq!(row.line(), "| Go | some generator 1.0 | – | yes | no [^-digits] |");
        assert!(page(&[row], "2.0.0").ends_with("[^-digits]: It reads amounts as floats.\n"));
        Ok(())
    }

    #[test]
    fn what_fails_or_passes_unexpectedly_is_a_failure() -> anyhow::Result<()> {
        let consumer = consumer()?;
        let mut row = Row::new(&consumer);
        row.record(&consumer, "plain", Some("exit status: 1".to_owned()));
        row.record(&consumer, "digits", None);
        let failures: Vec<String> = row.failures().collect();
        assert_eq!(failures[0], ", plain: exit status: 1");
        assert!(failures[1].contains("it passes, though"));
        Ok(())
    }

    #[test]
    fn a_mode_without_a_changed_response_is_a_failure() -> anyhow::Result<()> {
        let consumer = consumer()?;
        let mut row = Row::new(&consumer);
        row.record(&consumer, "plain", None);
        row.record(&consumer, "word", None);
        row.fail("word", "the proxy changed no response");
        assert_eq!(row.failures().collect::<Vec<_>>(), [", word: the proxy changed no response"]);
        assert_eq!(row.line(), "| Go | some generator 1.0 | yes | **fails** |");
        Ok(())
    }

    #[test]
    fn the_kept_table_has_this_head_and_a_row_of_every_consumer() -> anyhow::Result<()> {
        let kept = std::fs::read_to_string("../../openapi/generators.md")?;
        let (_, after) = kept.split_once("for version ").context("no version")?;
        let (version, _) = after.split_once(' ').context("no version")?;
        let without_rows = page(&[], version);
        assert!(kept.starts_with(without_rows.trim_end()), "{without_rows}");
        for consumer in Consumer::all(Path::new("../.."))? {
            let row = format!("\n| {} | {} | ", consumer.name, consumer.generator);
            assert!(kept.contains(&row), "{row}");
        }
        Ok(())
    }

    #[test]
    fn every_consumer_is_described_and_knows_the_modes() -> anyhow::Result<()> {
        let consumers = Consumer::all(Path::new("../.."))?;
        assert!(consumers.iter().any(|consumer| consumer.ci));
        let names: BTreeSet<&str> = consumers.iter().map(|consumer| consumer.name.as_str()).collect();
        assert_eq!(names.len(), consumers.len(), "every entry has a name of its own");
        for consumer in consumers {
            if let Some(language) = &consumer.language {
                let is_named =
                    consumer.name == *language || consumer.name.starts_with(&format!("{language} ("));
                assert!(is_named, "{}: {}", consumer.id, consumer.name);
            }
            let columns = consumer.modes.iter().flatten().chain(consumer.cannot.keys());
            for column in columns {
                let is_known = ["generate", "build"].contains(&column.as_str())
                    || MODES.iter().any(|(mode, _)| mode == column);
                assert!(is_known, "{}: {column}", consumer.id);
            }
        }
        Ok(())
    }
}
