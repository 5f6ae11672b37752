//! Repository tasks, as `cargo xtask <task>`.

mod document;
mod generate;
mod lint;
mod lower;
mod polish;
mod tidy;
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
  cargo xtask tidy                check the rules of the repository

generate also takes --document FILE and --output FILE, in place of the two above.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(report) => {
            // Whoever closes the pipe has read enough.
            let _ = write!(io::stdout(), "{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one task and returns what it has to say.
fn run(arguments: &[&str]) -> Result<String> {
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
        ["tidy"] => tidy::tidy(&root()?),
        ["help" | "--help" | "-h"] => Ok(USAGE.to_owned()),
        [] => bail!("which task?\n\n{USAGE}"),
        other => bail!("there is no task `{}`\n\n{USAGE}", other.join(" ")),
    }
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
