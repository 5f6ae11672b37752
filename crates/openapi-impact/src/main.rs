//! The command `openapi-impact`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use openapi_impact::{Uses, compare, html, json, load, markdown, text};

const NOT_COMPARED: u8 = 2;

/// Compare two versions of an OpenAPI 3.0 document: what changed, and which callers break.
///
/// With --uses, only what breaks one caller is reported. The exit code is 0 when nothing breaks, 1 when something does, 2
/// when nothing was compared.
#[derive(Parser)]
#[command(version, max_term_width = 110)]
struct Arguments {
    /// The old document.
    old: PathBuf,
    /// The new document.
    new: PathBuf,
    /// The uses of one caller: a list of operations, or the folder of its source code.
    ///
    /// A line of the list is an operationId, or a method and a path; `: status, cost` after it names the fields of its
    /// responses that are read. `kind NAME` is a model kind. `client NAME` is the generator of the caller's client, such as
    /// `Go`, and `client none` code that is written by hand.
    #[arg(long, value_name = "FILE|FOLDER")]
    uses: Option<PathBuf>,
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Html,
    Markdown,
}

impl Arguments {
    fn run(&self) -> Result<(String, bool)> {
        let old = load(&self.old)?;
        let new = load(&self.new)?;
        let mut changes = compare(&old, &new);
        let mut caller = String::new();
        let mut is_broken = changes.breaks();
        if let Some(path) = &self.uses {
            let uses = Uses::load(path, &old)?;
            changes = changes.for_caller(&uses, &old, &new);
            is_broken = !changes.list.is_empty();
            let operations: Vec<&str> = uses.operations().collect();
            caller = format!("for a caller of {}", operations.join(", "));
        }
        let (old_name, new_name) = (self.old.display().to_string(), self.new.display().to_string());
        let report = match self.format {
            Format::Json => json(&changes)?,
            Format::Markdown => markdown(&changes),
            Format::Html => html(&changes, format!("{old_name} → {new_name} {caller}").trim_end()),
            Format::Text if caller.is_empty() => text(&changes, (&old, &old_name), (&new, &new_name)),
            Format::Text => format!("{caller}\n{}", text(&changes, (&old, &old_name), (&new, &new_name))),
        };
        Ok((report, is_broken))
    }
}

fn main() -> ExitCode {
    match Arguments::parse().run() {
        Ok((report, is_broken)) => {
            // A closed pipe is no failure: its reader has read enough.
            let _ = write!(io::stdout(), "{report}");
            if is_broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(NOT_COMPARED)
        }
    }
}
