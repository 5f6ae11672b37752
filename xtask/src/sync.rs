//! `cargo xtask sync`: the maintainer's loop after an edit of the document, in one command.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use inferstore_contract::tools::{absolute, cargo, output_of};

use crate::document::{DOCUMENT, Document};
use crate::{api, diff, generate, lint, places};

const WATCH_INTERVAL: Duration = Duration::from_millis(300);

#[derive(clap::Args)]
pub(crate) struct Job {
    /// Write nothing.
    #[arg(long)]
    check: bool,
    /// Run again whenever the document changes, until it is interrupted.
    #[arg(long, conflicts_with = "check")]
    watch: bool,
}

impl Job {
    pub(crate) fn run(self, root: &Path) -> Result<String> {
        if !self.watch {
            return sync(root, self.check);
        }
        let document = root.join(DOCUMENT);
        let mut seen = None;
        loop {
            if let Some(now) = changed(&document, seen.as_deref())? {
                let report = sync(root, false).unwrap_or_else(|error| format!("error: {error:#}\n"));
                writeln!(io::stdout(), "{report}").context("cannot write to standard output")?;
                // The text that was read, and not what an editor wrote meanwhile.
                seen = Some(now);
            }
            thread::sleep(WATCH_INTERVAL);
        }
    }
}

/// Returns the text of the document if it is another one. An editor that renames files takes it away for a moment.
fn changed(document: &Path, seen: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
    match fs::read(document) {
        Ok(now) => Ok(Some(now).filter(|now| seen != Some(now))),
        Err(error) if seen.is_some() && error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {DOCUMENT}")),
    }
}

fn sync(root: &Path, is_check: bool) -> Result<String> {
    let generated = root.join(generate::CLIENT);
    let before = fs::read_to_string(&generated).unwrap_or_default();
    let mut report = generate::Job::of_repository(is_check).run(root)?;
    let after = fs::read_to_string(&generated).unwrap_or_default();
    // The linters wait for processes of their own; meanwhile cargo builds.
    let (api, document, linted) = thread::scope(|scope| {
        let linted = scope.spawn(|| lint::lint_once(root));
        let is_same = signatures(&before) == signatures(&after);
        let api = if is_same { Ok(String::new()) } else { api::update(root, "inferstore-api") };
        let linted_or = |_| Err(anyhow!("the linters stopped"));
        (api, check_document(root), linted.join().unwrap_or_else(linted_or))
    });
    report.push_str(&api?);
    let mut left = places::left_to_do(root, &Document::load(&root.join(DOCUMENT))?.value)?;
    left.extend(diff::leftovers(root)?);
    // Each of them is done by hand, and the next check says more.
    let [version, changelog] = diff::checks(root);
    for check in [document, linted, diff::one_line_a_change(root), version, changelog] {
        match check {
            Ok(passed) => report.push_str(&passed),
            Err(error) => left.push(format!("{error:#}")),
        }
    }
    if left.is_empty() {
        report.push_str("nothing is left to do by hand\n");
        return Ok(report);
    }
    let mut list = "left to do by hand:\n".to_owned();
    for item in left {
        write!(list, "- {}", item.trim_end().replace('\n', "\n  ")).context("cannot write")?;
        list.push('\n');
    }
    ensure!(!is_check, "{report}{list}");
    Ok(report + &list)
}

/// The generated code without its comments: what the public API depends on.
fn signatures(code: &str) -> Vec<&str> {
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect()
}

fn check_document(root: &Path) -> Result<String> {
    let mut test = cargo();
    test.args(["test", "--quiet", "--package", "inferstore-document"]);
    test.env("RUST_BACKTRACE", "0");
    let output = test.current_dir(absolute(&root.join("."))?).output().context("cannot run cargo")?;
    if output.status.success() {
        return Ok("descriptions and examples: passed\n".to_owned());
    }
    let output = output_of(&output);
    let differences: Vec<&str> = output.split("\n---- ").skip(1).filter_map(difference).collect();
    bail!("{}", if differences.is_empty() { output } else { differences.join("\n") })
}

fn difference(part: &str) -> Option<&str> {
    let (_, said) = part.split_once("stdout ----\n")?;
    said.split("\n\n").next().map(str::trim_end)
}

#[cfg(test)]
mod tests {
    use super::{changed, difference, signatures};

    #[test]
    fn a_document_that_is_away_for_a_moment_has_not_changed() -> anyhow::Result<()> {
        let document = tempfile::tempdir()?.path().join("document.yaml");
        assert!(changed(&document, None).is_err());
        assert_eq!(changed(&document, Some(b"a"))?, None);
        Ok(())
    }

    #[test]
    fn comments_of_generated_code_change_no_signature() {
        assert_eq!(signatures("/// A.\npub a: u8,\n"), signatures("    // B.\npub a: u8,"));
        assert_ne!(signatures("pub a: u8,"), signatures("pub a: u16,"));
    }

    #[test]
    fn a_failed_test_is_reported_by_what_it_says() {
        let output = "....\nfailures:\n\n---- it::a stdout ----\n1 differences:\nA: `b` is there\n\nfailures:\n    a\n";
        let parts = output.split("\n---- ").skip(1).filter_map(difference);
        assert_eq!(parts.collect::<Vec<_>>(), ["1 differences:\nA: `b` is there"]);
    }
}
