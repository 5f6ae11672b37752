//! `cargo xtask fuzz`: the targets of `tests/fuzz` under libFuzzer, each for a while. What it finds beyond
//! the kept corpus stays below `target/fuzz`; `--keep` adds to the kept one what reaches further, and nothing
//! that is large.

use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{fs, str};

use anyhow::{Context, Result, bail, ensure};

use crate::tools::{absolute, cargo_has, must, said};

/// Where the targets are, and what is kept for them.
const PACKAGE: &str = "tests/fuzz";

/// Where everything goes that is not kept.
const SCRATCH: &str = "target/fuzz";

/// Larger entries are not worth reading, and larger inputs hardly reach further.
const LARGEST_ENTRY: u64 = 4 * 1024;

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
                self.minimize(&target)?;
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
        command.arg(format!("-max_len={LARGEST_ENTRY}")).arg(format!("-seed={}", self.seed.max(1)));
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

    /// Leaves in the kept corpus what reaches somewhere of its own: of what is kept, and of what was found.
    fn minimize(&self, target: &str) -> Result<()> {
        let (kept, found) = (self.kept(target)?, self.scratch("corpus", target)?);
        let before = fs::read_dir(&kept)?.count();
        let mut merge = self.cargo_fuzz("run", target)?;
        merge.arg(&kept).arg(&found).args(["--", "-merge=1"]).arg(format!("-max_len={LARGEST_ENTRY}"));
        must("cargo-fuzz", &mut merge)?;
        let added = fs::read_dir(&kept)?.count() - before;
        let line = format!("{target}: {added} of what was found is kept\n");
        io::stdout().write_all(line.as_bytes()).context("cannot write to standard output")
    }

    /// Stable Rust does, without the sanitizers: there is no unsafe code of ours that they would watch.
    fn cargo_fuzz(&self, what: &str, target: &str) -> Result<Command> {
        let mut command = Command::new("cargo");
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
