//! `cargo xtask fuzz`: the targets of `tests/fuzz` under libFuzzer, each for a while. What it finds beyond
//! the kept corpus stays below `target/fuzz`; `--keep` adds to the kept one what reaches further, and nothing
//! that is large.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::tools::{absolute, cargo, cargo_has, must, said};

/// Where the targets are, and what is kept for them.
const PACKAGE: &str = "tests/fuzz";

/// Where everything goes that is not kept.
const SCRATCH: &str = "target/fuzz";

/// Larger inputs hardly reach further.
const LARGEST_INPUT: u64 = 4 * 1024;

/// Larger ones, and more of them for a target, are not worth reading.
const LARGEST_ENTRY: usize = 512;
const MOST_ENTRIES: usize = 50;

/// What to do without the tool.
pub(crate) const INSTALL: &str = "there is no cargo-fuzz here; `cargo install cargo-fuzz` and try again";

pub(crate) struct Job<'a> {
    pub(crate) root: &'a Path,
    /// All when empty.
    pub(crate) targets: Vec<String>,
    /// For each target.
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) keep: bool,
}

impl<'a> Job<'a> {
    pub(crate) fn read(root: &'a Path, options: &[&str]) -> Result<Self> {
        let mut job = Self { root, targets: Vec::new(), time: Duration::from_secs(60), seed: 1, keep: false };
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let mut number = || -> Result<u64> {
                let text = options.next().with_context(|| format!("{option} needs a number"))?;
                text.parse().with_context(|| format!("{option} needs a number, not {text:?}"))
            };
            match *option {
                "--seconds" => job.time = Duration::from_secs(number()?),
                "--seed" => job.seed = number()?,
                "--keep" => job.keep = true,
                flag if flag.starts_with('-') => bail!("fuzz has no option {flag}"),
                target => job.targets.push(target.to_owned()),
            }
        }
        Ok(job)
    }

    /// Runs the targets one after the other; says of each what was tried.
    pub(crate) fn run(&self) -> Result<String> {
        ensure!(cargo_has("fuzz"), INSTALL);
        for target in self.chosen()? {
            let executions = self.fuzz(&target)?;
            let line = format!(
                "{target}: {executions} inputs in {} seconds, all of it holds\n",
                self.time.as_secs()
            );
            io::stdout().write_all(line.as_bytes()).context("cannot write to standard output")?;
            if self.keep {
                self.keep(&target)?;
            }
        }
        Ok(String::new())
    }

    fn chosen(&self) -> Result<Vec<String>> {
        let known = targets(self.root)?;
        if let Some(unknown) = self.targets.iter().find(|target| !known.contains(target)) {
            bail!("there is no target {unknown}; there are {}", known.join(", "));
        }
        Ok(if self.targets.is_empty() { known } else { self.targets.clone() })
    }

    /// How many inputs were tried.
    fn fuzz(&self, target: &str) -> Result<u64> {
        let (found, artifacts) = (self.scratch("corpus", target)?, self.scratch("artifacts", target)?);
        let mut command = self.cargo_fuzz("run", target)?;
        // What is new goes into the first one.
        command.arg(&found).arg(self.kept(target)?).arg("--");
        command.arg(format!("-max_total_time={}", self.time.as_secs()));
        command.arg(format!("-max_len={LARGEST_INPUT}")).arg(format!("-seed={}", self.seed.max(1)));
        command.arg(format!("-artifact_prefix={artifacts}/")).args(["-print_final_stats=1", "-timeout=10"]);
        let output = command.output().context("cannot run cargo fuzz")?;
        let said = said(&output);
        if !output.status.success() {
            let from = said.lines().count().saturating_sub(40);
            let end: Vec<&str> = said.lines().skip(from).collect();
            bail!(
                "the target {target} does not hold, or cannot be built; its input is in {artifacts}\n{}",
                end.join("\n")
            );
        }
        let executed = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        executed.and_then(|count| count.trim().parse().ok()).context("libFuzzer does not say what it tried")
    }

    /// Adds to the kept corpus the few of what was found that reach furthest beyond it.
    fn keep(&self, target: &str) -> Result<()> {
        let (kept, found) = (self.kept(target)?, self.scratch("corpus", target)?);
        let (merged, record) =
            (self.scratch("merged", target)?, format!("{}.record", self.scratch("merged", target)?));
        // It goes on with a record that is there.
        let _ = fs::remove_file(&record);
        let mut merge = self.cargo_fuzz("run", target)?;
        merge.arg(&merged).arg(&kept).arg(&found).args(["--", "-merge=1", "-use_counters=0"]);
        merge.arg(format!("-max_len={LARGEST_ENTRY}")).arg(format!("-merge_control_file={record}"));
        must("cargo-fuzz", &mut merge)?;
        let text = fs::read_to_string(&record).with_context(|| format!("cannot read {record}"))?;
        let before = fs::read_dir(&kept)?.count();
        let chosen = furthest(&text, &kept, MOST_ENTRIES.saturating_sub(before));
        for file in &chosen {
            let name = file.rsplit('/').next().unwrap_or_default();
            // The merge looked no further either.
            let bytes: Vec<u8> = fs::read(file)?.into_iter().take(LARGEST_ENTRY).collect();
            fs::write(format!("{kept}/{}", name.get(..8).unwrap_or(name)), bytes)?;
        }
        fs::remove_dir_all(&merged)?;
        let line = format!("{target}: {} of what was found is kept beside {before}\n", chosen.len());
        io::stdout().write_all(line.as_bytes()).context("cannot write to standard output")
    }

    /// Stable Rust does, without the sanitizers: there is no unsafe code of ours that they would watch.
    fn cargo_fuzz(&self, what: &str, target: &str) -> Result<Command> {
        let mut command = cargo();
        command.args(["fuzz", what, "--fuzz-dir"]).arg(absolute(&self.root.join(PACKAGE))?);
        command.args(["--target-dir".as_ref(), absolute(&self.root.join(SCRATCH))?.as_os_str()]);
        command.args(["--sanitizer", "none", "--features", "libfuzzer", target]);
        command.env("RUSTC_BOOTSTRAP", "1").current_dir(absolute(&self.root.join("."))?);
        Ok(command)
    }

    fn kept(&self, target: &str) -> Result<String> {
        Ok(absolute(&self.root.join(PACKAGE).join("corpus").join(target))?.display().to_string())
    }

    fn scratch(&self, what: &str, target: &str) -> Result<String> {
        let folder = absolute(&self.root.join(SCRATCH).join(what).join(target))?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder.display().to_string())
    }
}

/// The names of all targets, which are those of their programs.
fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join(PACKAGE).join("fuzz_targets");
    let files = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let names =
        files.map(|file| Ok(file?.path().file_stem().map(|name| name.to_string_lossy().into_owned())));
    let mut names: Vec<String> = names.filter_map(Result::transpose).collect::<Result<_>>()?;
    names.sort_unstable();
    Ok(names)
}

/// At most so many of the files in the record of a merge, those first that reach most of what neither the kept
/// ones nor one before them reaches. The record names the files after two counts, and then in each line that
/// begins with `FT` the number of a file and of every place that it reached.
fn furthest<'a>(record: &'a str, kept: &str, most: usize) -> Vec<&'a str> {
    let mut lines = record.lines();
    let count = lines.next().and_then(|count| count.parse().ok()).unwrap_or_default();
    let files: Vec<&str> = lines.by_ref().skip(1).take(count).collect();
    let mut known: HashSet<&str> = HashSet::new();
    let mut left: Vec<(&str, HashSet<&str>)> = Vec::new();
    for line in lines {
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        let (Some("FT"), Some(number)) = (words.next(), words.next()) else { continue };
        let Some(file) = number.parse().ok().and_then(|number: usize| files.get(number)) else { continue };
        if file.starts_with(kept) { known.extend(words) } else { left.push((file, words.collect())) }
    }
    let mut chosen = Vec::new();
    while chosen.len() < most {
        for (_, places) in &mut left {
            places.retain(|place| !known.contains(place));
        }
        left.retain(|(_, places)| !places.is_empty());
        // The first of equals is the smallest file.
        let Some(best) = (0..left.len()).rev().max_by_key(|at| left[*at].1.len()) else { break };
        let (file, places) = left.remove(best);
        known.extend(places);
        chosen.push(file);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_most_beyond_the_kept_corpus_is_kept_and_nothing_twice() {
        let record = "5\n0\nkept/a\nfound/b\nfound/c\nfound/d\nfound/e\nSTARTED 0 9\nFT 0 1 2 3 \nCOV 0 1\n\
                      FT 1 1 2 \nFT 2 4 \nFT 3 3 4 5 6 \nFT 4 6 7 ";
        assert_eq!(furthest(record, "kept", 9), ["found/d", "found/e"]);
        assert_eq!(furthest(record, "kept", 1), ["found/d"]);
        assert!(furthest("", "kept", 9).is_empty());
    }
}
