//! Which service is asked with which key: flags, then the environment, then profiles.

use clap::Args;
use inferstore::{API_KEY_VARIABLE, BASE_URL_VARIABLE, Client, PROFILE_VARIABLE};
use serde_json::value::RawValue;

use crate::environment::Environment;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::last_response::{LastResponse, MAX_RESPONSE};
use crate::output::{Format, Output};
use crate::profiles::{self, Profiles};

/// What every command can be told.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Ask the service at this address, which ends in /api/v1 [env: INFERSTORE_BASE_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) base_url: Option<String>,

    /// Use this API key; others on this machine can see it, so prefer the environment or a profile
    /// [env: INFERSTORE_API_KEY]
    #[arg(long, global = true, value_name = "KEY")]
    pub(crate) api_key: Option<Key>,

    /// Use this profile [env: INFERSTORE_PROFILE]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// Send the key over plain http to other machines, where everyone in between can read it
    #[arg(long, global = true)]
    pub(crate) allow_insecure_http: bool,

    /// How data are written to standard output
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    pub(crate) format: Format,

    /// Tell more about failures, never a secret
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

/// A key on the command line, which prints as `…`.
#[derive(Clone)]
pub(crate) struct Key(pub(crate) String);

impl std::str::FromStr for Key {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.trim().to_owned()))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// Everything that a command works with.
pub(crate) struct Session {
    pub(crate) global: Global,
    pub(crate) environment: Environment,
    pub(crate) output: Output,
    pub(crate) last_response: LastResponse,
}

impl Session {
    /// A client of the service that flags, environment and profiles lead to.
    pub(crate) fn client(&self) -> Result<Client> {
        let (base_url, key) = self.service()?;
        self.client_of(&base_url, &key)
    }

    /// A client of this service. What is wrong with its settings is wrong with the command line.
    pub(crate) fn client_of(&self, base_url: &str, key: &str) -> Result<Client> {
        let builder = Client::builder(base_url, key)
            .configure_http(|http| http.user_agent(concat!("inferstore-cli/", env!("CARGO_PKG_VERSION"))))
            .allow_insecure_http(self.global.allow_insecure_http)
            .max_response_size(MAX_RESPONSE)
            .middleware(self.last_response.clone());
        builder.build().map_err(|error| {
            let hint =
                "the base URL looks like https://host/api/v1; --allow-insecure-http permits plain http";
            Failure::from(error).with_code(exit::USAGE).with_hint(hint)
        })
    }

    /// The payload of the last response, as the service wrote it.
    pub(crate) fn payload(&self) -> Option<Box<RawValue>> {
        self.last_response.take()
    }

    /// The base URL and the key.
    fn service(&self) -> Result<(String, String)> {
        let given_url = self.given(self.global.base_url.as_deref(), BASE_URL_VARIABLE);
        let given_key = self.given_key();
        let profile = match (&given_url, &given_key) {
            (Some(_), Some(_)) => None,
            _ => self.profile()?,
        };
        let Some(base_url) = given_url.or_else(|| Some(profile.as_ref()?.base_url.clone())) else {
            return Err(Failure::usage("which service to ask is not known").with_hint(format!(
                "`inferstore login` stores one; or give --base-url, or set {BASE_URL_VARIABLE}; \
                 `inferstore serve` runs one here"
            )));
        };
        // The key of a profile goes to the service of the profile and nowhere else.
        let stored_key = profile.filter(|profile| profile.base_url == base_url.trim_end_matches('/'));
        let Some(key) = given_key.or_else(|| Some(stored_key?.api_key)) else {
            return Err(Failure::new(exit::KEY, format!("there is no API key for {}", shown(&base_url)))
                .with_hint(format!("`inferstore login` stores one; or set {API_KEY_VARIABLE}")));
        };
        Ok((base_url, key))
    }

    fn given(&self, flag: Option<&str>, variable: &str) -> Option<String> {
        flag.or_else(|| self.environment.variable(variable)).map(str::to_owned)
    }

    /// The base URL of flags and environment.
    pub(crate) fn given_base_url(&self) -> Option<String> {
        self.given(self.global.base_url.as_deref(), BASE_URL_VARIABLE)
    }

    /// The key of flags and environment.
    pub(crate) fn given_key(&self) -> Option<String> {
        self.given(self.global.api_key.as_ref().map(|key| key.0.as_str()), API_KEY_VARIABLE)
    }

    /// The name of the profile that flags and environment ask for.
    pub(crate) fn profile_name(&self) -> Option<String> {
        self.given(self.global.profile.as_deref(), PROFILE_VARIABLE)
    }

    fn profile(&self) -> Result<Option<profiles::Profile>> {
        let name = self.profile_name();
        let path = match profiles::path(&self.environment) {
            Ok(path) => path,
            // Without a place there are no profiles, which only matters to whoever asks for one.
            Err(_) if name.is_none() => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let profiles = Profiles::read(&path)?;
        if profiles::is_open_to_others(&path) {
            self.output
                .note(format!("warning: others can read the keys in {}; chmod 600 it", path.display()));
        }
        Ok(profiles.chosen(name.as_deref())?.cloned())
    }
}

/// A base URL without what may be a password.
pub(crate) fn shown(base_url: &str) -> String {
    match base_url.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => base_url.to_owned(),
    }
}
