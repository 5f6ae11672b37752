//! `inferstore alias`: commands with names of the user's own, in the file of profiles.

use clap::Subcommand;
use inferstore_profiles::Profiles;
use serde_json::json;

use crate::environment::Environment;
use crate::failure::{Failure, Result, did_you_mean};
use crate::lists;
use crate::profiles;
use crate::settings::Session;
use crate::table::{Fit, Table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Store an alias, and replace one of the same name
    #[command(
        after_help = "Examples:\n  inferstore alias set clear run haze-removal -o out/ -j 8\n  inferstore alias list"
    )]
    Set {
        /// The name
        name: String,
        /// The command with its first options and arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        words: Vec<String>,
    },
    /// List the aliases
    #[command(visible_alias = "ls", after_help = "Examples:\n  inferstore alias list")]
    List,
    /// Remove an alias
    #[command(visible_alias = "rm", after_help = "Examples:\n  inferstore alias remove clear")]
    Remove {
        /// The name
        name: String,
    },
}

pub(crate) fn execute(command: Command, root: &clap::Command, session: &Session) -> Result {
    match command {
        Command::List => list(&profiles::read(&session.environment)?, session),
        Command::Set { name, words } => {
            let set = format!("inferstore {name} is short for: inferstore {}", words.join(" "));
            profiles::change(&session.environment, |profiles| {
                check(&name, &words, root)?;
                profiles.aliases.insert(name, words);
                Ok(())
            })?;
            session.note(set);
            Ok(())
        }
        Command::Remove { name } => profiles::change(&session.environment, |profiles| {
            let suggestion = did_you_mean(&name, profiles.aliases.keys().map(String::as_str));
            let hint = format!("{suggestion}`inferstore alias list` lists them");
            let unknown = || Failure::usage(format!("there is no alias {name:?}")).with_hint(hint);
            profiles.aliases.remove(&name).map(drop).ok_or_else(unknown)
        }),
    }
}

/// Fails when the name is that of a command, or the words are no command.
fn check(name: &str, words: &[String], root: &clap::Command) -> Result {
    let is_command = |word: &str| root.find_subcommand(word).is_some();
    let is_word = !name.is_empty() && !name.starts_with('-') && !name.contains(char::is_whitespace);
    if !is_word || is_command(name) || name == "help" {
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
    let rows = profiles.aliases.iter().map(|(name, words)| {
        ([name.clone(), words.join(" ")], json!({ "alias": name, "command": words }), name.clone())
    });
    let mut report = lists::report([("ALIAS", Fit::Keep), ("COMMAND", Fit::Keep)], rows);
    if report.quiet.is_empty() {
        session.note("there are no aliases; `inferstore alias set NAME COMMAND` stores one");
        report.table = Table::default();
    }
    session.output.report(&report)
}

pub(crate) fn words_of(name: &str, environment: &Environment) -> Option<Vec<String>> {
    profiles::read(environment).ok()?.aliases.remove(name)
}
