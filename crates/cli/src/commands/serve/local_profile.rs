//! The profile `local`, which `serve` stores for the commands of other terminals.

use inferstore::{API_KEY_VARIABLE, BASE_URL_VARIABLE};

use crate::commands::login::{forget_key, profile_of};
use crate::failure::Result;
use crate::profiles::{self, LOCAL, Profiles};
use crate::settings::Session;

/// Stores the profile, and returns what to type next. `key` is known at the first start on a data folder alone;
/// later the stored one is used, if the service accepts it.
pub(super) async fn store(base_url: &str, key: Option<String>, session: &Session) -> String {
    match stored(base_url, key, session).await {
        Ok(Some(is_current)) => {
            let option = if is_current { "" } else { " --profile local" };
            let has_variables = [BASE_URL_VARIABLE, API_KEY_VARIABLE]
                .iter()
                .any(|name| session.environment.variable(name).is_some());
            let warning = match has_variables && is_current {
                true => format!(" (unset {BASE_URL_VARIABLE} and {API_KEY_VARIABLE}, which come before it)"),
                false => String::new(),
            };
            format!(
                "the profile local leads here{warning}; in another terminal: inferstore models list{option}"
            )
        }
        Ok(None) => "only the first start shows the key; `inferstore admin key add demo` draws another, and \
             `inferstore login` stores it"
            .to_owned(),
        Err(failure) => format!("warning: the profile local is not stored: {}", failure.headline),
    }
}

/// Whether the profile is the one in use; `None` when no key for it is known.
async fn stored(base_url: &str, key: Option<String>, session: &Session) -> Result<Option<bool>> {
    let path = profiles::path(&session.environment)?;
    let mut profiles = Profiles::read(&path)?;
    let before = profiles.profiles.get(LOCAL).cloned();
    let stored = before.as_ref().and_then(|profile| session.key_of(LOCAL, profile).ok()).map(|key| key.value);
    let mut accepted = None;
    // A first key that is given may not be that of an older data folder.
    for key in [key, stored.clone()].into_iter().flatten() {
        if session.client_of(base_url, &key)?.account().balance().await.is_ok() {
            accepted = Some(key);
            break;
        }
    }
    let Some(api_key) = accepted else { return Ok(None) };
    let profile = match &before {
        Some(before) if before.base_url == base_url && stored.as_ref() == Some(&api_key) => before.clone(),
        before => {
            // A login may have put the key into the keyring, where it stays.
            let is_in_keyring = before.as_ref().is_some_and(|before| before.keyring(LOCAL).is_some());
            profile_of(LOCAL, base_url.to_owned(), api_key, is_in_keyring, session)
        }
    };
    if profiles.current.is_none() {
        profiles.current = Some(LOCAL.to_owned());
    }
    let is_current = profiles.current.as_deref() == Some(LOCAL);
    if profiles.profiles.insert(LOCAL.to_owned(), profile.clone()) != Some(profile) {
        profiles.write(&path)?;
    }
    if let Some(before) = before.filter(|before| before.base_url != base_url) {
        forget_key(&before, LOCAL)?;
    }
    Ok(Some(is_current))
}
