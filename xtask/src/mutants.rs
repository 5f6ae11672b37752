//! `cargo xtask mutants`: whether the tests fail when the code is changed. cargo-mutants changes the files on
//! which money, tasks and files depend, one place at a time.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use inferstore_contract::tools::{absolute, cargo, must, need_subcommand};

/// Below this share of caught mutants, in percent, the task fails.
const MIN_CAUGHT: f64 = 95.0;
const OUTPUT: &str = "target/mutants";

/// For the tests of the whole, also on a busy machine: a mutant that times out counts as caught.
const WHOLE_TIMEOUT: &str = "--timeout=600";

/// Files that are no product.
const NO_PRODUCT: [&str; 4] = ["**/tests.rs", "**/*_tests.rs", "**/tests/**", "**/conformance/**"];

/// Change the code in one place at a time and report which changes no test of its crate notices.
#[derive(clap::Args)]
pub(crate) struct Job {
    product: Product,
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
    /// Sending, retries, creates, waiting, files and masking.
    Client,
    /// The database, the ledger, the queue, jobs, nodes and object storage.
    Service,
}

impl Product {
    fn package(self) -> &'static str {
        match self {
            Self::Client => "inferstore",
            Self::Service => "inferstore-service",
        }
    }

    /// The part of the tests of the whole that is about it.
    fn tests(self) -> &'static str {
        match self {
            Self::Client => "client::",
            Self::Service => "service::",
        }
    }

    /// The folders on which money, tasks and files depend.
    fn files(self) -> &'static [&'static str] {
        match self {
            Self::Client => &[
                "crates/client/src/files/**",
                "crates/client/src/memory.rs",
                "crates/client/src/run/**",
                "crates/client/src/transport/**",
            ],
            Self::Service => &[
                "crates/service/src/database/**",
                "crates/service/src/jobs/**",
                "crates/service/src/ledger/**",
                "crates/service/src/nodes/**",
                "crates/service/src/object_storage/**",
                "crates/service/src/queue/**",
            ],
        }
    }
}

impl Job {
    pub(crate) fn run(&self, root: &Path) -> Result<String> {
        need_subcommand("mutants")?;
        let own_tests = ["--test-package", self.product.package(), "--cargo-arg=--tests"].map(str::to_owned);
        let mut outcomes = self.outcomes(root, self.part(root)?.into_iter().chain(own_tests))?;
        // What the tests of its package miss, those of the whole may catch: they take longer.
        if !outcomes.missed.is_empty() {
            self.skip_all_but(root, &outcomes.missed)?;
            let tests = [
                "--iterate",
                "--test-package=inferstore-tests",
                // cargo-mutants tries the package alone for its baseline, and takes the timeout from there.
                "--baseline=skip",
                WHOLE_TIMEOUT,
                "--",
                "--test=it",
                self.product.tests(),
            ];
            let again = self.outcomes(root, tests.map(str::to_owned).into_iter())?;
            outcomes.caught += again.caught;
            outcomes.missed = again.missed;
        }
        outcomes.report()
    }

    /// Runs cargo-mutants with these options.
    fn outcomes(&self, root: &Path, options: impl Iterator<Item = String>) -> Result<Outcomes> {
        let output = absolute(&root.join(OUTPUT))?;
        fs::create_dir_all(&output).with_context(|| format!("cannot create {}", output.display()))?;
        let mut command = self.command(root)?;
        command.arg("--output").arg(&output).args(options);
        // The changed copy of the repository has a new path each time. Its dependencies are built once.
        command.env("CARGO_TARGET_DIR", output.join("build")).env("CARGO_PROFILE_DEV_DEBUG", "0");
        let status = command.status().context("cannot run cargo-mutants")?;
        // 0: all are caught, 2: some are missed, 3: some time out. Others are failures before that.
        ensure!(matches!(status.code(), Some(0 | 2 | 3)), "cargo-mutants failed with {status}");
        let folder = output.join("mutants.out");
        let counts = match fs::read_to_string(folder.join("outcomes.json")) {
            Ok(counts) => serde_json::from_str(&counts).context("cargo-mutants wrote no JSON")?,
            // A part may have none.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Outcomes::default()),
            Err(error) => return Err(error).context("cannot read the outcomes of cargo-mutants"),
        };
        let missed = fs::read_to_string(folder.join("missed.txt"));
        Outcomes::of(&counts, &missed.context("cannot read the list of missed mutants")?)
    }

    /// cargo-mutants for the chosen files.
    fn command(&self, root: &Path) -> Result<Command> {
        let mut command = cargo();
        command.args(["mutants", "--package", self.product.package(), "--no-shuffle"]);
        command.args(NO_PRODUCT.map(|files| format!("--exclude={files}")));
        if matches!(self.product, Product::Service) {
            command.arg("--features=test-postgres");
        }
        command.args(self.product.files().iter().flat_map(|file| ["--file", file]));
        command.current_dir(absolute(&root.join("."))?);
        Ok(command)
    }

    /// The part of the mutants that is tried, as options: `--sample` is one of as many parts as it takes.
    fn part(&self, root: &Path) -> Result<Vec<String>> {
        let options = |shard| vec!["--sharding=round-robin".to_owned(), format!("--shard={shard}")];
        let Some(sample) = self.sample else {
            return Ok(self.shard.as_ref().map(options).unwrap_or_default());
        };
        let mutants = self.list(root)?.lines().count();
        Ok(options(&format!("0/{}", mutants.div_ceil(sample.max(1)))))
    }

    /// The names of all mutants, one on each line.
    fn list(&self, root: &Path) -> Result<String> {
        let list = must("cargo-mutants", self.command(root)?.arg("--list"))?;
        String::from_utf8(list.stdout).context("cargo-mutants lists no text")
    }

    /// Lets the next run of cargo-mutants with `--iterate` try these mutants alone.
    fn skip_all_but(&self, root: &Path, missed: &[String]) -> Result<()> {
        let list = self.list(root)?;
        let skipped = list.lines().filter(|name| !missed.iter().any(|missed| missed == name));
        let skipped: String = skipped.map(|name| format!("{name}\n")).collect();
        let file = root.join(OUTPUT).join("mutants.out/previously_caught.txt");
        fs::write(&file, skipped).with_context(|| format!("cannot write {}", file.display()))
    }
}

/// What became of the mutants.
#[derive(Default)]
struct Outcomes {
    /// A test failed, or did not end in time.
    caught: usize,
    missed: Vec<String>,
    /// What does not compile.
    unviable: u64,
}

impl Outcomes {
    fn of(counts: &Value, missed: &str) -> Result<Self> {
        let count = |name: &str| counts[name].as_u64().with_context(|| format!("it counts no {name}"));
        let caught = usize::try_from(count("caught")? + count("timeout")?)?;
        Ok(Self { caught, missed: missed.lines().map(str::to_owned).collect(), unviable: count("unviable")? })
    }

    /// The counts below the missed mutants. Fails when too many are missed.
    fn report(&self) -> Result<String> {
        let Self { caught, missed, unviable } = self;
        let tried = caught + missed.len();
        let share = if tried == 0 { 100.0 } else { 100.0 * *caught as f64 / tried as f64 };
        let lines: String = missed.iter().map(|name| format!("{name}\n")).collect();
        let report = format!(
            "{lines}\ncaught {caught}, missed {}, unviable {unviable}: {share:.1} % caught\n",
            missed.len()
        );
        ensure!(share >= MIN_CAUGHT, "the tests catch less than {MIN_CAUGHT} % of the mutants\n{report}");
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn too_few_caught_mutants_fail_and_none_to_try_do_not() {
        let report = |caught: u32, missed| {
            let counts = json!({"caught": caught, "timeout": 0, "unviable": 3});
            Outcomes::of(&counts, missed)?.report()
        };
        assert!(report(0, "").is_ok());
        assert!(report(19, "a\n").is_ok());
        assert!(report(18, "a\n").is_err());
    }

    #[test]
    fn every_folder_that_is_changed_is_there() {
        for files in [Product::Client, Product::Service].map(Product::files).concat() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(files.trim_end_matches("/**"));
            assert!(path.exists(), "{files}");
        }
    }
}
