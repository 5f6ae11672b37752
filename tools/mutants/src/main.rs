//! Mutation testing with one build: `cargo run -p inferstore-mutants -- client`. cargo-mutants lists the
//! mutations; all are compiled into one program as branches, and each is run with the tests that reach it.

mod program;
mod switches;
mod trials;

use std::io::{self, Write};
use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use inferstore_contract::tools::{absolute, cargo, must, need_subcommand, progress};
use program::Program;
use switches::Mutant;
use trials::{Tests, Verdict};

const MIN_CAUGHT: f64 = 95.0;
const OUTPUT: &str = "target/mutants";

const NO_PRODUCT: [&str; 5] =
    ["**/tests.rs", "**/*_tests.rs", "**/tests/**", "**/conformance/**", "**/fuzzed.rs"];

/// Change one expression of the code at a time and report which changes no test notices.
#[derive(Parser)]
#[command(bin_name = "cargo run -p inferstore-mutants --")]
struct Job {
    product: Product,
    /// Try the mutants alone whose name contains this text, such as a file and a line, or one of several.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
}

/// Changed files, and the tests that are run.
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

    /// Returns the tests in their order, the quickest first: later ones run for mutants alone that earlier ones miss. Each
    /// has a package, options of its build, and arguments of its programs.
    fn tests(self) -> Vec<(&'static str, Vec<&'static str>, &'static [&'static str])> {
        let own = (self.package(), self.features().to_vec(), &[][..]);
        let whole = |filters: &'static [&'static str]| ("inferstore-tests", vec!["--test=it"], filters);
        match self {
            Self::Client => vec![own, whole(&["client::"])],
            Self::Service => vec![
                own,
                // These start a PostgreSQL, as the alias `test-postgres` selects them.
                (
                    self.package(),
                    [self.features(), &["--lib"]].concat(),
                    &["--ignored", "database::postgres", "--skip=measure::", "--skip=a_process_opens"],
                ),
                whole(&[
                    "service::",
                    "nodes::",
                    "stress::authorization::",
                    "stress::disk::",
                    "stress::models::",
                    "stress::money::",
                    "stress::uploads::",
                ]),
            ],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Service => "service",
        }
    }

    fn source(self) -> String {
        format!("crates/{}/src/", self.name())
    }

    fn features(self) -> &'static [&'static str] {
        match self {
            Self::Client => &[],
            Self::Service => &["--features=postgres"],
        }
    }

    /// Returns the mutated files: money, tasks and files depend on them.
    fn files(self) -> &'static [&'static str] {
        match self {
            Self::Client => &["files/**", "memory.rs", "run/**", "transport/**"],
            Self::Service => {
                &["database/**", "jobs/**", "ledger/**", "nodes/**", "object_storage/**", "queue/**"]
            }
        }
    }
}

fn main() -> ExitCode {
    match Job::parse().run(Path::new("")) {
        Ok(report) => {
            // A closed pipe is no failure: its reader has read enough.
            let _ = write!(io::stdout(), "{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

impl Job {
    fn run(&self, root: &Path) -> Result<String> {
        need_subcommand("mutants")?;
        let mutants = self.list(root)?;
        let mut program = Program::copy(root, &root.join(OUTPUT), self.product)?;
        let switched = program.switch(&mutants)?;
        let (built, listed) = (switched.len(), mutants.len());
        progress(&format!("{built} of {listed} mutants compile as branches of one program"))?;

        let (mut tried, mut missed) = (Vec::new(), switched);
        for (package, options, arguments) in self.product.tests() {
            if missed.is_empty() {
                break;
            }
            let tests = program.tests(package, &options, arguments)?;
            tried.retain(|(_, outcome)| *outcome != Verdict::Missed);
            tried.extend(try_each(&tests, &mutants, &missed)?);
            let still = tried.iter().filter(|(_, outcome)| *outcome == Verdict::Missed);
            missed = still.map(|(number, _)| *number).collect();
        }
        let count = |outcome| tried.iter().filter(|it| it.1 == outcome).count();
        let missed = tried.iter().filter(|it| it.1 == Verdict::Missed);
        let report = Report {
            caught: count(Verdict::Caught),
            timed_out: count(Verdict::TimedOut),
            missed: missed.map(|(number, _)| mutants[*number].name.clone()).collect(),
            unviable: listed - built,
        };
        report.finish()
    }

    fn list(&self, root: &Path) -> Result<Vec<Mutant>> {
        let mut command = cargo();
        command.args(["mutants", "--list", "--json", "--no-shuffle", "--package", self.product.package()]);
        command.args(NO_PRODUCT.map(|files| format!("--exclude={files}")));
        let file = |file| format!("--file={}{file}", self.product.source());
        command.args(self.product.files().iter().map(file)).current_dir(absolute(&root.join("."))?);
        let list = must("cargo-mutants", &mut command)?.stdout;
        let mut mutants: Vec<Mutant> =
            serde_json::from_slice(&list).context("cargo-mutants lists other JSON")?;
        mutants
            .retain(|mutant| self.only.is_empty() || self.only.iter().any(|only| mutant.name.contains(only)));
        ensure!(!mutants.is_empty(), "there is no such mutant");
        Ok(mutants)
    }
}

fn try_each(tests: &Tests, mutants: &[Mutant], numbers: &[usize]) -> Result<Vec<(usize, Verdict)>> {
    in_parallel(numbers, |index, &number| {
        let outcome = tests.run(number)?;
        let count = numbers.len();
        progress(&format!("{}/{count} {}: {}", index + 1, outcome.word(), mutants[number].name))?;
        Ok((number, outcome))
    })
}

fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(usize, &T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, R)>> {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return Ok(done) };
            done.push((index, work(index, item)?));
        }
    };
    // More jobs than cores, because tests mostly wait.
    let jobs = 2 * thread::available_parallelism().map_or(1, NonZero::get);
    let mut done: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let results = workers.into_iter().map(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic)));
        results.collect::<Result<Vec<_>>>()
    })?
    .into_iter()
    .flatten()
    .collect();
    done.sort_unstable_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

struct Report {
    caught: usize,
    /// Timeouts of several times the usual time; they count as caught.
    timed_out: usize,
    missed: Vec<String>,
    /// Mutants that do not compile, or not as a branch, such as in constants.
    unviable: usize,
}

impl Report {
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
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(product.source());
            for file in product.files() {
                assert!(source.join(file.trim_end_matches("/**")).exists(), "{file}");
            }
        }
    }
}
