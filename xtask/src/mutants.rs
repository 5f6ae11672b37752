//! `cargo xtask mutants`: whether the tests of the client fail when its code is changed. cargo-mutants changes the
//! files that send, retry, create, wait, upload and mask, one place at a time.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::tools::{absolute, cargo, cargo_has};

const FILES: [&str; 6] = [
    "crates/client/src/transport/**",
    "crates/client/src/memory.rs",
    "crates/client/src/run/**",
    "crates/client/src/files/upload.rs",
    "crates/client/src/files/target.rs",
    "crates/client/src/files/mod.rs",
];
/// Below this share of caught mutants, in percent, the task fails.
const MIN_CAUGHT: f64 = 95.0;
const OUTPUT: &str = "target/mutants";

pub(crate) struct Job<'a> {
    root: &'a Path,
    /// Tries the survivors on the tests of the whole workspace, too.
    all: bool,
    files: Vec<&'a str>,
}

impl<'a> Job<'a> {
    pub(crate) fn read(root: &'a Path, options: &[&'a str]) -> Result<Self> {
        let ["client", options @ ..] = options else { bail!("mutants of what? Only `client` is known") };
        let mut job = Self { root, all: false, files: Vec::new() };
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match *option {
                "--all" => job.all = true,
                "--file" => job.files.push(options.next().context("--file needs a path")?),
                other => bail!("mutants has no option {other}"),
            }
        }
        if job.files.is_empty() {
            job.files.extend(FILES);
        }
        Ok(job)
    }

    pub(crate) fn run(&self) -> Result<String> {
        ensure!(
            cargo_has("mutants"),
            "there is no cargo-mutants here; `cargo install --locked cargo-mutants` and try again"
        );
        let own = self.mutate(&["--test-package=inferstore", "--cargo-arg=--tests"])?;
        let mut counts = own;
        if self.all && own.missed > 0 {
            // What the first run caught is left out.
            let more =
                ["--iterate", "--test-package=inferstore-tests", "--cargo-arg=--test=it", "--", "client::"];
            let rest = self.mutate(&more)?;
            counts.caught += rest.caught + rest.timeout;
            counts.missed = rest.missed;
        }
        let missed = fs::read_to_string(self.root.join(OUTPUT).join("mutants.out/missed.txt"))
            .context("cannot read the list of missed mutants")?;
        let missed = if counts.missed == 0 { "" } else { missed.as_str() };
        let found = counts.caught + counts.timeout;
        let share = 100.0 * found as f64 / (found + counts.missed).max(1) as f64;
        let report = format!(
            "{missed}caught {}, timed out {}, missed {}, unviable {}: {share:.1} % caught\n",
            counts.caught, counts.timeout, counts.missed, counts.unviable
        );
        ensure!(share >= MIN_CAUGHT, "the tests catch less than {MIN_CAUGHT} % of the mutants\n{report}");
        Ok(report)
    }

    fn mutate(&self, options: &[&str]) -> Result<Counts> {
        let output = absolute(&self.root.join(OUTPUT))?;
        fs::create_dir_all(&output).with_context(|| format!("cannot create {}", output.display()))?;
        let mut command = cargo();
        command.args(["mutants", "--package=inferstore", "--exclude=**/tests.rs", "--exclude=**/tests/**"]);
        command.arg("--no-shuffle").arg("--output").arg(&output);
        command.args(self.files.iter().flat_map(|file| ["--file", file])).args(options);
        command.current_dir(absolute(&self.root.join("."))?);
        // The copy of the repository that is changed has a new path each time. Its dependencies are built once.
        command.env("CARGO_TARGET_DIR", output.join("build")).env("CARGO_PROFILE_DEV_DEBUG", "0");
        let status = command.status().context("cannot run cargo-mutants")?;
        // 0: all are caught, 2: some are missed, 3: some time out. Others are failures before that.
        ensure!(matches!(status.code(), Some(0 | 2 | 3)), "cargo-mutants failed with {status}");
        Counts::read(&output.join("mutants.out/outcomes.json"))
    }
}

#[derive(Clone, Copy)]
struct Counts {
    caught: u64,
    timeout: u64,
    missed: u64,
    unviable: u64,
}

impl Counts {
    fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let outcomes: Value = serde_json::from_str(&text).context("cargo-mutants wrote no JSON")?;
        let count = |name: &str| outcomes[name].as_u64().with_context(|| format!("it counts no {name}"));
        Ok(Self {
            caught: count("caught")?,
            timeout: count("timeout")?,
            missed: count("missed")?,
            unviable: count("unviable")?,
        })
    }
}
