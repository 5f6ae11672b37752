//! `cargo xtask mutants`: whether the tests fail when the code is changed. cargo-mutants lists the changes; all of them
//! are built into one program, where each is tried in turn.

mod program;
mod switches;
mod trials;

use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};

use crate::progress;
use inferstore_contract::tools::{absolute, cargo, must, need_subcommand};
use program::Program;
use switches::Mutant;
use trials::{Outcome, Tests};

/// Below this share of caught mutants, in percent, the task fails.
const MIN_CAUGHT: f64 = 95.0;
const OUTPUT: &str = "target/mutants";

/// Files that are no product.
const NO_PRODUCT: [&str; 4] = ["**/tests.rs", "**/*_tests.rs", "**/tests/**", "**/conformance/**"];

/// Change the code in one place at a time and report which changes no test notices.
#[derive(clap::Args)]
pub(crate) struct Job {
    product: Product,
    /// Try the mutants alone whose name contains this text, such as a file and a line.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// What is changed, and whose tests are run.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
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

    fn folder(self) -> &'static str {
        match self {
            Self::Client => "crates/client",
            Self::Service => "crates/service",
        }
    }

    fn features(self) -> &'static [&'static str] {
        match self {
            Self::Client => &[],
            Self::Service => &["--features=test-postgres"],
        }
    }

    /// The part of the tests of the whole that is about it.
    fn tests(self) -> &'static str {
        match self {
            Self::Client => "client::",
            Self::Service => "service::",
        }
    }

    /// What money, tasks and files depend on.
    fn files(self) -> &'static [&'static str] {
        match self {
            Self::Client => &["files/**", "memory.rs", "run/**", "transport/**"],
            Self::Service => {
                &["database/**", "jobs/**", "ledger/**", "nodes/**", "object_storage/**", "queue/**"]
            }
        }
    }
}

impl Job {
    pub(crate) fn run(&self, root: &Path) -> Result<String> {
        need_subcommand("mutants")?;
        let mutants = self.list(root)?;
        let mut program = Program::copy(root, &root.join(OUTPUT), self.product)?;
        let switched = program.switch(&mutants)?;
        let (built, listed) = (switched.len(), mutants.len());
        progress(&format!("{built} of {listed} mutants compile as branches of one program"))?;

        let mut report = Report { unviable: mutants.len() - switched.len(), ..Report::default() };
        let own = program.tests(self.product.package(), self.product.features())?.measured()?;
        let missed = try_each(&own, &mutants, switched, &mut report, |mutant| self.nearest_tests(mutant))?;
        // What the tests of its package miss, those of the whole may catch: they take longer.
        if !missed.is_empty() {
            let whole = program
                .tests("inferstore-tests", &["--test=it"])?
                .filtered(self.product.tests())
                .measured()?;
            report.missed = try_each(&whole, &mutants, missed, &mut report, |_| None)?
                .into_iter()
                .map(|number| mutants[number].name.clone())
                .collect();
        }
        report.finish()
    }

    /// The mutants of the chosen files.
    fn list(&self, root: &Path) -> Result<Vec<Mutant>> {
        let mut command = cargo();
        command.args(["mutants", "--list", "--json", "--no-shuffle", "--package", self.product.package()]);
        command.args(NO_PRODUCT.map(|files| format!("--exclude={files}")));
        let file = |file| format!("--file={}/src/{file}", self.product.folder());
        command.args(self.product.files().iter().map(file)).current_dir(absolute(&root.join("."))?);
        let list = must("cargo-mutants", &mut command)?.stdout;
        let mut mutants: Vec<Mutant> =
            serde_json::from_slice(&list).context("cargo-mutants lists other JSON")?;
        mutants.retain(|mutant| self.only.as_ref().is_none_or(|only| mutant.name.contains(only)));
        ensure!(!mutants.is_empty(), "there is no such mutant");
        Ok(mutants)
    }

    /// The tests that stand beside the file, which probably catch it.
    fn nearest_tests(&self, mutant: &Mutant) -> Option<String> {
        let file = mutant.file.strip_prefix(self.product.folder())?.strip_prefix("/src/")?;
        let module = file.strip_suffix(".rs")?;
        Some(module.strip_suffix("/mod").unwrap_or(module).replace('/', "::"))
    }
}

/// Tries each of these mutants, and returns those that no test noticed.
fn try_each(
    tests: &Tests,
    mutants: &[Mutant],
    numbers: Vec<usize>,
    report: &mut Report,
    first: impl Fn(&Mutant) -> Option<String> + Sync,
) -> Result<Vec<usize>> {
    let (missed, count) = (Mutex::new((Vec::new(), report)), numbers.len());
    let next = Mutex::new(numbers.into_iter().enumerate());
    let work = || -> Result<()> {
        loop {
            let Some((index, number)) = locked(&next).next() else { return Ok(()) };
            let mutant = &mutants[number];
            let outcome = tests.run(number, first(mutant).as_deref())?;
            progress(&format!("{}/{count} {}: {}", index + 1, outcome.word(), mutant.name))?;
            let (missed, report) = &mut *locked(&missed);
            match outcome {
                Outcome::Caught => report.caught += 1,
                Outcome::TimedOut => report.timed_out += 1,
                Outcome::Missed => missed.push(number),
            }
        }
    };
    // Most tests wait most of the time.
    let jobs = 2 * thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })?;
    let (mut missed, _) = missed.into_inner().unwrap_or_else(PoisonError::into_inner);
    missed.sort_unstable();
    Ok(missed)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What became of the mutants.
#[derive(Default)]
struct Report {
    caught: usize,
    /// The tests did not end in several times their time: also noticed.
    timed_out: usize,
    missed: Vec<String>,
    /// What does not compile, or only not as a branch, as in constants.
    unviable: usize,
}

impl Report {
    /// The counts below the missed mutants. Fails when too many are missed.
    fn finish(&self) -> Result<String> {
        let Self { caught, timed_out, missed, unviable } = self;
        let noticed = caught + timed_out;
        let tried = noticed + missed.len();
        let share = if tried == 0 { 100.0 } else { 100.0 * noticed as f64 / tried as f64 };
        let lines: String = missed.iter().map(|name| format!("{name}\n")).collect();
        let report = format!(
            "{lines}\ncaught {caught}, timed out {timed_out}, missed {}, not compiled {unviable}: {share:.1} % caught\n",
            missed.len()
        );
        ensure!(share >= MIN_CAUGHT, "the tests catch less than {MIN_CAUGHT} % of the mutants\n{report}");
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_caught_mutants_fail_and_none_to_try_do_not() {
        let report = |caught, timed_out, missed: &[&str]| {
            let missed = missed.iter().map(|name| (*name).to_owned()).collect();
            Report { caught, timed_out, missed, unviable: 3 }.finish()
        };
        assert!(report(0, 0, &[]).is_ok());
        assert!(report(18, 1, &["a"]).is_ok());
        assert!(report(18, 0, &["a"]).is_err());
    }

    #[test]
    fn every_folder_that_is_changed_is_there() {
        for product in [Product::Client, Product::Service] {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(product.folder()).join("src");
            for file in product.files() {
                assert!(source.join(file.trim_end_matches("/**")).exists(), "{file}");
            }
        }
    }
}
