//! The profile `local`, which `serve` stores for the commands of other terminals. Further data folders get further
//! profiles, `local-2` and so on: a key is shown once, and the profile may be the only copy of it.

use std::iter;

use inferstore::reqwest::Url;
use inferstore_profiles::{KeySource, Profile, Profiles};

use crate::commands::login::{forget_key, profile_of, warn_of_variables};
use crate::failure::Result;
use crate::profiles::{self, LOCAL};
use crate::settings::Session;

pub(super) fn next_step(stored: Result<Stored>, session: &Session) -> String {
    match stored {
        Ok(Some((name, is_current))) => {
            let option = if is_current { String::new() } else { format!(" --profile {name}") };
            let other = if name == LOCAL { "" } else { " (local is of another service)" };
            if is_current {
                warn_of_variables(session);
            }
            format!(
                "the profile {name} leads here{other}; in another terminal: inferstore models list{option}"
            )
        }
        Ok(None) => "no profile leads here; `inferstore login` stores one with a key".to_owned(),
        Err(failure) => format!("warning: the profile local is not stored: {}", failure.headline),
    }
}

/// The name of the profile of the service, and whether it is in use; `None` when no key for it is known.
type Stored = Option<(String, bool)>;

/// Stores the profile. Without the key of a first start, a stored one is used that the service accepts. `key` is known
/// at the first start on a data folder alone, and `data_dir` is that folder, if it holds the accounts.
pub(super) async fn store(
    base_url: &str,
    key: Option<String>,
    data_dir: Option<String>,
    session: &Session,
) -> Result<Stored> {
    let path = profiles::path(&session.environment)?;
    let mut api_key = accepted(base_url, key, session).await?;
    let mut name = None;
    for (candidate, profile) in Profiles::read(&path)?.profiles {
        if !is_local(&candidate) {
            continue;
        }
        let is_of_folder = data_dir.is_some() && profile.data_dir == data_dir;
        // A key goes to no other host, and to no service on another folder; nor is its command run for one.
        if !is_of_folder && (profile.data_dir.is_some() || !has_host(&profile, base_url)) {
            continue;
        }
        let stored = session.key_of(&candidate, &profile).ok().map(|key| key.value);
        let stored = accepted(base_url, stored, session).await?;
        if is_of_folder || (stored.is_some() && name.is_none()) {
            name = Some(candidate);
        }
        api_key = api_key.or(stored);
    }
    let Some(api_key) = api_key else { return Ok(None) };

    let _lock = Profiles::lock(&path);
    let mut profiles = Profiles::read(&path)?;
    let mut names = iter::once(LOCAL.to_owned()).chain((2..).map(|number| format!("{LOCAL}-{number}")));
    let free = || names.find(|name| !profiles.profiles.contains_key(name));
    let name = name.or_else(free).unwrap_or_else(|| LOCAL.to_owned());
    let before = profiles.profiles.get(&name).cloned();
    let is_stored = |before: &&Profile| {
        before.base_url == base_url && session.key_of(&name, before).is_ok_and(|key| key.value == api_key)
    };
    let mut profile = match before.as_ref().filter(is_stored) {
        Some(before) => before.clone(),
        None => {
            // A login may have put the key into the keyring, where it stays.
            let is_in_keyring =
                before.as_ref().is_some_and(|before| before.key_source(&name) == KeySource::Keyring);
            profile_of(&name, base_url.to_owned(), api_key, is_in_keyring, session)
        }
    };
    profile.data_dir = data_dir;
    let is_current = profiles.current.get_or_insert_with(|| name.clone()) == &name;
    if profiles.profiles.insert(name.clone(), profile.clone()) != Some(profile) {
        profiles.write(&path)?;
    }
    if let Some(before) = before.filter(|before| before.base_url != base_url) {
        forget_key(&before, &name)?;
    }
    Ok(Some((name, is_current)))
}

async fn accepted(base_url: &str, key: Option<String>, session: &Session) -> Result<Option<String>> {
    let Some(key) = key else { return Ok(None) };
    let is_accepted = session.client_of(base_url, &key)?.balance().await.is_ok();
    Ok(is_accepted.then_some(key))
}

fn is_local(name: &str) -> bool {
    let number = name.strip_prefix(LOCAL).and_then(|rest| rest.strip_prefix('-'));
    name == LOCAL || number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn has_host(profile: &Profile, base_url: &str) -> bool {
    let host = |url: &str| Url::parse(url).ok()?.host_str().map(str::to_owned);
    host(&profile.base_url) == host(base_url)
}
