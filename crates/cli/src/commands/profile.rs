//! `inferstore profile`.

use clap::{Args, Subcommand};
use inferstore_profiles::Profiles;
use serde_json::json;

use super::login;
use crate::candidates;
use crate::failure::{Failure, Result};
use crate::output::Report;
use crate::profiles;
use crate::settings::{Session, redact_url};
use crate::table::{Fit, Table};

/// List the profiles, choose one, change one, remove one
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the profiles, without their keys
    #[command(visible_alias = "ls")]
    List(ListArguments),
    /// Use a profile from now on
    #[command(after_help = "Examples:\n  inferstore profile use staging")]
    Use(OneProfile),
    /// Change a setting of the profile in use, or of the one that --profile names
    #[command(after_help = "Examples:\n  inferstore profile set --delete-inputs yes")]
    Set(SetArguments),
    /// Remove a profile and its key
    #[command(visible_alias = "rm", after_help = "Examples:\n  inferstore profile remove staging")]
    Remove(OneProfile),
}

/// List the profiles, without their keys
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  inferstore profile list")]
pub(crate) struct ListArguments {}

/// A setting of a profile.
#[derive(Debug, Args)]
pub(crate) struct SetArguments {
    /// Delete the inputs that a run has uploaded at its end; with `no`, they stay stored, and later runs with the same
    /// content use them
    #[arg(long, value_name = "yes|no", value_parser = ["yes", "no"], required = true)]
    delete_inputs: String,
}

/// One profile.
#[derive(Debug, Args)]
pub(crate) struct OneProfile {
    /// The profile
    #[arg(add = candidates::profiles())]
    name: String,
}

pub(crate) fn execute(command: Command, session: &Session) -> Result {
    match command {
        Command::List(ListArguments {}) => list(session),
        Command::Use(OneProfile { name }) => choose(name, session),
        Command::Set(arguments) => set(&arguments, session),
        Command::Remove(OneProfile { name }) => login::remove(Some(name), session),
    }
}

fn list(session: &Session) -> Result {
    let profiles = Profiles::read(&profiles::path(&session.environment)?)?;
    let mut table = Table::new([("", Fit::Keep), ("PROFILE", Fit::Keep), ("BASE URL", Fit::Keep)]);
    let mut records = Vec::new();
    for (name, profile) in &profiles.profiles {
        let is_current = profiles.current.as_ref() == Some(name);
        let base_url = redact_url(&profile.base_url);
        let proxy = profile.proxy.as_deref().map(redact_url);
        let record = json!({"name": name, "base_url": base_url, "current": is_current, "cacert": profile.cacert, "proxy": proxy});
        records.push(record.to_string());
        table.add([if is_current { "*" } else { "" }.to_owned(), name.clone(), base_url]);
    }
    if records.is_empty() {
        session.output.note("there are no profiles; `inferstore login` stores one");
    }
    let table = if records.is_empty() { Table::default() } else { table };
    session.output.report(&Report::of_list(table, records, profiles.profiles.into_keys().collect()))
}

fn set(arguments: &SetArguments, session: &Session) -> Result {
    let path = profiles::path(&session.environment)?;
    let _lock = Profiles::lock(&path);
    let mut profiles = Profiles::read(&path)?;
    let Some((name, mut profile)) = profiles::chosen(&profiles, session.profile_name().as_deref())? else {
        return Err(Failure::usage("no profile is in use").with_hint(profiles::next_step(&profiles)));
    };
    profile.delete_inputs = arguments.delete_inputs == "yes";
    let inputs = if profile.delete_inputs {
        "deletes the inputs that it has uploaded"
    } else {
        "uses stored inputs again"
    };
    session.output.note(format!("a run with the profile {name} {inputs}"));
    profiles.profiles.insert(name, profile);
    Ok(profiles.write(&path)?)
}

fn choose(name: String, session: &Session) -> Result {
    let path = profiles::path(&session.environment)?;
    let _lock = Profiles::lock(&path);
    let mut profiles = Profiles::read(&path)?;
    let profile = profiles::named(&profiles, &name)?;
    session.output.note(format!("{name} is used from now on: {}", redact_url(&profile.base_url)));
    login::warn_of_variables(session);
    profiles.current = Some(name);
    Ok(profiles.write(&path)?)
}
