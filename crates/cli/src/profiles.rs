//! Profiles: where services are, and the keys to them, in a file that only its owner can read. A profile may have the
//! command that prints its key instead, of the keyring of the system or of another password manager.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use inferstore::CONFIG_VARIABLE;
use serde::{Deserialize, Serialize};

use crate::environment::{Environment, folder_of};
use crate::failure::{Failure, Result, did_you_mean};
use crate::keyring::{Entry, Keyring};

/// The name of a profile that `serve` stores.
pub(crate) const LOCAL: &str = "local";

/// The name of the first profile that is stored without one.
pub(crate) const DEFAULT: &str = "default";

/// All profiles, and which one is used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Profiles {
    #[serde(default)]
    pub(crate) current: Option<String>,
    #[serde(default)]
    pub(crate) profiles: BTreeMap<String, Profile>,
}

/// A service and the key to it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Profile {
    pub(crate) base_url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) api_key: Option<String>,
    /// The program and the arguments that print the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_command: Option<Vec<String>>,
    /// The data folder of the local service, if `serve` stored the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data_dir: Option<String>,
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("base_url", &self.base_url).field("api_key", &"…").finish()
    }
}

impl Profile {
    /// What its key is found by in a keyring.
    pub(crate) fn entry<'a>(&'a self, name: &'a str) -> Entry<'a> {
        Entry { profile: name, base_url: &self.base_url }
    }

    /// The keyring that has its key, if one has.
    pub(crate) fn keyring(&self, name: &str) -> Option<Keyring> {
        Keyring::of_command(self.key_command.as_ref()?, self.entry(name))
    }
}

/// Where the profiles are.
pub(crate) fn path(environment: &Environment) -> Result<PathBuf> {
    let folder = |name: &str| environment.variable(name).map(PathBuf::from);
    let path = folder(CONFIG_VARIABLE)
        .or_else(|| folder("XDG_CONFIG_HOME").map(|folder| folder.join("inferstore/profiles.json")))
        .or_else(|| folder("HOME").map(|folder| folder.join(".config/inferstore/profiles.json")))
        .or_else(|| folder("APPDATA").map(|folder| folder.join("inferstore/profiles.json")));
    path.map(|path| environment.folder.join(path)).ok_or_else(|| {
        Failure::usage("there is no place for profiles").with_hint(format!("set HOME or {CONFIG_VARIABLE}"))
    })
}

/// The file itself: a link to another place, as dotfiles have it, stays a link.
fn target_of(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Lets one process at a time read the profiles, change them and write them, until it is dropped. Where folders have
/// no locks, none is held.
pub(crate) fn lock(path: &Path) -> Option<fs::File> {
    let path = target_of(path);
    let folder = folder_of(&path);
    // Writing reports what fails here.
    fs::create_dir_all(folder).ok()?;
    let folder = fs::File::open(folder).ok()?;
    folder.lock().ok()?;
    Some(folder)
}

impl Profiles {
    /// Those of the file; none if there is no file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        match fs::read_to_string(path) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| {
                // The message of the parser may quote what it read, and that may be a key.
                let place = format!("line {} column {}", error.line(), error.column());
                Failure::usage(format!("{} is no file of profiles: {place}", path.display()))
                    .with_hint("correct it, or remove it and log in again")
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Failure::local_failure(format!("{} cannot be read", path.display()), error)),
        }
    }

    /// Replaces the file at once and as a whole. Only the owner can read it.
    pub(crate) fn write(&self, path: &Path) -> Result {
        let failed = |error: &dyn fmt::Display| {
            Failure::local_failure(format!("{} cannot be written", path.display()), error)
        };
        let path = &target_of(path);
        let folder = folder_of(path);
        fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(&error))?;
        // A temporary file is readable by its owner alone from its first moment on.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
        file.write_all(format!("{text}\n").as_bytes()).map_err(|error| failed(&error))?;
        file.as_file().sync_all().map_err(|error| failed(&error))?;
        file.persist(path).map_err(|error| failed(&error))?;
        Ok(())
    }

    /// The profile of that name, or the one in use; none before the first login.
    pub(crate) fn chosen(self, name: Option<&str>) -> Result<Option<(String, Profile)>> {
        let Some(name) = name.or(self.current.as_deref()).map(str::to_owned) else { return Ok(None) };
        match self.profiles.get(&name).cloned() {
            Some(profile) => Ok(Some((name, profile))),
            None => Err(self.unknown(&name)),
        }
    }

    /// The profile that a login at this address renews, else a name that no other service has.
    pub(crate) fn name_for(&self, base_url: &str) -> String {
        let leads_there = |name: &&String| self.profiles.get(*name).is_some_and(|it| it.base_url == base_url);
        if let Some(name) = self.current.iter().chain(self.profiles.keys()).find(leads_there) {
            return name.clone();
        }
        let host = base_url.split('/').nth(2).unwrap_or(base_url);
        let mut names = [DEFAULT, host, base_url].into_iter();
        names.find(|name| !self.profiles.contains_key(*name)).unwrap_or(base_url).to_owned()
    }

    /// What to type when no profile is in use.
    pub(crate) fn next_step(&self) -> String {
        match self.profiles.keys().map(String::as_str).collect::<Vec<_>>() {
            known if known.is_empty() => {
                "`inferstore serve` runs a service here and stores it; `inferstore login URL` stores another one"
                    .to_owned()
            }
            known => format!("`inferstore profile use NAME` chooses one; there are: {}", known.join(", ")),
        }
    }

    pub(crate) fn unknown(&self, name: &str) -> Failure {
        let known: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
        let hint = if known.is_empty() {
            "`inferstore login` stores one".to_owned()
        } else {
            format!("{}there are: {}", did_you_mean(name, known.iter().copied()), known.join(", "))
        };
        Failure::usage(format!("there is no profile {name:?}")).with_hint(hint)
    }
}

/// Whether others can read the file.
#[cfg(unix)]
pub(crate) fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

/// Whether others can read the file. Other systems keep that in the folder.
#[cfg(not(unix))]
pub(crate) fn is_open_to_others(_: &Path) -> bool {
    false
}
