//! `cargo xtask mutants`: whether the tests fail when the code is changed. cargo-mutants changes the files on
//! which money, tasks and files depend, one place at a time.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use inferstore_contract::tools::{absolute, cargo, must, need_subcommand};

/// Below this share of caught mutants, in percent, the task fails.
const MIN_CAUGHT: f64 = 95.0;
const OUTPUT: &str = "target/mutants";

/// Change the code in one place at a time and report which changes no test notices.
#[derive(clap::Args)]
pub(crate) struct Job {
    product: Product,
    /// Try the survivors on the tests of the whole workspace, too.
    #[arg(long)]
    all: bool,
    /// Other files, as globs.
    #[arg(long = "file", value_name = "GLOB")]
    files: Vec<String>,
    /// Try about this many mutants, spread evenly over the files.
    #[arg(long, value_name = "N", conflicts_with = "shard")]
    sample: Option<usize>,
    /// Try one part of the mutants: the part K of N, counted from 0.
    #[arg(long, value_name = "K/N")]
    shard: Option<String>,
}

/// What is changed, and whose tests are run.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Product {
    /// Sending, retries, creates, waiting, uploads and masking.
    Client,
    /// The ledger, the queue, leases, the dispatcher, policies and uploads.
    Service,
}

impl Product {
    fn package(self) -> &'static str {
        match self {
            Self::Client => "inferstore",
            Self::Service => "inferstore-service",
        }
    }

    /// The module of the tests across crates that exercise it.
    fn module(self) -> &'static str {
        match self {
            Self::Client => "client::",
            Self::Service => "service::",
        }
    }

    fn files(self) -> &'static [&'static str] {
        match self {
            Self::Client => &[
                "crates/client/src/transport/**",
                "crates/client/src/memory.rs",
                "crates/client/src/run/**",
                "crates/client/src/files/upload.rs",
                "crates/client/src/files/target.rs",
                "crates/client/src/files/mod.rs",
            ],
            Self::Service => &[
                "crates/service/src/ledger/**",
                "crates/service/src/queue/**",
                "crates/service/src/nodes/dispatcher.rs",
                "crates/service/src/nodes/local_node.rs",
                "crates/service/src/nodes/node_api/**",
                "crates/service/src/jobs/**",
                "crates/service/src/database/sqlite/queue.rs",
                "crates/service/src/database/sqlite/queue/**",
                "crates/service/src/database/sqlite/ledger.rs",
                "crates/service/src/database/sqlite/movements.rs",
                "crates/service/src/object_storage/s3_api/**",
                "crates/service/src/object_storage/uploads.rs",
            ],
        }
    }
}

impl Job {
    pub(crate) fn run(&self, root: &Path) -> Result<String> {
        need_subcommand("mutants")?;
        let mut options = self.parts(root)?;
        options.push(format!("--test-package={}", self.product.package()));
        options.push("--cargo-arg=--tests".to_owned());
        let mut counts = self.mutate(root, self.files(), &options)?;
        let mut missed = read_missed(root)?;
        if self.all && !missed.is_empty() {
            let files: BTreeSet<&str> = missed.iter().filter_map(|name| name.split(':').next()).collect();
            let mut options: Vec<_> = missed.iter().map(|name| format!("--re=^{}$", escaped(name))).collect();
            let tests =
                ["--test-package=inferstore-tests", "--cargo-arg=--test=it", "--", self.product.module()];
            options.extend(tests.map(str::to_owned));
            self.mutate(root, files.into_iter().collect(), &options)?;
            // cargo-mutants also tries what the expressions exclude: each deletion of a field.
            let (before, still_missed) = (missed.len(), read_missed(root)?);
            missed.retain(|name| still_missed.contains(name));
            counts.caught += (before - missed.len()) as u64;
        }
        let (Counts { caught, timeout, unviable }, left) = (counts, missed.len() as u64);
        let share = 100.0 * (caught + timeout) as f64 / (caught + timeout + left).max(1) as f64;
        let mut report = missed.join("\n");
        report += &format!(
            "\ncaught {caught}, timed out {timeout}, missed {left}, unviable {unviable}: {share:.1} % caught\n"
        );
        ensure!(share >= MIN_CAUGHT, "the tests catch less than {MIN_CAUGHT} % of the mutants\n{report}");
        Ok(report)
    }

    /// The files whose code is changed, as globs.
    fn files(&self) -> Vec<&str> {
        match &self.files[..] {
            [] => self.product.files().to_vec(),
            files => files.iter().map(String::as_str).collect(),
        }
    }

    /// The code of these files, as options of cargo-mutants.
    fn selection<'a>(&self, files: Vec<&'a str>) -> Vec<&'a str> {
        let package = ["--package", self.product.package()];
        let excluded = ["--exclude=**/tests.rs", "--exclude=**/tests/**", "--no-shuffle"];
        let files = files.into_iter().flat_map(|file| ["--file", file]);
        package.into_iter().chain(excluded).chain(files).collect()
    }

    /// The part of the mutants that is tried, as options: `--sample` is one of as many parts as it takes.
    fn parts(&self, root: &Path) -> Result<Vec<String>> {
        let options = |shard| vec!["--sharding=round-robin".to_owned(), format!("--shard={shard}")];
        let Some(sample) = self.sample else {
            return Ok(self.shard.as_ref().map(options).unwrap_or_default());
        };
        let mut list = cargo();
        list.args(["mutants", "--list"]).args(self.selection(self.files()));
        list.current_dir(absolute(&root.join("."))?);
        let mutants = must("cargo-mutants", &mut list)?.stdout.split(|byte| *byte == b'\n').count();
        Ok(options(&format!("0/{}", mutants.div_ceil(sample.max(1)))))
    }

    fn mutate(&self, root: &Path, files: Vec<&str>, options: &[String]) -> Result<Counts> {
        let output = absolute(&root.join(OUTPUT))?;
        fs::create_dir_all(&output).with_context(|| format!("cannot create {}", output.display()))?;
        let mut command = cargo();
        command.arg("mutants").args(self.selection(files)).arg("--output").arg(&output);
        command.args(options).current_dir(absolute(&root.join("."))?);
        // The changed copy of the repository has a new path each time. Its dependencies are built once.
        command.env("CARGO_TARGET_DIR", output.join("build")).env("CARGO_PROFILE_DEV_DEBUG", "0");
        let status = command.status().context("cannot run cargo-mutants")?;
        // 0: all are caught, 2: some are missed, 3: some time out. Others are failures before that.
        ensure!(matches!(status.code(), Some(0 | 2 | 3)), "cargo-mutants failed with {status}");
        Counts::read(&output.join("mutants.out/outcomes.json"))
    }
}

/// The names of the mutants that the last run missed.
fn read_missed(root: &Path) -> Result<Vec<String>> {
    let list = root.join(OUTPUT).join("mutants.out/missed.txt");
    let names = fs::read_to_string(list).context("cannot read the list of missed mutants")?;
    Ok(names.lines().map(str::to_owned).collect())
}

/// A regular expression of this text alone.
fn escaped(text: &str) -> String {
    // With a backslash, `<` and `>` would be the ends of a word.
    let is_special = |c: char| c.is_ascii_punctuation() && !matches!(c, '<' | '>');
    let mut escaped = String::new();
    for c in text.chars() {
        escaped.extend(is_special(c).then_some('\\'));
        escaped.push(c);
    }
    escaped
}

#[derive(Clone, Copy)]
struct Counts {
    caught: u64,
    timeout: u64,
    unviable: u64,
}

impl Counts {
    fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let outcomes: Value = serde_json::from_str(&text).context("cargo-mutants wrote no JSON")?;
        let count = |name: &str| outcomes[name].as_u64().with_context(|| format!("it counts no {name}"));
        Ok(Self { caught: count("caught")?, timeout: count("timeout")?, unviable: count("unviable")? })
    }
}
