//! `inferstore profile`.

use clap::{ArgAction, Args, Subcommand};
use inferstore::redact_url;
use serde_json::json;

use super::login;
use crate::candidates;
use crate::failure::{Failure, Result};
use crate::lists;
use crate::profiles;
use crate::settings::Session;
use crate::table::{Fit, Table};
use crate::values::yes_or_no;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the profiles, without their keys
    #[command(visible_alias = "ls", after_help = "Examples:\n  inferstore profile list")]
    List,
    /// Use a profile from now on
    #[command(after_help = "Examples:\n  inferstore profile use staging")]
    Use(OneProfile),
    /// Change a setting of the profile in use, or of the one that --profile names
    #[command(after_help = "Examples:\n  inferstore profile set --delete-inputs yes")]
    Set {
        /// Delete the inputs that a run has uploaded at its end; with `no`, they stay stored, and later runs with the same
        /// content use them
        #[arg(long, value_name = "yes|no", action = ArgAction::Set, value_parser = yes_or_no(), required = true)]
        delete_inputs: bool,
    },
    /// Remove a profile and its key
    #[command(visible_alias = "rm", after_help = "Examples:\n  inferstore profile remove staging")]
    Remove(OneProfile),
}

#[derive(Debug, Args)]
pub(crate) struct OneProfile {
    /// The profile
    #[arg(add = candidates::profiles())]
    name: String,
}

pub(crate) fn execute(command: Command, session: &Session) -> Result {
    match command {
        Command::List => list(session),
        Command::Use(OneProfile { name }) => choose(name, session),
        Command::Set { delete_inputs } => set(delete_inputs, session),
        Command::Remove(OneProfile { name }) => login::remove(Some(name), session),
    }
}

fn list(session: &Session) -> Result {
    let profiles = profiles::read(&session.environment)?;
    let rows = profiles.profiles.into_iter().map(|(name, profile)| {
        let is_current = profiles.current.as_ref() == Some(&name);
        let base_url = redact_url(&profile.base_url);
        let proxy = profile.proxy.as_deref().map(redact_url);
        let record = json!({"name": name, "base_url": base_url, "current": is_current, "cacert": profile.cacert, "proxy": proxy});
        ([if is_current { "*" } else { "" }.to_owned(), name.clone(), base_url], record, name)
    });
    let mut report = lists::report([("", Fit::Keep), ("PROFILE", Fit::Keep), ("BASE URL", Fit::Keep)], rows);
    if report.quiet.is_empty() {
        session.note("there are no profiles; `inferstore login` stores one");
        report.table = Table::default();
    }
    session.output.report(&report)
}

fn set(delete_inputs: bool, session: &Session) -> Result {
    profiles::change(&session.environment, |profiles| {
        let Some((name, mut profile)) = profiles::chosen(profiles, session.profile_name().as_deref())? else {
            return Err(Failure::usage("no profile is in use").with_hint(profiles::next_step(profiles)));
        };
        profile.delete_inputs = delete_inputs;
        let inputs = match delete_inputs {
            true => "deletes the inputs that it has uploaded",
            false => "uses stored inputs again",
        };
        session.note(format!("a run with the profile {name} {inputs}"));
        profiles.profiles.insert(name, profile);
        Ok(())
    })
}

fn choose(name: String, session: &Session) -> Result {
    profiles::change(&session.environment, |profiles| {
        let profile = profiles::named(profiles, &name)?;
        session.note(format!("{name} is used from now on: {}", redact_url(&profile.base_url)));
        login::warn_of_variables(session);
        profiles.current = Some(name);
        Ok(())
    })
}
