//! `cargo xtask fuzz`: the fuzz targets of `tests/fuzz` under libFuzzer, by cargo-fuzz. New inputs stay below
//! `target/fuzz`; `--keep` adds those that reach further to the kept corpus, and nothing that is large.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use inferstore_contract::tools::{absolute, cargo, need_subcommand};

const PACKAGE: &str = "tests/fuzz";
const SCRATCH: &str = "target/fuzz";

/// Larger inputs hardly reach further, and larger entries are not worth reading.
const MAX_INPUT: u32 = 4 * 1024;
const MAX_ENTRY: u32 = 512;

/// Run the fuzz targets of tests/fuzz.
#[derive(clap::Args)]
pub(crate) struct Job {
    /// Some fuzz targets instead of all.
    #[arg(value_name = "TARGET")]
    pub(crate) targets: Vec<String>,
    /// Time for each fuzz target
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) seconds: u64,
    /// Repeats a run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Add the inputs that reach further to the kept corpus.
    #[arg(long)]
    pub(crate) keep: bool,
}

impl Job {
    pub(crate) fn run(&self, root: &Path) -> Result<String> {
        need_subcommand("fuzz")?;
        let known = targets(root)?;
        if let Some(unknown) = self.targets.iter().find(|target| !known.contains(target)) {
            bail!("there is no target {unknown}; there are {}", known.join(", "));
        }
        let chosen = if self.targets.is_empty() { &known } else { &self.targets };
        for target in chosen {
            let kept = absolute(&root.join(PACKAGE).join("corpus").join(target))?.display().to_string();
            let (found, artifacts) = (scratch(root, "corpus", target)?, scratch(root, "artifacts", target)?);
            let run = [
                format!("-max_total_time={}", self.seconds),
                format!("-max_len={MAX_INPUT}"),
                format!("-seed={}", self.seed.max(1)),
                format!("-artifact_prefix={artifacts}/"),
                "-timeout=10".to_owned(),
                "-print_final_stats=1".to_owned(),
            ];
            // New inputs go into the first folder.
            cargo_fuzz(root, target, &found, &kept, &run)
                .with_context(|| format!("the target {target} fails; its input is in {artifacts}"))?;
            if self.keep {
                let merge = ["-set_cover_merge=1".to_owned(), format!("-max_len={MAX_ENTRY}")];
                cargo_fuzz(root, target, &kept, &found, &merge)?;
            }
        }
        Ok(format!("all of it holds: {}\n", chosen.join(", ")))
    }
}

/// Stable Rust is enough without the sanitizers: there is no unsafe code of ours that they would watch.
fn cargo_fuzz(root: &Path, target: &str, first: &str, second: &str, options: &[String]) -> Result<()> {
    let mut command = cargo();
    command.args(["fuzz", "run", "--fuzz-dir"]).arg(absolute(&root.join(PACKAGE))?);
    command.args(["--target-dir".as_ref(), absolute(&root.join(SCRATCH))?.as_os_str()]);
    command.args(["--sanitizer", "none", "--features", "libfuzzer", target, first, second, "--"]);
    command.arg("-verbosity=0").args(options);
    command.env("RUSTC_BOOTSTRAP", "1").current_dir(absolute(&root.join("."))?);
    let status = command.status().context("cannot run cargo fuzz")?;
    ensure!(status.success(), "cargo fuzz ends with {status}");
    Ok(())
}

fn scratch(root: &Path, what: &str, target: &str) -> Result<String> {
    let folder = absolute(&root.join(SCRATCH).join(what).join(target))?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder.display().to_string())
}

fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join(PACKAGE).join("fuzz_targets");
    let files = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let names =
        files.map(|file| Ok(file?.path().file_stem().map(|name| name.to_string_lossy().into_owned())));
    let mut names: Vec<String> = names.filter_map(Result::transpose).collect::<Result<_>>()?;
    names.sort_unstable();
    Ok(names)
}
