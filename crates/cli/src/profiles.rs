//! Profiles of the command: their names, advice on next steps, and failures.

use std::path::PathBuf;

use inferstore_profiles::{Profile, ProfileError, ProfileErrorKind, Profiles};

use crate::environment::Environment;
use crate::exit;
use crate::failure::{Failure, Result, did_you_mean};

/// The name of a profile that `serve` stores.
pub(crate) const LOCAL: &str = "local";

/// The name of the first profile that is stored without one.
const DEFAULT: &str = "default";

pub(crate) fn path(environment: &Environment) -> Result<PathBuf> {
    let path = Profiles::path(|name| environment.variable(name).map(str::to_owned))?;
    Ok(environment.folder.join(path))
}

pub(crate) fn read(environment: &Environment) -> Result<Profiles> {
    Ok(Profiles::read(&path(environment)?)?)
}

/// Changes the profiles, unless that fails, and stores them. No other command changes them meanwhile.
pub(crate) fn change(environment: &Environment, change: impl FnOnce(&mut Profiles) -> Result) -> Result {
    let path = path(environment)?;
    let _lock = Profiles::lock(&path);
    let mut profiles = Profiles::read(&path)?;
    change(&mut profiles)?;
    Ok(profiles.write(&path)?)
}

/// Returns the profile of that name, or the one in use; none before the first login.
pub(crate) fn chosen(profiles: &Profiles, name: Option<&str>) -> Result<Option<(String, Profile)>> {
    let Some(name) = name.or(profiles.current.as_deref()) else { return Ok(None) };
    Ok(Some((name.to_owned(), named(profiles, name)?)))
}

pub(crate) fn named(profiles: &Profiles, name: &str) -> Result<Profile> {
    let unknown = |mut error: ProfileError| {
        error.hint = did_you_mean(name, profiles.profiles.keys().map(String::as_str)) + &error.hint;
        error
    };
    Ok(profiles.get(Some(name)).map_err(unknown)?.1.clone())
}

/// Returns the profile that a login at this address renews, else a name that no other service has.
pub(crate) fn name_for(profiles: &Profiles, base_url: &str) -> String {
    let Profiles { current, profiles, .. } = profiles;
    let leads_there = |name: &&String| profiles.get(*name).is_some_and(|it| it.base_url == base_url);
    if let Some(name) = current.iter().chain(profiles.keys()).find(leads_there) {
        return name.clone();
    }
    let host = base_url.split('/').nth(2).unwrap_or(base_url);
    let mut names = [DEFAULT, host, base_url].into_iter();
    names.find(|name| !profiles.contains_key(*name)).unwrap_or(base_url).to_owned()
}

pub(crate) fn next_step(profiles: &Profiles) -> String {
    let known: Vec<_> = profiles.profiles.keys().map(String::as_str).collect();
    let step =
        "`inferstore serve` runs a service here and stores it; `inferstore login URL` stores another one";
    let choice = format!("`inferstore profile use NAME` chooses one; there are: {}", known.join(", "));
    if known.is_empty() { step.to_owned() } else { choice }
}

impl From<ProfileError> for Failure {
    fn from(error: ProfileError) -> Self {
        let code = match error.kind {
            ProfileErrorKind::File => exit::FAILED,
            ProfileErrorKind::Key => exit::KEY,
            _ => exit::USAGE,
        };
        Self::new(code, error.message).with_hint(error.hint)
    }
}
