//! `inferstore profile`.

use clap::{Args, Subcommand};
use inferstore_profiles::Profiles;
use serde_json::json;

use super::login;
use crate::complete;
use crate::failure::Result;
use crate::output::Report;
use crate::profiles;
use crate::settings::{Session, shown};
use crate::table::{Fit, Table};

/// List the profiles, choose one, remove one
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the profiles, without their keys
    #[command(visible_alias = "ls")]
    List(ListArguments),
    /// Use a profile from now on
    #[command(after_help = "Examples:\n  inferstore profile use staging")]
    Use(OneProfile),
    /// Remove a profile and its key
    #[command(visible_alias = "rm", after_help = "Examples:\n  inferstore profile remove staging")]
    Remove(OneProfile),
}

/// List the profiles, without their keys
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  inferstore profile list")]
pub(crate) struct ListArguments {}

/// One profile.
#[derive(Debug, Args)]
pub(crate) struct OneProfile {
    /// The profile
    #[arg(add = complete::profiles())]
    name: String,
}

pub(crate) fn execute(command: Command, session: &Session) -> Result {
    match command {
        Command::List(ListArguments {}) => list(session),
        Command::Use(OneProfile { name }) => choose(name, session),
        Command::Remove(OneProfile { name }) => login::remove(Some(name), session),
    }
}

fn list(session: &Session) -> Result {
    let profiles = Profiles::read(&profiles::path(&session.environment)?)?;
    let mut table = Table::new([("", Fit::Keep), ("PROFILE", Fit::Keep), ("BASE URL", Fit::Keep)]);
    let mut records = Vec::new();
    for (name, profile) in &profiles.profiles {
        let is_current = profiles.current.as_ref() == Some(name);
        let base_url = shown(&profile.base_url);
        records.push(json!({"name": name, "base_url": base_url, "current": is_current}).to_string());
        table.add([if is_current { "*" } else { "" }.to_owned(), name.clone(), base_url]);
    }
    if records.is_empty() {
        session.output.note("there are no profiles; `inferstore login` stores one");
    }
    let table = if records.is_empty() { Table::default() } else { table };
    session.output.report(&Report::of_list(table, records, profiles.profiles.into_keys().collect()))
}

fn choose(name: String, session: &Session) -> Result {
    let path = profiles::path(&session.environment)?;
    let _lock = Profiles::lock(&path);
    let mut profiles = Profiles::read(&path)?;
    let profile = profiles::named(&profiles, &name)?;
    session.output.note(format!("{name} is used from now on: {}", shown(&profile.base_url)));
    login::warn_of_variables(session);
    profiles.current = Some(name);
    Ok(profiles.write(&path)?)
}
