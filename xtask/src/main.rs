//! Repository tasks, as `cargo xtask <task>`.

mod api;
mod bench;
mod coverage;
mod dependencies;
mod descriptions;
mod diff;
mod document;
mod drift;
mod fuzz;
mod generate;
mod links;
mod lint;
mod lower;
mod package;
mod places;
mod polish;
mod publish;
mod reference;
mod sdk;
mod stress;
mod sync;
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
    Sync(sync::Job),
    Generate(generate::Job),
    Diff(diff::Job),
    Drift(drift::Job),
    Publish(publish::Job),
    Contract(inferstore_contract::Job),
    Flows(inferstore_contract::flows::Job),
    Stress(stress::Job),
    Fuzz(fuzz::Job),
    Coverage(coverage::Job),
    Bench(bench::Job),
    Api(api::Job),
    Package(package::Job),
    /// Check the licenses and the second versions of the dependencies, without a network.
    Dependencies,
    /// Check the rules of the repository.
    Tidy,
}

/// The exit code of `diff` and `drift` when there is nothing to compare. Their 1 says that something differs.
const NOT_COMPARED: u8 = 2;

fn main() -> ExitCode {
    if env::var_os(api::AS_RUSTDOC).is_some() {
        return api::rustdoc();
    }
    let task = Task::parse();
    let failure = if matches!(task, Task::Diff(_) | Task::Drift(_)) {
        ExitCode::from(NOT_COMPARED)
    } else {
        ExitCode::FAILURE
    };
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
        Task::Drift(job) => return job.run(root),
        Task::Sync(job) => job.run(root),
        Task::Generate(job) => job.run(root),
        Task::Publish(job) => job.run(root),
        Task::Contract(job) => job.run(root),
        Task::Flows(job) => job.run(root),
        Task::Stress(job) => job.run(root),
        Task::Fuzz(job) => job.run(root),
        Task::Coverage(job) => job.run(root),
        Task::Bench(job) => job.run(root),
        Task::Api(job) => job.run(root),
        Task::Package(job) => job.run(root),
        Task::Dependencies => dependencies::task(root),
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
