//! Profiles of the command `inferstore`: services and keys, in a file that its `login` writes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use inferstore_api::ApiKey;
use serde::Deserialize;

use crate::transport::error::{Error, Result};

/// The environment variable that names the profile.
pub const PROFILE_VARIABLE: &str = "INFERSTORE_PROFILE";

/// The environment variable that names another file of profiles.
pub const CONFIG_VARIABLE: &str = "INFERSTORE_CONFIG";

#[derive(Deserialize)]
struct Profiles {
    #[serde(default)]
    current: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Stored>,
}

#[derive(Deserialize)]
struct Stored {
    base_url: String,
    api_key: String,
}

/// The base URL and the key of a profile; without a name, of the one that the environment names, or that
/// is in use.
pub(crate) fn read(name: Option<&str>) -> Result<(String, ApiKey)> {
    let path = path()
        .ok_or_else(|| Error::Config(format!("no folder for profiles is known; set {CONFIG_VARIABLE}")))?;
    let shown = path.display();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Error::Config(format!("the profiles in {shown} cannot be read: {error}")))?;
    let stored: Profiles = serde_json::from_str(&text).map_err(|error| {
        // The message of the parser may quote a key.
        Error::Config(format!(
            "{shown} is no file of profiles: line {} column {}",
            error.line(),
            error.column()
        ))
    })?;
    let named = name.map(str::to_owned).or_else(|| variable(PROFILE_VARIABLE)).or(stored.current);
    let name = named.ok_or_else(|| Error::Config("no profile is in use".to_owned()))?;
    let known: Vec<_> = stored.profiles.keys().cloned().collect();
    let mut profiles = stored.profiles;
    let profile = profiles.remove(&name).ok_or_else(|| {
        Error::Config(format!("there is no profile {name:?}; there are: {}", known.join(", ")))
    })?;
    Ok((profile.base_url, ApiKey::new(profile.api_key)))
}

/// Where the command keeps its profiles.
fn path() -> Option<PathBuf> {
    let folder = |name: &str| variable(name).map(PathBuf::from);
    folder(CONFIG_VARIABLE)
        .or_else(|| Some(folder("XDG_CONFIG_HOME")?.join("inferstore/profiles.json")))
        .or_else(|| Some(folder("HOME")?.join(".config/inferstore/profiles.json")))
        .or_else(|| Some(folder("APPDATA")?.join("inferstore/profiles.json")))
}

/// An environment variable that is not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}
