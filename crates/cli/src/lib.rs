//! The `inferstore` command, as a library, so that a test can run it in its own process.
//!
//! A command is a file under `commands/`: its arguments stand directly above its code. It gets a
//! session (settings, streams, terminal) and returns a failure or nothing. Data go to standard output
//! in the format that was asked for, everything else to standard error; the exit codes are those in
//! [`exit`].

mod cli;
mod codegen;
mod commands;
mod environment;
pub mod exit;
mod failure;
mod last_response;
mod lists;
mod markdown;
mod output;
mod profiles;
mod progress;
mod schema;
mod settings;
mod table;
mod values;
#[cfg(feature = "show")]
mod view;

use std::ffi::OsString;

use clap::{CommandFactory, Parser};

pub use environment::Environment;

use cli::Cli;
use last_response::LastResponse;
use output::{Format, Output};
use settings::Session;

/// Runs the command with these arguments, the first of which is its name, and returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>, mut environment: Environment) -> u8 {
    match Cli::try_parse_from(arguments) {
        Ok(Cli { global, command }) => {
            let output = Output::new(&mut environment, global.format, global.verbose);
            let last_response = LastResponse::default();
            let session = Session { global, environment, output: output.clone(), last_response };
            output.end(commands::execute(command, session))
        }
        Err(error) => {
            let output = Output::new(&mut environment, Format::Table, false);
            usage_error(&error, &output)
        }
    }
}

/// The whole tree of commands.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// The reference of all commands, in Markdown.
#[must_use]
pub fn reference() -> String {
    markdown::reference(&command())
}

/// The help, the version, or what is wrong with the arguments.
fn usage_error(error: &clap::Error, output: &Output) -> u8 {
    let text = error.render().to_string();
    if error.use_stderr() {
        output.note(text.trim_end());
        exit::USAGE
    } else {
        output.end(output.bytes(text.as_bytes()))
    }
}
