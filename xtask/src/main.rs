//! Repository tasks, as `cargo xtask <task>`. The alias builds this program without the generator, which most of its
//! dependencies are for; such a program starts the whole one for the tasks that generate.

#![cfg_attr(
    not(feature = "generator"),
    expect(dead_code, reason = "the tasks that generate use the rest of these modules")
)]

#[cfg(feature = "generator")]
mod api;
mod bench;
mod dependencies;
#[cfg(feature = "generator")]
mod descriptions;
mod diff;
mod document;
#[cfg(feature = "generator")]
mod drift;
#[cfg(not(feature = "generator"))]
mod forward;
mod fuzz;
#[cfg(feature = "generator")]
mod generate;
mod links;
#[cfg(feature = "generator")]
mod lint;
#[cfg(feature = "generator")]
mod lower;
mod package;
#[cfg(feature = "generator")]
mod places;
#[cfg(feature = "generator")]
mod polish;
#[cfg(feature = "generator")]
mod publish;
#[cfg(feature = "generator")]
mod reference;
#[cfg(feature = "generator")]
mod scaffold;
#[cfg(feature = "generator")]
mod sdk;
mod stress;
#[cfg(feature = "generator")]
mod sync;
#[cfg(feature = "generator")]
mod tables;
mod tidy;
#[cfg(feature = "generator")]
mod validate;
#[cfg(feature = "generator")]
mod words;

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

#[cfg(not(feature = "generator"))]
use self::{
    forward as api, forward as drift, forward as generate, forward as publish, forward as scaffold,
    forward as sync,
};

/// The repository tasks of Inferstore. `cargo xtask TASK --help` describes one.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true, max_term_width = 110)]
enum Task {
    /// Bring everything that follows from the document up to date, check it, and print what is left to do by hand.
    ///
    /// It validates the document; writes the generated code, the reference of the console and, where signatures changed, the
    /// public API of inferstore-api; checks the descriptions and examples; runs the linters, if something that they read has
    /// changed; and lists what changed since HEAD, with who breaks. The exit code is 1 when something is wrong, and with
    /// --check also when a file is stale or something is left to do.
    Sync(sync::Job),
    /// Write the mechanical part of a field, a word, an operation or a model kind.
    ///
    /// An addition gets the sign † of our decisions, because the original description does not have it. Run `cargo xtask sync`
    /// afterwards; it lists what is left to do by hand.
    Scaffold(scaffold::Job),
    /// Write what is generated from openapi/inferstore.yaml, which is validated first: crates/api/src/generated.rs, the types
    /// of the tests, the reference of the console, the part that programs embed, the types of the Python and TypeScript packages.
    Generate(generate::Job),
    Diff(diff::Job),
    /// Compare the responses of a live installation with the document, by read-only calls.
    ///
    /// It calls every GET of the document and the list of models, with the first model, the first task and the folders that
    /// it finds, and names every field, word, null and type that the document does not have, without values. The key stands
    /// in INFERSTORE_API_KEY. The exit code is 0 when nothing differs, 1 when something does, 2 when the installation cannot
    /// be asked.
    Drift(drift::Job),
    /// Write target/publish, a folder for other teams.
    Publish(publish::Job),
    Contract(inferstore_contract::Job),
    Stress(stress::Job),
    Fuzz(fuzz::Job),
    Bench(bench::Job),
    /// Compare the public API of the published crates with their public-api.txt, and with the last release.
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
    #[cfg(feature = "generator")]
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

fn run(task: Task) -> Result<(String, ExitCode)> {
    let root = &root()?;
    let report = match task {
        Task::Diff(job) => return job.run(root),
        #[cfg(feature = "generator")]
        Task::Drift(job) => return job.run(root),
        #[cfg(feature = "generator")]
        Task::Sync(job) => job.run(root),
        #[cfg(feature = "generator")]
        Task::Scaffold(job) => job.run(root),
        #[cfg(feature = "generator")]
        Task::Generate(job) => job.run(root),
        #[cfg(feature = "generator")]
        Task::Publish(job) => job.run(root),
        Task::Contract(job) => job.run(root),
        Task::Stress(job) => job.run(root),
        Task::Fuzz(job) => job.run(root),
        Task::Bench(job) => job.run(root),
        #[cfg(feature = "generator")]
        Task::Api(job) => job.run(root),
        Task::Package(job) => job.run(root),
        Task::Dependencies => dependencies::task(root),
        Task::Tidy => tidy::tidy(root),
        #[cfg(not(feature = "generator"))]
        _ => return forward::run(),
    };
    Ok((report?, ExitCode::SUCCESS))
}

/// The root of the repository. Paths below it are shown relative to it when the task runs there.
fn root() -> Result<PathBuf> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let root = Path::new(&manifest).parent().context("xtask is in no workspace")?;
    Ok(if env::current_dir().is_ok_and(|current| current == root) { PathBuf::new() } else { root.to_owned() })
}
