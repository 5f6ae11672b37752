//! `inferstore login` and `inferstore logout`.

use clap::Args;
use inferstore::{API_KEY_VARIABLE, BASE_URL_VARIABLE, Error, ErrorKind, redact_url};
use inferstore_profiles::{CONFIG_VARIABLE, KeySource, Keyring, Profile, Profiles};

use super::outputs::absolute;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::output::Report;
use crate::profiles;
use crate::settings::Session;

/// Address at which `inferstore serve` listens.
const DEFAULT_URL: &str = "http://127.0.0.1:8787/api/v1";

/// The root of the API below an address without a path.
const ROOT: &str = "/api/v1";

const KEY_HINT: &str = "log in again with the whole key, as it was shown when it was created; nothing was stored. \
    `inferstore admin key add ACCOUNT` creates one on a service of your own";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LoginArguments {
    /// The address of the service; /api/v1 and the scheme are added if they are missing
    url: Option<String>,
    /// Store them without calling the service
    #[arg(long)]
    no_check: bool,
    /// Store the key in the file, also where there is a keyring
    #[arg(long)]
    no_keyring: bool,
}

const EXAMPLES: &str = "\
Examples:
  inferstore login
  inferstore login host.example
  inferstore login https://staging.example/api/v1 --profile staging
  inferstore login https://localhost:8443/api/v1 --cacert cert.pem
  inferstore login https://host.example/api/v1 < key.txt";

pub(crate) async fn execute(arguments: LoginArguments, mut session: Session) -> Result {
    let path = profiles::path(&session.environment)?;
    let profiles = Profiles::read(&path)?;
    let named = session.profile_name();
    let renewed = named.as_ref().or(profiles.current.as_ref()).and_then(|name| profiles.profiles.get(name));
    let stored = renewed.map(|profile| profile.base_url.clone());
    // A profile that a flag names comes before the environment.
    let of_flag = session.global.profile.is_some().then(|| stored.clone()).flatten();
    let flag = arguments.url.or_else(|| session.global.base_url.clone()).or(of_flag);
    let variable = session.environment.variable(BASE_URL_VARIABLE).map(str::to_owned);
    let asked = || session.ask(&format!("Address of the service [{DEFAULT_URL}]: "));
    let given = flag.or(variable).or(stored).map_or_else(asked, |url| Ok(Some(url)))?;
    let Some(given) = given else {
        return Err(Failure::usage("no service is named")
            .with_hint("give its address: inferstore login https://host/api/v1"));
    };
    let base_url = completed(&given);
    if !arguments.no_check {
        check_address(&base_url, &session).await?;
    }
    let key = match &session.global.api_key {
        Some(key) => key.expose().to_owned(),
        None => {
            session.read_secret(&format!("API key for {} (it is not shown): ", redact_url(&base_url))).await?
        }
    };
    if key.is_empty() {
        return Err(Failure::new(exit::KEY, "no key was given").with_hint(KEY_HINT));
    }
    let client = session.client_of(&base_url, &key)?;
    if !arguments.no_check {
        client.balance().await.map_err(|error| match error.kind() {
            ErrorKind::Unauthorized => Failure::from(error).with_hint(KEY_HINT),
            _ => error.into(),
        })?;
    }
    let base_url = client.base_url().to_owned();
    // Other commands may have changed the profiles while the key was typed.
    let _lock = Profiles::lock(&path);
    let mut profiles = Profiles::read(&path)?;
    let name = named.unwrap_or_else(|| profiles::name_for(&profiles, &base_url));
    let mut profile = profile_of(&name, base_url, key, !arguments.no_keyring, &session);
    let renewed = profiles.profiles.get(&name).filter(|before| before.base_url == profile.base_url);
    let given = session.global.cacert.as_ref().map(|path| session.here(path));
    let given = given.map(|path| absolute(&path).display().to_string());
    profile.cacert = given.or_else(|| renewed?.cacert.clone());
    profile.proxy = session.global.proxy.clone().or_else(|| renewed?.proxy.clone());
    profile.delete_inputs = renewed.is_some_and(|before| before.delete_inputs);
    let is_in_keyring = profile.key_source(&name) == KeySource::Keyring;
    let before = profiles.profiles.insert(name.clone(), profile.clone());
    profiles.current = Some(name.clone());
    let is_replaced = before.as_ref().is_some_and(|before| before.base_url == profile.base_url);
    if let Err(error) = profiles.write(&path) {
        if is_in_keyring && !is_replaced {
            // Nothing would lead to it any more; the failure is reported either way.
            let _ = forget_key(&profile, &name);
        }
        return Err(error.into());
    }
    session.note(format!("profile {name}: {}", profile.base_url));
    let where_the_key_is = if is_in_keyring { ", and the key in the keyring of the system" } else { "" };
    session.note(format!("stored in {}{where_the_key_is}", path.display()));
    warn_of_variables(&session);
    let outdated = before.filter(|_| !is_replaced || !is_in_keyring);
    outdated.map_or(Ok(()), |before| forget_key(&before, &name))
}

/// A profile whose key is in the keyring, if that is asked for and can be used, else in the profile itself.
pub(super) fn profile_of(
    name: &str,
    base_url: String,
    key: String,
    wants_keyring: bool,
    session: &Session,
) -> Profile {
    let mut profile = Profile::new(base_url, key);
    let environment = &session.environment;
    // A file that INFERSTORE_CONFIG names has everything in it.
    let wants_keyring = wants_keyring && environment.variable(CONFIG_VARIABLE).is_none();
    let keyring = Keyring::find(|name| environment.variable(name).map(str::to_owned));
    if let Some(keyring) = keyring.filter(|_| wants_keyring)
        && let Err(problem) = profile.move_key_to(&keyring, name)
    {
        session.note(format!("warning: the keyring of the system cannot be used: {problem}"));
    }
    profile
}

pub(super) fn forget_key(profile: &Profile, name: &str) -> Result {
    profile.forget_key(name).map_err(|problem| {
        Failure::local_failure(format!("the keyring of the system may still have a key of {name}"), problem)
            .with_hint("unlock the keyring and remove the entry there; its label begins with Inferstore")
    })
}

pub(crate) fn warn_of_variables(session: &Session) {
    for variable in [BASE_URL_VARIABLE, API_KEY_VARIABLE] {
        if session.environment.variable(variable).is_some() {
            session.note(format!("warning: {variable} is set and comes before profiles; unset it"));
        }
    }
}

fn completed(given: &str) -> String {
    let given = given.trim().trim_end_matches('/');
    if given.is_empty() {
        return DEFAULT_URL.to_owned();
    }
    let is_local = ["localhost", "127.", "[::1]"].iter().any(|host| given.starts_with(host));
    let scheme = match given.contains("://") {
        true => "",
        false if is_local => "http://",
        false => "https://",
    };
    let url = format!("{scheme}{given}");
    let has_path = url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    if has_path { url } else { url + ROOT }
}

/// Fails unless the API responds at this address: without a valid key, it refuses the key.
async fn check_address(base_url: &str, session: &Session) -> Result {
    match session.client_of(base_url, "none")?.balance().await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::Unauthorized => Ok(()),
        Err(error @ Error::Transport(_)) => Err(error.into()),
        Err(error) => {
            let problem = Failure::from(error).headline;
            let headline = format!("{} is not the API: {problem}", redact_url(base_url));
            Err(Failure::new(exit::NOT_REACHED, headline)
                .with_hint("the address of the API ends in /api/v1; object storage has another port"))
        }
    }
}

/// Removes a profile and its key: the one that is named here, by a flag or by the environment, else the one in use.
pub(crate) fn remove(name: Option<String>, session: &Session) -> Result {
    let path = profiles::path(&session.environment)?;
    let _lock = Profiles::lock(&path);
    let mut profiles = Profiles::read(&path)?;
    let named = name.or_else(|| session.profile_name());
    let Some(name) = named.or_else(|| profiles.current.clone()) else {
        return Err(Failure::usage("no profile is in use").with_hint(profiles::next_step(&profiles)));
    };
    let profile = profiles::named(&profiles, &name)?;
    profiles.profiles.remove(&name);
    profiles.current = profiles.current.filter(|current| *current != name);
    profiles.write(&path)?;
    session.note(format!("the profile {name} is removed"));
    forget_key(&profile, &name)?;
    session.note("its key is removed");
    if profiles.current.is_none() {
        session.note(format!("no profile is in use: {}", profiles::next_step(&profiles)));
    }
    session.output.report(&Report { quiet: vec![name], ..Report::default() })
}

#[cfg(test)]
mod tests {
    use super::completed;

    #[test]
    fn an_address_is_completed() {
        for (given, url) in [
            ("", "http://127.0.0.1:8787/api/v1"),
            ("http://127.0.0.1:8787", "http://127.0.0.1:8787/api/v1"),
            ("localhost:8787/", "http://localhost:8787/api/v1"),
            ("host.example", "https://host.example/api/v1"),
            ("https://host.example/other/api/v1/", "https://host.example/other/api/v1"),
        ] {
            assert_eq!(completed(given), url);
        }
    }
}
