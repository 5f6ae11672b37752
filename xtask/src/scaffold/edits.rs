//! Changes of files, which are written when all of them are known.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The new texts of files, by their paths below the root.
pub(super) struct Edits<'a> {
    pub(super) root: &'a Path,
    texts: BTreeMap<String, String>,
}

impl<'a> Edits<'a> {
    pub(super) fn new(root: &'a Path) -> Self {
        Self { root, texts: BTreeMap::new() }
    }

    pub(super) fn read(&self, file: &str) -> Result<String> {
        match self.texts.get(file) {
            Some(text) => Ok(text.clone()),
            None => fs::read_to_string(self.root.join(file)).with_context(|| format!("cannot read {file}")),
        }
    }

    pub(super) fn set(&mut self, file: &str, text: String) {
        self.texts.insert(file.to_owned(), text);
    }

    pub(super) fn insert(&mut self, file: &str, before: &str, text: &str) -> Result<()> {
        self.insert_in(file, "", before, text)
    }

    pub(super) fn insert_in(&mut self, file: &str, after: &str, before: &str, text: &str) -> Result<()> {
        let old = self.read(file)?;
        let place = old.find(after).and_then(|start| Some(start + old[start..].find(before)?));
        let place = place.with_context(|| format!("{file} has another shape than expected"))?;
        self.set(file, format!("{}{text}{}", &old[..place], &old[place..]));
        Ok(())
    }

    /// Adds text before the tests of a file.
    pub(super) fn append(&mut self, file: &str, text: &str) -> Result<()> {
        let old = self.read(file)?;
        let end = old.find("#[cfg(test)]\nmod tests").unwrap_or(old.len());
        self.set(file, format!("{}\n\n{text}\n{}", old[..end].trim_end(), &old[end..]));
        Ok(())
    }

    /// Writes all files; returns a line about each.
    pub(super) fn write(self) -> Result<String> {
        let mut texts = self.texts;
        for (file, text) in texts.iter_mut().filter(|(file, _)| file.ends_with(".rs")) {
            *text = formatted(self.root, text).with_context(|| format!("cannot format {file}"))?;
        }
        let mut report = String::new();
        for (file, text) in texts {
            fs::write(self.root.join(&file), text).with_context(|| format!("cannot write {file}"))?;
            report += &format!("{file} written\n");
        }
        Ok(report)
    }
}

fn formatted(root: &Path, text: &str) -> Result<String> {
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition=2024", "--config-path"]).arg(root.join("."));
    let mut rustfmt =
        rustfmt.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot run rustfmt")?;
    rustfmt.stdin.take().context("rustfmt reads nothing")?.write_all(text.as_bytes())?;
    let output = rustfmt.wait_with_output()?;
    ensure!(output.status.success(), "rustfmt failed");
    String::from_utf8(output.stdout).context("rustfmt wrote no text")
}
