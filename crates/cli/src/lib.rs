//! The `inferstore` command, as a library, so that a test can run it in its own process.
//!
//! A command is a file under `commands/`: its arguments stand directly above its code. It gets a
//! session (settings, streams, terminal) and returns a failure or nothing. Data go to standard output
//! in the format that was asked for, everything else to standard error; the exit codes are those in
//! [`exit`].
//!
//! Imports run downward: `dispatch`, `cli`, `commands`, then output and session. No file below knows a command.

mod candidates;
mod cli;
mod codegen;
mod commands;
mod complete;
mod dispatch;
mod environment;
pub mod exit;
mod failure;
mod fields;
mod json;
mod lists;
mod markdown;
mod output;
mod profiles;
mod progress;
mod recorded;
mod schema;
mod settings;
mod table;
mod time;
mod values;
mod view;

use std::ffi::OsString;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

pub use environment::Environment;

use cli::Cli;
use failure::Failure;
use output::{Output, OutputOptions};
use settings::Session;

/// Runs the command with these arguments, the first of which is its name, and returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>, mut environment: Environment) -> u8 {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if let [_, only] = &arguments[..]
        && (only == "--version" || only == "-V")
    {
        // Half of the time of a process that prints this would go into the tree of all commands.
        let output = Output::new(&mut environment, OutputOptions::default());
        return output.end(output.bytes(concat!("inferstore ", env!("CARGO_PKG_VERSION"), "\n").as_bytes()));
    }
    let parsed = Cli::try_parse_from(&arguments).or_else(|error| {
        arguments = without_alias(&error, &arguments, &environment).ok_or(error)?;
        Cli::try_parse_from(&arguments)
    });
    match parsed {
        Ok(Cli { global, command }) => {
            let output = Output::new(&mut environment, global.output());
            let session = Session { global, environment, output: output.clone() };
            // Before anything is sent that may be paid.
            output.end(output.check_expression().and_then(|()| dispatch::execute(command, session)))
        }
        Err(error) => {
            let output = Output::new(&mut environment, OutputOptions::default());
            let foreign = arguments.iter().find(|argument| argument.to_str().is_none());
            if let Some(foreign) = foreign.filter(|_| error.kind() == ErrorKind::InvalidUtf8) {
                let failure = Failure::usage(format!("the argument {foreign:?} is not UTF-8"));
                return output.end(Err(failure.with_hint("rename the file; nothing was sent")));
            }
            usage_error(&error, &output)
        }
    }
}

/// Replaces the alias that stands where clap expects a command.
fn without_alias(
    error: &clap::Error,
    arguments: &[OsString],
    environment: &Environment,
) -> Option<Vec<OsString>> {
    let ContextValue::String(alias) = error.get(ContextKind::InvalidSubcommand)? else { return None };
    let place = arguments.iter().position(|argument| argument == alias.as_str())?;
    let (before, [_, after @ ..]) = arguments.split_at(place) else { return None };
    // Below a command, such as `files`, no alias is meant.
    let root = command();
    if before.iter().skip(1).any(|word| root.find_subcommand(word).is_some()) {
        return None;
    }
    let words = commands::alias::words_of(alias, environment)?.into_iter().map(OsString::from);
    Some(before.iter().cloned().chain(words).chain(after.iter().cloned()).collect())
}

/// The whole tree of commands.
#[must_use]
pub fn command() -> clap::Command {
    cli::tree()
}

/// The reference of all commands, in Markdown.
#[must_use]
pub fn reference() -> String {
    markdown::reference(&command())
}

/// A manual page for each command: its file name, and the page.
#[must_use]
pub fn manual() -> Vec<(String, Vec<u8>)> {
    commands::reference::manual(&command())
}

/// Completes the words of a shell if it asks, and ends the process then.
pub fn complete() {
    clap_complete::CompleteEnv::with_factory(command).var(commands::completions::VARIABLE).complete();
}

/// The command that was mistyped, where clap finds none that is similar: it does not know swapped letters.
fn nearest_command(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let ContextValue::String(typed) = error.get(ContextKind::InvalidSubcommand)? else { return None };
    // Words of other tools.
    let own = match typed.as_str() {
        "list" | "ls" => "models list",
        "upload" | "put" | "cp" => "files upload",
        "download" | "get" => "files download",
        "rm" | "delete" => "files delete",
        "sync" => "files sync",
        "ps" | "history" => "task list",
        "logs" => "task logs @last",
        "config" | "configure" => "profile",
        _ => "",
    };
    if !own.is_empty() {
        return Some(own.to_owned());
    }
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return None;
    }
    let root = command();
    let names = root.get_subcommands().map(clap::Command::get_name);
    inferstore::nearest(typed, names).map(str::to_owned)
}

/// Prints the help, the version, or what is wrong with the arguments.
fn usage_error(error: &clap::Error, output: &Output) -> u8 {
    if !error.use_stderr() {
        return output.end(output.help(&error.render()));
    }
    // Without color: what was typed is masked, and so would colors be.
    for line in error.render().to_string().trim_end().lines() {
        output.error_line(line);
    }
    if let Some(nearest) = nearest_command(error) {
        output.error_line("");
        output.error_line(format!("hint: did you mean `inferstore {nearest}`?"));
    }
    exit::USAGE
}
