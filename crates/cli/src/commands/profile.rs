//! `inferstore profile`.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::failure::Result;
use crate::output::Report;
use crate::profiles::{self, Profiles};
use crate::settings::{Session, shown};
use crate::table::Table;

/// List the profiles, and choose one
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the profiles, without their keys
    List(ListArguments),
    /// Use a profile from now on
    Use(UseArguments),
}

/// List the profiles, without their keys
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  inferstore profile list")]
pub(crate) struct ListArguments {}

/// Use a profile from now on
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  inferstore profile use staging")]
pub(crate) struct UseArguments {
    /// The profile
    name: String,
}

pub(crate) fn execute(command: Command, session: &Session) -> Result {
    match command {
        Command::List(ListArguments {}) => list(session),
        Command::Use(arguments) => choose(arguments, session),
    }
}

fn list(session: &Session) -> Result {
    let profiles = Profiles::read(&profiles::path(&session.environment)?)?;
    let mut table = Table::new(["", "PROFILE", "BASE URL"]);
    let mut records = Vec::new();
    for (name, profile) in &profiles.profiles {
        let is_current = profiles.current.as_ref() == Some(name);
        let base_url = shown(&profile.base_url);
        records.push(json!({"name": name, "base_url": base_url, "current": is_current}).to_string());
        table.add([if is_current { "*" } else { "" }.to_owned(), name.clone(), base_url]);
    }
    if records.is_empty() {
        session.output.note("there are no profiles; `inferstore login` makes one");
    }
    session.output.report(&Report {
        table: if records.is_empty() { Table::default() } else { table },
        json: format!("[{}]", records.join(",")),
        records: Some(records),
        quiet: profiles.profiles.into_keys().collect(),
        ..Report::default()
    })
}

fn choose(arguments: UseArguments, session: &Session) -> Result {
    let path = profiles::path(&session.environment)?;
    let mut profiles = Profiles::read(&path)?;
    let name = arguments.name;
    let Some(profile) = profiles.profiles.get(&name) else { return Err(profiles.unknown(&name)) };
    session.output.note(format!("{name} is used from now on: {}", shown(&profile.base_url)));
    profiles.current = Some(name);
    profiles.write(&path)
}
