//! `openapi-impact OLD NEW`: prints what changed between two documents, and which callers break.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use openapi_impact::{Severity, compare, json, load, text};

/// Compares two versions of an OpenAPI 3 document: what changed, and which callers break
///
/// A breaking change names the generated clients that it breaks, unless it breaks all of them. The exit code is 0
/// when nothing breaks, 1 when something does, 2 when a document cannot be read.
#[derive(Parser)]
struct Arguments {
    /// The document as it was
    old: PathBuf,
    /// The document as it is
    new: PathBuf,
    /// The format of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok((report, code)) => {
            // A closed pipe ends the report, and is no failure.
            let _ = write!(io::stdout(), "{report}");
            ExitCode::from(code)
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<(String, u8)> {
    let old = load(&arguments.old)?;
    let new = load(&arguments.new)?;
    let changes = compare(&old, &new);
    let report = match arguments.format {
        Format::Json => json(&changes)?,
        Format::Text => {
            let old_name = arguments.old.display().to_string();
            text(&changes, (&old, &old_name), &arguments.new.display().to_string())
        }
    };
    let code = u8::from(changes.verdict() == Some(Severity::Breaking));
    Ok((report, code))
}
