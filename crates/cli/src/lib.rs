//! The `inferstore` command, as a library, so that a test can run it in its own process.
//!
//! A command is a file under `commands/`, with its arguments directly above its code. It gets a session (settings,
//! streams, terminal) and returns a failure or nothing. Data go to standard output in the chosen format, everything
//! else to standard error; the exit codes are in [`exit`].
//!
//! Imports run downward: `cli`, `commands`, then output and session. No file below knows a command.

mod candidates;
mod cli;
mod codegen;
mod commands;
mod complete;
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
mod prompt;
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
            output.end(output.check_expression().and_then(|()| cli::execute(command, session)))
        }
        Err(error) => {
            let output = Output::new(&mut environment, OutputOptions::default());
            let foreign = arguments.iter().find(|argument| argument.to_str().is_none());
            if let Some(foreign) = foreign.filter(|_| error.kind() == ErrorKind::InvalidUtf8) {
                let failure = Failure::usage(format!("the argument {foreign:?} is not UTF-8"));
                return output.end(Err(failure.with_hint("rename the file; nothing was sent")));
            }
            usage_error(error, &arguments, &output)
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
    let place = place_of_command(alias, arguments)?;
    let (before, [_, after @ ..]) = arguments.split_at(place) else { return None };
    let words = commands::alias::words_of(alias, environment)?.into_iter().map(OsString::from);
    Some(before.iter().cloned().chain(words).chain(after.iter().cloned()).collect())
}

/// The place of a word where the first command stands; none if it stands below a command, such as `files`.
fn place_of_command(word: &str, arguments: &[OsString]) -> Option<usize> {
    let place = arguments.iter().position(|argument| argument == word)?;
    let root = command();
    let is_first = |before: &[OsString]| before.iter().all(|word| root.find_subcommand(word).is_none());
    arguments.get(1..place).is_some_and(is_first).then_some(place)
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

/// The command for a word that is none: another tool's word, the second of two words, or a mistyped word.
fn nearest_command(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let ContextValue::String(typed) = error.get(ContextKind::InvalidSubcommand)? else { return None };
    place_of_command(typed, arguments)?;
    let own = match typed.as_str() {
        "list" | "ls" => Some("models list"),
        "show" => Some("task show @last"),
        "put" | "cp" => Some("files upload"),
        "get" => Some("files download"),
        "rm" | "delete" => Some("files delete"),
        "ps" | "history" => Some("task list"),
        "logs" => Some("task logs @last"),
        "config" | "configure" => Some("profile"),
        _ => None,
    };
    let root = command();
    let groups = root.get_subcommands().filter(|group| !group.is_hide_set());
    // The commands of operators are no one's first thought.
    let inner = groups.filter(|group| group.get_name() != "admin").find_map(|group| {
        let command = group.get_subcommands().find(|command| command.get_name() == typed)?;
        Some(format!("{} {}", group.get_name(), command.get_name()))
    });
    let visible = root.get_subcommands().filter(|command| !command.is_hide_set());
    let nearest = || inferstore::nearest(typed, visible.map(clap::Command::get_name)).map(str::to_owned);
    own.map(str::to_owned).or(inner).or_else(nearest)
}

/// Prints the help, the version, or what is wrong with the arguments.
fn usage_error(mut error: clap::Error, arguments: &[OsString], output: &Output) -> u8 {
    if !error.use_stderr() {
        return output.end(output.help(&error.render()));
    }
    let nearest = nearest_command(&error, arguments);
    if nearest.is_some() {
        // A second suggestion beside the hint is a wrong one.
        error.remove(ContextKind::SuggestedSubcommand);
    }
    // Without color: what was typed is masked, and so would colors be.
    for line in error.render().to_string().replace("\n\n\n", "\n\n").trim_end().lines() {
        output.error_line(line);
    }
    if let Some(nearest) = nearest {
        output.error_line("");
        output.error_line(format!("hint: did you mean `inferstore {nearest}`?"));
    }
    exit::USAGE
}
