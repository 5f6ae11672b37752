//! Repository tasks, as `cargo xtask <task>`.

mod api;
mod bench;
mod coverage;
mod dependencies;
mod descriptions;
mod diff;
mod document;
mod fuzz;
mod generate;
mod lint;
mod lower;
mod mutants;
mod package;
mod polish;
mod publish;
mod stress;
mod tables;
mod tidy;
mod validate;
mod words;

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

/// The repository tasks of Inferstore. `cargo xtask TASK --help` describes one.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true, max_term_width = 110)]
enum Task {
    Generate(generate::Job),
    /// Run the three OpenAPI linters over the document.
    Lint,
    Diff(diff::Job),
    Publish(publish::Job),
    Contract(inferstore_contract::Job),
    Flows(inferstore_contract::flows::Job),
    Stress(stress::Job),
    Fuzz(fuzz::Job),
    Coverage(coverage::Job),
    Bench(bench::Job),
    Api(api::Job),
    /// Check the packages of the published crates: their files, and the Rust that each dependency needs.
    Package,
    /// Check the licenses and the second versions of the dependencies, without a network.
    Dependencies,
    Mutants(mutants::Job),
    /// Check the rules of the repository.
    Tidy,
}

/// The exit code of `diff` when there is nothing to compare. Its 1 says that something breaks.
const NOT_COMPARED: u8 = 2;

fn main() -> ExitCode {
    if env::var_os(api::AS_RUSTDOC).is_some() {
        return api::rustdoc();
    }
    let task = Task::parse();
    let failure =
        if matches!(task, Task::Diff(_)) { ExitCode::from(NOT_COMPARED) } else { ExitCode::FAILURE };
    match run(task) {
        Ok((report, code)) => {
            // A closed pipe is no failure: its reader has read enough.
            let _ = write!(io::stdout(), "{report}");
            code
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            failure
        }
    }
}

/// Runs one task; returns its report and its exit code.
fn run(task: Task) -> Result<(String, ExitCode)> {
    let root = &root()?;
    let report = match task {
        Task::Diff(job) => return job.run(root),
        Task::Generate(job) => job.run(root),
        Task::Lint => lint::lint(root),
        Task::Publish(job) => job.run(root),
        Task::Contract(job) => job.run(root),
        Task::Flows(job) => job.run(root),
        Task::Stress(job) => job.run(root),
        Task::Fuzz(job) => job.run(root),
        Task::Coverage(job) => job.run(root),
        Task::Bench(job) => job.run(root),
        Task::Api(job) => job.run(root),
        Task::Package => package::task(root),
        Task::Dependencies => dependencies::task(root),
        Task::Mutants(job) => job.run(root),
        Task::Tidy => tidy::tidy(root),
    };
    Ok((report?, ExitCode::SUCCESS))
}

/// The root of the repository. Paths below it are shown relative to it when the task runs there.
fn root() -> Result<PathBuf> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let root = Path::new(&manifest).parent().context("xtask is in no workspace")?;
    Ok(if env::current_dir().is_ok_and(|current| current == root) { PathBuf::new() } else { root.to_owned() })
}

/// A line about a task that takes minutes.
fn progress(line: &str) -> Result<()> {
    writeln!(io::stderr(), "{line}").context("cannot write to standard error")
}
