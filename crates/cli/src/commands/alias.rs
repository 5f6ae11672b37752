//! `inferstore alias`: commands with names of the user's own, in the file of profiles.

use clap::{Args, Subcommand};
use inferstore_profiles::Profiles;
use serde_json::json;

use crate::environment::Environment;
use crate::failure::{Failure, Result, did_you_mean};
use crate::output::Report;
use crate::profiles;
use crate::settings::Session;
use crate::table::{Fit, Table};

/// Give commands names of your own
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Store an alias, and replace one of the same name
    #[command(
        after_help = "Examples:\n  inferstore alias set clear run haze-removal -o out/ -j 8\n  inferstore alias list"
    )]
    Set(SetArguments),
    /// List the aliases
    #[command(visible_alias = "ls", after_help = "Examples:\n  inferstore alias list")]
    List,
    /// Remove an alias
    #[command(visible_alias = "rm", after_help = "Examples:\n  inferstore alias remove clear")]
    Remove(OneAlias),
}

/// An alias, and the words that it stands for.
#[derive(Debug, Args)]
pub(crate) struct SetArguments {
    /// The name
    name: String,
    /// The command with its first options and arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    words: Vec<String>,
}

/// One alias.
#[derive(Debug, Args)]
pub(crate) struct OneAlias {
    /// The name
    name: String,
}

pub(crate) fn execute(command: Command, root: &clap::Command, session: &Session) -> Result {
    let path = profiles::path(&session.environment)?;
    let _lock = Profiles::lock(&path);
    let mut profiles = Profiles::read(&path)?;
    match command {
        Command::List => return list(&profiles, session),
        Command::Set(SetArguments { name, words }) => {
            check(&name, &words, root)?;
            session.output.note(format!("inferstore {name} is short for: inferstore {}", words.join(" ")));
            profiles.aliases.insert(name, words);
        }
        Command::Remove(OneAlias { name }) => {
            if profiles.aliases.remove(&name).is_none() {
                let suggestion = did_you_mean(&name, profiles.aliases.keys().map(String::as_str));
                return Err(Failure::usage(format!("there is no alias {name:?}"))
                    .with_hint(format!("{suggestion}`inferstore alias list` lists them")));
            }
        }
    }
    Ok(profiles.write(&path)?)
}

/// Fails when the name is that of a command, or the words are no command.
fn check(name: &str, words: &[String], root: &clap::Command) -> Result {
    let is_command = |word: &str| root.find_subcommand(word).is_some();
    if name.is_empty()
        || name.starts_with('-')
        || name.contains(char::is_whitespace)
        || is_command(name)
        || name == "help"
    {
        return Err(Failure::usage(format!("{name:?} cannot be the name of an alias"))
            .with_hint("choose one word that is no command of inferstore"));
    }
    if !words.first().is_some_and(|word| is_command(word)) {
        let suggestion = did_you_mean(&words[0], root.get_subcommands().map(clap::Command::get_name));
        return Err(Failure::usage(format!("{:?} is no command", words[0])).with_hint(format!(
            "{suggestion}begin with a command, such as: inferstore alias set {name} run haze-removal"
        )));
    }
    Ok(())
}

fn list(profiles: &Profiles, session: &Session) -> Result {
    let mut table = Table::new([("ALIAS", Fit::Keep), ("COMMAND", Fit::Keep)]);
    let mut records = Vec::new();
    for (name, words) in &profiles.aliases {
        table.add([name.clone(), words.join(" ")]);
        records.push(json!({ "alias": name, "command": words }).to_string());
    }
    if records.is_empty() {
        session.output.note("there are no aliases; `inferstore alias set NAME COMMAND` stores one");
        table = Table::default();
    }
    session.output.report(&Report::of_list(table, records, profiles.aliases.keys().cloned().collect()))
}

/// Returns the words that an alias stands for.
pub(crate) fn words_of(name: &str, environment: &Environment) -> Option<Vec<String>> {
    Profiles::read(&profiles::path(environment).ok()?).ok()?.aliases.remove(name)
}
