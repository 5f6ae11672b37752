//! Profiles: services and the keys to them, in a file that only its owner can read.
//!
#![doc = include_str!("../README.md")]

mod error;
mod keyring;
mod program;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use error::ProfileErrorKind as Kind;
pub use error::{ProfileError, ProfileErrorKind};
use inferstore::reqwest::{self, NoProxy, Proxy, Url};
use inferstore::{ApiKey, Client, ClientBuilder, Error, is_plain_loopback, trust_certificates};
pub use keyring::Keyring;
use serde::{Deserialize, Serialize};
use tokio::task::{JoinError, spawn_blocking};

use crate::keyring::Entry;

/// Environment variable that names the profile.
pub const PROFILE_VARIABLE: &str = "INFERSTORE_PROFILE";

/// Environment variable with the path of another profiles file.
pub const CONFIG_VARIABLE: &str = "INFERSTORE_CONFIG";

/// Hosts of this machine, as a list of exceptions from a proxy.
const THIS_MACHINE: &str = "localhost, 127.0.0.0/8, ::1";

/// A result whose error is about a profile.
pub type Result<T, E = ProfileError> = std::result::Result<T, E>;

/// Creates a client from the named profile, else from the profile in [`PROFILE_VARIABLE`], else from the
/// current one. The key command of the profile runs in a thread for blocking work.
///
/// # Errors
///
/// Errors of [`Profiles::load`], [`Profiles::get`] and [`Profile::key`]; [`ProfileErrorKind::Client`] if the
/// base URL or the key is invalid.
pub fn client(name: Option<&str>) -> impl Future<Output = Result<Client>> + Send + use<> {
    let name = name.map(str::to_owned).or_else(|| variable(PROFILE_VARIABLE));
    let read = move || {
        let profiles = Profiles::load()?;
        let (name, profile) = profiles.get(name.as_deref())?;
        let mut builder = Client::builder(&*profile.base_url, profile.key(name)?);
        if let Some(cacert) = &profile.cacert {
            builder = trust_file(builder, Path::new(cacert))?;
        }
        if let Some(proxy) = &profile.proxy {
            builder = use_proxy(builder, proxy)?;
        }
        let invalid = |error: Error| ProfileError::new(Kind::Client, error.to_string(), error.hint());
        builder.build().map_err(invalid)
    };
    async move {
        let ended = |error: JoinError| ProfileError::of_file(error.to_string());
        spawn_blocking(read).await.map_err(ended)?
    }
}

/// Trusts the certificates of a PEM file, beside those of the system.
///
/// # Errors
///
/// [`ProfileErrorKind::Client`] if the file cannot be read, or has no usable certificate.
pub fn trust_file(builder: ClientBuilder, path: &Path) -> Result<ClientBuilder> {
    let unusable = |problem: String| {
        let hint = "give a PEM file with the certificate of the authority";
        ProfileError::new(Kind::Client, format!("{} cannot be used: {problem}", path.display()), hint)
    };
    let pem = fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let checked = trust_certificates(reqwest::ClientBuilder::new(), &pem);
    checked.map(drop).map_err(|error| unusable(error.to_string()))?;
    Ok(builder.configure_http(move |http| {
        trust_certificates(http, &pem).unwrap_or_else(|_| unreachable!("the certificates are usable"))
    }))
}

/// Sends the requests through a proxy, instead of those of the environment. Only a proxy on this machine gets requests to
/// this machine: another one would see the key in plain `http`.
///
/// # Errors
///
/// [`ProfileErrorKind::Client`] if `proxy` is no URL.
pub fn use_proxy(builder: ClientBuilder, proxy: &str) -> Result<ClientBuilder> {
    let invalid = |_| {
        let hint = "give one such as http://proxy.example:3128";
        ProfileError::new(Kind::Client, "the proxy of --proxy or of the profile is no URL", hint)
    };
    let is_elsewhere = !is_on_this_machine(proxy);
    let proxy = Proxy::all(proxy).map_err(invalid)?;
    let proxy = proxy.no_proxy(NoProxy::from_string(THIS_MACHINE).filter(|_| is_elsewhere));
    Ok(builder.configure_http(move |http| http.proxy(proxy.clone())))
}

/// Returns true if a proxy with this URL is on this machine.
pub fn is_on_this_machine(proxy: &str) -> bool {
    let address = proxy.rsplit("//").next().unwrap_or_default();
    Url::parse(&format!("http://{address}")).is_ok_and(|url| is_plain_loopback(&url))
}

/// All profiles, and the name of the current one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct Profiles {
    /// Name of the current profile.
    pub current: Option<String>,
    /// Profiles by name.
    pub profiles: BTreeMap<String, Profile>,
    /// User-defined commands by name, each with the words that it expands to.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub aliases: BTreeMap<String, Vec<String>>,
}

impl Profiles {
    /// Reads the profiles file of this user.
    ///
    /// # Errors
    ///
    /// [`ProfileErrorKind::NoFolder`], and those of [`read`](Self::read).
    pub fn load() -> Result<Self> {
        Self::read(&Self::path(variable)?)
    }

    /// Returns the path of the profiles file, from environment variables.
    ///
    /// # Errors
    ///
    /// [`ProfileErrorKind::NoFolder`] if the environment names no folder.
    pub fn path(variable: impl Fn(&str) -> Option<String>) -> Result<PathBuf> {
        let folder = |name: &str| variable(name).map(PathBuf::from);
        folder(CONFIG_VARIABLE)
            .or_else(|| Some(folder("XDG_CONFIG_HOME")?.join("inferstore/profiles.json")))
            .or_else(|| Some(folder("HOME")?.join(".config/inferstore/profiles.json")))
            .or_else(|| Some(folder("APPDATA")?.join("inferstore/profiles.json")))
            .ok_or_else(|| {
                let hint = format!("set HOME or {CONFIG_VARIABLE}");
                ProfileError::new(Kind::NoFolder, "there is no place for profiles", hint)
            })
    }

    /// Reads a profiles file. A missing file has no profiles.
    ///
    /// # Errors
    ///
    /// [`ProfileErrorKind::File`] or [`ProfileErrorKind::Syntax`].
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        match fs::read_to_string(path) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| {
                // The message of the parser may contain a key.
                let place = format!("line {} column {}", error.line(), error.column());
                let message = format!("{shown} is no file of profiles: {place}");
                ProfileError::new(Kind::Syntax, message, "correct it, or remove it and log in again")
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(ProfileError::of_file(format!("{shown} cannot be read: {error}"))),
        }
    }

    /// Replaces the file atomically, readable by its owner only; on a file system without permissions, see
    /// [`is_open_to_others`].
    ///
    /// # Errors
    ///
    /// [`ProfileErrorKind::File`].
    pub fn write(&self, path: &Path) -> Result<()> {
        let shown = path.display();
        let write = || -> io::Result<()> {
            let path = target_of(path);
            let folder = folder_of(&path);
            fs::create_dir_all(folder)?;
            let text = serde_json::to_string_pretty(self)?;
            // A temporary file is created readable by its owner only.
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            writeln!(file, "{text}")?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            Ok(())
        };
        write().map_err(|error| ProfileError::of_file(format!("{shown} cannot be written: {error}")))
    }

    /// Locks the file for a read-modify-write, until the lock is dropped. `None`: the file system has no locks.
    pub fn lock(path: &Path) -> Option<fs::File> {
        let path = target_of(path);
        let folder = folder_of(&path);
        // `write` reports a failure to create the folder.
        fs::create_dir_all(folder).ok()?;
        let folder = fs::File::open(folder).ok()?;
        folder.lock().ok().map(|()| folder)
    }

    /// Returns the named profile, or the current one, with its name.
    ///
    /// # Errors
    ///
    /// [`ProfileErrorKind::Unknown`] or [`ProfileErrorKind::NoneInUse`].
    pub fn get<'a>(&'a self, name: Option<&'a str>) -> Result<(&'a str, &'a Profile)> {
        let hint = "`inferstore login` stores one, `inferstore profile use` chooses one";
        let none = || ProfileError::new(Kind::NoneInUse, "no profile is in use", hint);
        let name = name.or(self.current.as_deref()).ok_or_else(none)?;
        let unknown = || {
            let known: Vec<_> = self.profiles.keys().map(String::as_str).collect();
            let hint = match &known[..] {
                [] => "`inferstore login` stores one".to_owned(),
                known => format!("there are: {}", known.join(", ")),
            };
            ProfileError::new(Kind::Unknown, format!("there is no profile {name:?}"), hint)
        };
        Ok((name, self.profiles.get(name).ok_or_else(unknown)?))
    }
}

/// A service and the key to it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Profile {
    /// Versioned root of the service.
    pub base_url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<String>,
    /// Program that prints the key, and its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_command: Option<Vec<String>>,
    /// Data folder of a local service, if `inferstore serve` stored the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<String>,
    /// True if a run deletes its uploaded inputs instead of storing them for later runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delete_inputs: bool,
    /// Absolute path of a PEM file whose certificates are trusted, beside those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cacert: Option<String>,
    /// Proxy of the requests, instead of those of the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
}

/// Location of a profile's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeySource {
    /// Profiles file.
    File,
    /// Keyring of the system.
    Keyring,
    /// Another command, such as a password manager.
    Command,
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "the file of profiles",
            Self::Keyring => "the keyring of the system",
            Self::Command => "its key_command",
        })
    }
}

impl Profile {
    /// Creates a profile whose key is in the file.
    pub fn new(base_url: impl Into<String>, key: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_key: Some(key.into()),
            key_command: None,
            data_dir: None,
            delete_inputs: false,
            cacert: None,
            proxy: None,
        }
    }

    /// Returns the key. A key command blocks this thread, for up to 30 seconds.
    ///
    /// # Errors
    ///
    /// [`ProfileErrorKind::Key`] if the command prints no key.
    pub fn key(&self, name: &str) -> Result<ApiKey> {
        if let Some(key) = &self.api_key {
            return Ok(ApiKey::new(key.clone()));
        }
        let command = self.key_command.as_deref().unwrap_or_default();
        let failed = |problem| {
            let source = self.key_source(name);
            let message = format!("the key of the profile {name} cannot be read from {source}: {problem}");
            let hint = "unlock the keyring; `inferstore login --no-keyring` stores the key in the file";
            ProfileError::new(Kind::Key, message, hint)
        };
        program::printed_key(command, program::TIMEOUT).map(ApiKey::new).map_err(failed)
    }

    /// Returns the location of the key of the profile `name`.
    pub fn key_source(&self, name: &str) -> KeySource {
        match self.keyring(name) {
            _ if self.api_key.is_some() => KeySource::File,
            Some(_) => KeySource::Keyring,
            None => KeySource::Command,
        }
    }

    /// Moves the key from the file into a keyring.
    ///
    /// # Errors
    ///
    /// The message of the keyring; the key stays in the file.
    pub fn move_key_to(&mut self, keyring: &Keyring, name: &str) -> Result<(), String> {
        if let Some(key) = &self.api_key {
            self.key_command = Some(keyring.store(self.entry(name), key)?);
            self.api_key = None;
        }
        Ok(())
    }

    /// Removes the key from the keyring, if it has one.
    ///
    /// # Errors
    ///
    /// The message of the keyring, which may still have the key.
    pub fn forget_key(&self, name: &str) -> Result<(), String> {
        self.keyring(name).map_or(Ok(()), |keyring| keyring.remove(self.entry(name)))
    }

    fn entry<'a>(&'a self, name: &'a str) -> Entry<'a> {
        Entry { profile: name, base_url: &self.base_url }
    }

    fn keyring(&self, name: &str) -> Option<Keyring> {
        Keyring::of_command(self.key_command.as_ref()?, self.entry(name))
    }
}

/// Redaction: shows no key.
impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

/// Returns true if other users of this machine can read the file.
#[cfg(unix)]
pub fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

/// Returns false: without Unix permissions, the folder controls access.
#[cfg(not(unix))]
pub fn is_open_to_others(_: &Path) -> bool {
    false
}

/// Resolves symbolic links, as dotfile managers create them, so that `write` replaces the target.
fn target_of(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}
