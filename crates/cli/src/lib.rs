//! The `inferstore` command, as a library, so that a test can run it in its own process.
//!
//! A command is a file under `commands/`: its arguments stand directly above its code. It gets a
//! session (settings, streams, terminal) and returns a failure or nothing. Data go to standard output
//! in the format that was asked for, everything else to standard error; the exit codes are those in
//! [`exit`].

mod cli;
#[cfg(feature = "codegen")]
mod codegen;
mod commands;
mod complete;
mod environment;
pub mod exit;
mod failure;
mod fields;
mod json;
mod last_response;
mod lists;
mod markdown;
mod output;
mod profiles;
mod progress;
mod schema;
mod settings;
mod table;
mod time;
mod values;
mod view;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

pub use environment::Environment;

use cli::Cli;
use failure::Failure;
use last_response::LastResponse;
use output::{Output, OutputOptions};
use settings::Session;

/// Runs the command with these arguments, the first of which is its name, and returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>, mut environment: Environment) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match Cli::try_parse_from(&arguments) {
        Ok(Cli { global, command }) => {
            let output = Output::new(&mut environment, global.output());
            let last_response = LastResponse::default();
            let session = Session { global, environment, output: output.clone(), last_response };
            // Before anything is sent that may be paid.
            output.end(output.check_expression().and_then(|()| commands::execute(command, session)))
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

/// A manual page for each command: its file name, and the page.
#[must_use]
pub fn manual() -> Vec<(String, Vec<u8>)> {
    fn pages(command: &clap::Command, name: &str, all: &mut Vec<(String, Vec<u8>)>) {
        let own = command.clone().name(name.to_owned()).disable_help_subcommand(true);
        let mut page = Vec::new();
        // Writing into memory cannot fail.
        let _ = clap_mangen::Man::new(own).date("").render(&mut page);
        all.push((format!("{name}.1"), page));
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            pages(below, &format!("{name}-{}", below.get_name()), all);
        }
    }
    let mut root = command();
    root.build();
    let mut all = Vec::new();
    pages(&root, "inferstore", &mut all);
    all
}

/// Completes the words of a shell if it asks, and ends the process then.
pub fn complete() {
    clap_complete::CompleteEnv::with_factory(command).var(commands::completions::VARIABLE).complete();
}

/// The command that was mistyped, where clap finds none that is similar: it does not know swapped letters.
fn nearest_command(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand || error.get(ContextKind::SuggestedSubcommand).is_some() {
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
        "logs" => "task show",
        "config" | "configure" => "profile",
        _ => "",
    };
    if !own.is_empty() {
        return Some(own.to_owned());
    }
    let root = command();
    let names = root.get_subcommands().map(clap::Command::get_name);
    failure::nearest(typed, names).map(str::to_owned)
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
