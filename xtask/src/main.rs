//! Repository tasks, as `cargo xtask <task>`.

mod api;
mod bench;
mod consumers;
mod contract;
mod coverage;
mod descriptions;
mod diff;
mod document;
mod flows;
mod fuzz;
mod generate;
mod leash;
mod lint;
mod lower;
mod mutants;
mod package;
mod polish;
mod publish;
mod recipes;
mod service;
mod tables;
mod tidy;
mod tools;
mod torture;
mod validate;
mod words;

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
Repository tasks

  cargo xtask generate            write crates/api/src/generated.rs from openapi/inferstore.yaml
  cargo xtask generate --check    compare instead; fails when it is not up to date
  cargo xtask lint                run the three OpenAPI linters over the document
  cargo xtask diff [OLD] [NEW]    compare two versions of the document: what changed, which callers
                                  break; --help for more
  cargo xtask publish             write target/publish, for other teams; --prove opens it in a browser,
                                  --release keeps the document in openapi/published
  cargo xtask contract            drive the service with clients generated from what is published: those
                                  of CI, --all or --only NAME; --all --publish writes
                                  openapi/generators.md; --prepare only generates and compiles;
                                  --base-url URL with --api-key-env NAME drives a service that runs
                                  already
  cargo xtask flows               run the published flows and curl recipes, which `contract` does too;
                                  --base-url URL --api-key-env NAME runs them against a running service
  cargo xtask torture [NAME]      try hard, under faults, kills, attacks and load, what `cargo test` tries a
                                  little; --seed N repeats a run, --minutes N bounds it, --help names
                                  the parts
  cargo xtask fuzz [TARGET]       run the fuzz targets of tests/fuzz, each for --seconds N, from --seed N;
                                  --keep adds what reaches further to the kept corpus
  cargo xtask coverage [PATH]     tell which share of each crate's code the tests run, and with a path, the
                                  lines below it that they do not; --again reads the last run anew
  cargo xtask bench [PART]        measure everything beside what one would use instead; writes
                                  target/scoreboard.json, and with --publish docs/scoreboard.md
  cargo xtask api                 compare the public API of the published crates with their public-api.txt, and
                                  with the last release; --update writes those files
  cargo xtask package             check the packages of the published crates: their files, and the Rust version
                                  that each dependency needs
  cargo xtask mutants client      change the client in one place at a time and see which changes no test of it
                                  notices; --all tries these on the tests of the workspace, --file GLOB
                                  takes other files
  cargo xtask tidy                check the rules of the repository

generate also takes --document FILE and --output FILE, in place of the two above.
";

/// How `diff` ends when there is nothing to compare.
const NOT_COMPARED: u8 = 2;

fn main() -> ExitCode {
    if env::var_os(api::AS_RUSTDOC).is_some() {
        return api::rustdoc();
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok((report, code)) => {
            // Whoever closes the pipe has read enough.
            let _ = write!(io::stdout(), "{report}");
            code
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            // A 1 of `diff` says that something breaks.
            if arguments.first().is_some_and(|task| task == "diff") {
                ExitCode::from(NOT_COMPARED)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

/// Runs one task and returns what it has to say, and how it ended.
fn run(arguments: &[&str]) -> Result<(String, ExitCode)> {
    match arguments {
        ["diff", options @ ..] => diff::Job::read(&root()?, options)?.run(),
        others => Ok((report(others)?, ExitCode::SUCCESS)),
    }
}

/// Runs a task that ends well or with an error.
fn report(arguments: &[&str]) -> Result<String> {
    match arguments {
        ["generate", options @ ..] => {
            let root = root()?;
            let mut job = generate::Job {
                document: root.join("openapi/inferstore.yaml"),
                output: root.join("crates/api/src/generated.rs"),
                check: false,
            };
            let mut options = options.iter();
            while let Some(option) = options.next() {
                match *option {
                    "--check" => job.check = true,
                    "--document" => job.document = value(option, options.next())?,
                    "--output" => job.output = value(option, options.next())?,
                    other => bail!("generate has no option {other}\n\n{USAGE}"),
                }
            }
            job.run()
        }
        ["lint"] => lint::lint(&root()?),
        ["publish", options @ ..] => {
            let root = root()?;
            let mut job = publish::Job { root: &root, prove: false, release: false };
            for option in options {
                match *option {
                    "--prove" => job.prove = true,
                    "--release" => job.release = true,
                    other => bail!("publish has no option {other}\n\n{USAGE}"),
                }
            }
            job.run()
        }
        [task @ ("contract" | "flows"), "--help" | "-h"] => Ok(usage_of(task)),
        ["contract", options @ ..] => contract::Job::read(&root()?, options)?.run(),
        ["flows", options @ ..] => flows::task(&root()?, options),
        ["torture", options @ ..] => torture::Job::read(&root()?, options)?.run(),
        ["fuzz", options @ ..] => fuzz::Job::read(&root()?, options)?.run(),
        ["coverage", options @ ..] => coverage::Job::read(&root()?, options)?.run(),
        ["bench", options @ ..] => bench::Job::read(&root()?, options)?.run(),
        ["api", options @ ..] => api::task(&root()?, options),
        ["package"] => package::task(&root()?),
        ["mutants", options @ ..] => mutants::Job::read(&root()?, options)?.run(),
        ["tidy"] => tidy::tidy(&root()?),
        ["help" | "--help" | "-h"] => Ok(USAGE.to_owned()),
        [] => bail!("which task?\n\n{USAGE}"),
        other => bail!("there is no task `{}`\n\n{USAGE}", other.join(" ")),
    }
}

/// The lines of the usage that describe a task.
fn usage_of(task: &str) -> String {
    let first = format!("  cargo xtask {task} ");
    let lines: Vec<&str> = USAGE.lines().skip_while(|line| !line.starts_with(&first)).collect();
    let further = lines.iter().skip(1).take_while(|line| line.starts_with("    ")).count();
    format!("{}\n", lines[..=further].join("\n"))
}

fn value(option: &str, value: Option<&&str>) -> Result<PathBuf> {
    value.map(PathBuf::from).with_context(|| format!("{option} needs a file"))
}

/// The root of the repository. Paths below it are shown relative to it when the task runs there.
fn root() -> Result<PathBuf> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let root = Path::new(&manifest).parent().context("xtask stands in no workspace")?;
    Ok(if env::current_dir().is_ok_and(|current| current == root) { PathBuf::new() } else { root.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_a_task_is_its_lines_alone() {
        let usage = usage_of("flows");
        assert!(
            usage.starts_with("  cargo xtask flows ") && usage.ends_with("a running service\n"),
            "{usage}"
        );
        assert_eq!(usage.matches("cargo xtask").count(), 1);
    }
}
