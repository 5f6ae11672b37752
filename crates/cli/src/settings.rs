//! The service and the key of a command: from flags, then the environment, then profiles.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ColorChoice, ValueHint};
use hyper_util::client::proxy::matcher::Matcher;
use inferstore::reqwest::Url;
use inferstore::{
    API_KEY_VARIABLE, ApiKey, BASE_URL_VARIABLE, Client, ClientBuilder, is_plain_loopback, redact_url,
};
use inferstore_profiles::{
    KeySource, PROFILE_VARIABLE, Profile, Profiles, is_on_this_machine, is_open_to_others, trust_file,
    use_proxy,
};

use crate::candidates;
use crate::environment::Environment;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::output::{Format, Output, OutputOptions};
use crate::profiles;
use crate::prompt::prompt_secret;
use crate::recorded::{MAX_RESPONSE, PayloadRecorder};

const CACERT_VARIABLE: &str = "INFERSTORE_CACERT";

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Call the service at this address, which ends in /api/v1 [env: INFERSTORE_BASE_URL]
    #[arg(long, global = true, value_name = "URL", hide_short_help = true)]
    pub(crate) base_url: Option<String>,
    /// Use this API key; others on this machine can see it, so prefer the environment or a profile
    /// [env: INFERSTORE_API_KEY]
    #[arg(long, global = true, value_name = "KEY", hide_short_help = true)]
    pub(crate) api_key: Option<ApiKey>,
    /// Use this profile, whatever the environment says [env: INFERSTORE_PROFILE]
    #[arg(long, global = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), add = candidates::profiles())]
    pub(crate) profile: Option<String>,
    /// Send the key over plain http to other machines, where everyone in between can read it
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) allow_insecure_http: bool,
    /// Trust the certificates in this PEM file too, beside those of the system; `login` stores its path in the profile
    /// [env: INFERSTORE_CACERT]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub(crate) cacert: Option<String>,
    /// Send requests through this proxy, whatever HTTPS_PROXY and HTTP_PROXY say; `login` stores it in the profile
    #[arg(long, global = true, value_name = "URL", hide_short_help = true)]
    pub(crate) proxy: Option<String>,
    /// Format of the data on standard output
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = Format::Table, hide_short_help = true)]
    pub(crate) format: Format,
    /// Write JSON; with fields, these alone: --json=task_id,status
    #[arg(long, global = true, value_name = "FIELDS", num_args = 0..=1, require_equals = true, conflicts_with = "quiet")]
    pub(crate) json: Option<Option<String>>,
    /// Filter the JSON with this jq expression
    #[arg(long, global = true, value_name = "EXPRESSION", conflicts_with = "quiet", hide_short_help = true)]
    pub(crate) jq: Option<String>,
    /// Write identifiers, URLs or paths alone, and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Write errors alone to standard error
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) no_progress: bool,
    /// Color of the output; auto: on a terminal [env: NO_COLOR, CLICOLOR_FORCE]
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto, hide_short_help = true)]
    pub(crate) color: ColorChoice,
    /// Print more about failures, never a secret
    #[arg(short, long, global = true, hide_short_help = true)]
    pub(crate) verbose: bool,
}

impl Global {
    pub(crate) fn output(&self) -> OutputOptions {
        let is_json = self.json.is_some() || self.jq.is_some();
        let fields = self.json.iter().flatten().flat_map(|fields| fields.split(','));
        OutputOptions {
            format: match self.format {
                _ if self.quiet => Format::Quiet,
                Format::Table | Format::Quiet if is_json => Format::Json,
                format => format,
            },
            fields: fields.map(|field| field.trim().to_owned()).filter(|field| !field.is_empty()).collect(),
            jq: self.jq.clone(),
            color: self.color,
            is_verbose: self.verbose,
            has_errors_alone: self.quiet || self.no_progress,
        }
    }
}

/// The most that is read of a line: a key, or the answer to a question.
const MAX_LINE: u64 = 64 * 1024;

pub(crate) struct Session {
    pub(crate) global: Global,
    pub(crate) environment: Environment,
    pub(crate) output: Output,
}

/// A setting, and where it comes from. It may be a key.
pub(crate) struct Setting {
    pub(crate) value: String,
    pub(crate) source: String,
}

pub(crate) struct Target {
    pub(crate) base_url: Setting,
    pub(crate) api_key: Setting,
}

impl Session {
    /// A path of the command line, from the working folder on.
    pub(crate) fn here(&self, path: impl AsRef<Path>) -> PathBuf {
        self.environment.folder.join(path)
    }

    pub(crate) fn note(&self, line: impl AsRef<str>) {
        self.output.note(line);
    }

    pub(crate) fn client(&self) -> Result<Client> {
        let Target { base_url, api_key } = self.target()?;
        self.client_of(&base_url.value, &api_key.value)
    }

    /// A client for batches, which waits so long for creates of an interrupted one.
    pub(crate) fn client_with_settle(&self, settle: std::time::Duration) -> Result<Client> {
        let Target { base_url, api_key } = self.target()?;
        let builder = self.builder(&base_url.value, &api_key.value)?;
        built(builder.settings(|settings| settings.create_settle_time = settle))
    }

    /// A client of this service. A wrong setting is an error of the command line.
    pub(crate) fn client_of(&self, base_url: &str, key: &str) -> Result<Client> {
        built(self.builder(base_url, key)?)
    }

    fn builder(&self, base_url: &str, key: &str) -> Result<ClientBuilder> {
        let mut builder = Client::builder(base_url, key).settings(|settings| {
            settings.user_agent = concat!("inferstore-cli/", env!("CARGO_PKG_VERSION")).to_owned();
            settings.allow_insecure_http = self.global.allow_insecure_http;
            settings.max_response_size = MAX_RESPONSE;
        });
        if self.output.is_json() {
            builder = builder.middleware(PayloadRecorder);
        }
        self.with_network(builder, base_url)
    }

    /// Adds the certificates and the proxy of this command to a client.
    pub(crate) fn with_network(&self, mut builder: ClientBuilder, base_url: &str) -> Result<ClientBuilder> {
        let (cacert, proxy) = self.cacert_and_proxy(base_url);
        if let Some(path) = cacert {
            builder = trust_file(builder, &path)?;
        }
        if let Some(proxy) = proxy {
            builder = use_proxy(builder, &proxy)?;
        }
        Ok(builder)
    }

    /// The file of certificates and the proxy for this service: from options and variables, then from its profile.
    pub(crate) fn cacert_and_proxy(&self, base_url: &str) -> (Option<PathBuf>, Option<String>) {
        let profile = self.profile_of(base_url);
        let (cacert, proxy) = profile.map(|profile| (profile.cacert, profile.proxy)).unwrap_or_default();
        (self.cacert().or(cacert.map(PathBuf::from)), self.global.proxy.clone().or(proxy))
    }

    /// The proxy of requests to this address: a named one, or that of HTTPS_PROXY and the other variables.
    pub(crate) fn proxy_to(&self, base_url: &str) -> Option<String> {
        let is_here = is_plain_loopback(&Url::parse(base_url).ok()?);
        if let Some(proxy) = self.cacert_and_proxy(base_url).1 {
            return (!is_here || is_on_this_machine(&proxy)).then_some(proxy);
        }
        let proxy = Matcher::from_system().intercept(&base_url.parse().ok()?)?;
        (!is_here).then(|| proxy.uri().to_string())
    }

    pub(crate) fn cacert(&self) -> Option<PathBuf> {
        let given = self.global.cacert.as_deref().or_else(|| self.environment.variable(CACERT_VARIABLE));
        given.map(|path| self.here(path))
    }

    /// The base URL and the key. A profile that a flag names comes before the environment.
    pub(crate) fn target(&self) -> Result<Target> {
        let given = |value: Option<&str>, flag: &str, variable: &str| {
            let value = value.map(|value| Setting { value: value.to_owned(), source: flag.to_owned() });
            let of_variable = self.environment.variable(variable).filter(|_| self.global.profile.is_none());
            let source = format!("the variable {variable}");
            value.or_else(|| Some(Setting { value: of_variable?.to_owned(), source }))
        };
        let given_url = given(self.global.base_url.as_deref(), "--base-url", BASE_URL_VARIABLE);
        let key = self.global.api_key.as_ref().map(ApiKey::expose);
        let given_key = given(key, "--api-key", API_KEY_VARIABLE);
        let is_complete = given_url.is_some() && given_key.is_some();
        let profile = if is_complete && self.profile_name().is_none() { None } else { self.profile()? };
        let of_profile = || {
            let (name, profile) = profile.as_ref()?;
            Some(Setting { value: profile.base_url.clone(), source: format!("the profile {name}") })
        };
        let Some(base_url) = given_url.or_else(of_profile) else {
            let profiles = profiles::read(&self.environment).unwrap_or_default();
            return Err(Failure::usage("no service is chosen").with_hint(profiles::next_step(&profiles)));
        };
        // The key of a profile goes to the service of the profile and nowhere else.
        let stored = profile.filter(|(_, profile)| profile.base_url == base_url.value.trim_end_matches('/'));
        let stored_key = || stored.map(|(name, profile)| self.key_of(&name, &profile)).transpose();
        let Some(api_key) = given_key.map_or_else(stored_key, |key| Ok(Some(key)))? else {
            let url = redact_url(&base_url.value);
            return Err(Failure::new(exit::KEY, format!("there is no API key for {url}"))
                .with_hint(format!("`inferstore login {url}` stores one; or set {API_KEY_VARIABLE}")));
        };
        if api_key.value.is_empty() {
            return Err(Failure::new(exit::KEY, format!("the API key of {} is empty", api_key.source))
                .with_hint("`inferstore login` stores one"));
        }
        Ok(Target { base_url, api_key })
    }

    pub(crate) fn key_of(&self, name: &str, profile: &Profile) -> Result<Setting> {
        let source = match profile.key_source(name) {
            KeySource::File => format!("the profile {name}"),
            source => format!("{source}, for the profile {name}"),
        };
        Ok(Setting { value: profile.key(name)?.expose().to_owned(), source })
    }

    pub(crate) fn profile_name(&self) -> Option<String> {
        let flag = self.global.profile.as_deref();
        flag.or_else(|| self.environment.variable(PROFILE_VARIABLE)).map(str::to_owned)
    }

    /// The profile that is named or in use, with its name.
    pub(crate) fn profile(&self) -> Result<Option<(String, Profile)>> {
        let name = self.profile_name();
        let path = match profiles::path(&self.environment) {
            // Without a folder there are no profiles, which matters only if one was named.
            Err(_) if name.is_none() => return Ok(None),
            path => path?,
        };
        let profiles = Profiles::read(&path)?;
        if is_open_to_others(&path) {
            self.note(format!("warning: others can read the keys in {}; chmod 600 it", path.display()));
        }
        profiles::chosen(&profiles, name.as_deref())
    }

    /// The profile that is named or in use, if it is of this service.
    pub(crate) fn profile_of(&self, base_url: &str) -> Option<Profile> {
        let profiles = profiles::read(&self.environment).ok()?;
        let (_, profile) = profiles::chosen(&profiles, self.profile_name().as_deref()).ok()??;
        Some(profile).filter(|profile| profile.base_url == base_url.trim_end_matches('/'))
    }

    /// Asks a person for a line; `None` when standard input is no terminal.
    pub(crate) fn ask(&mut self, question: &str) -> Result<Option<String>> {
        if !self.environment.stdin_is_terminal {
            return Ok(None);
        }
        self.output.prompt(question);
        let failed = |error| Failure::local_failure("standard input cannot be read", error);
        self.read_line().map(Some).map_err(failed)
    }

    /// Reads a secret: from the terminal without showing it, or a line of standard input.
    pub(crate) async fn read_secret(&mut self, question: &str) -> Result<String> {
        let failed = |error| Failure::local_failure("the key cannot be read", error);
        if self.environment.stdin_is_terminal {
            return Ok(prompt_secret(question).await.map_err(failed)?.trim().to_owned());
        }
        self.read_line().map_err(failed)
    }

    /// A line of standard input, and nothing beyond it.
    fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        let stdin = (&mut self.environment.stdin).take(MAX_LINE);
        BufReader::with_capacity(1, stdin).read_line(&mut line)?;
        // An editor may have begun the file with a byte order mark.
        Ok(line.trim_start_matches('\u{feff}').trim().to_owned())
    }
}

fn built(builder: ClientBuilder) -> Result<Client> {
    builder.build().map_err(|error| {
        let failure = Failure::from(error).with_code(exit::USAGE);
        let hint = if failure.headline.starts_with("the API key") {
            "give the key as it was shown, in one line and without other characters"
        } else if failure.headline.contains("root certificates") {
            "install the package ca-certificates, or name a file of certificates with --cacert"
        } else {
            "the base URL looks like https://host/api/v1; --allow-insecure-http permits plain http"
        };
        let failure = failure.with_hint(hint);
        // The library names its setting.
        let headline = failure.headline.replace("allow_insecure_http", "--allow-insecure-http");
        Failure { headline, ..failure }
    })
}

/// The identifier of a key of this service, which is not secret; `…` for any other key.
pub(crate) fn masked(key: &str) -> String {
    let id = key.strip_prefix("isk_").and_then(|rest| rest.split_once('_')).map(|(id, _)| id);
    id.map_or_else(|| "…".to_owned(), |id| format!("isk_{id}_…"))
}
