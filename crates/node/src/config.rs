//! Configuration of a node: address of the service, and the runner of each model.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use url::{Host, Url};

use crate::Error;

const MAX_RUN: Duration = Duration::from_hours(24);

/// Settings of a node.
///
/// ```
/// use inferstore_node::Config;
///
/// let config = Config::from_json(r#"{
///     "service": "http://127.0.0.1:8790",
///     "models": {
///         "edge-map": {"command": ["python3", "edge_map.py"], "seconds": 60, "memory_mib": 2048},
///         "upscale": {"cog": "http://127.0.0.1:5000"},
///         "classify": {"open_inference": "http://127.0.0.1:8080", "server_model": "resnet"}
///     }
/// }"#)?;
/// assert_eq!(config.models.len(), 3);
/// # Ok::<(), inferstore_node::Error>(())
/// ```
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// Address of the service's listener for nodes.
    pub service: Url,
    /// True if the key may travel over plain HTTP to another machine.
    #[serde(default)]
    pub allow_plain_http: bool,
    /// PEM file of certificates that are trusted beside those of the system.
    pub cacert: Option<PathBuf>,
    /// Proxy of the requests to the service and its files, instead of those of the environment.
    pub proxy: Option<String>,
    /// Graceful shutdown: time that runs in progress have to finish; the node then releases the other leases.
    #[serde(default = "drain_seconds")]
    pub drain_seconds: u64,
    /// `pip` requirements file of the commands, in which `{python}` stands for the Python of their environment.
    pub requirements: Option<PathBuf>,
    /// Further arguments of `pip install`, such as `--no-deps`.
    #[serde(default)]
    pub pip: Vec<String>,
    /// Catalog files of models that `inferstore node run` publishes before the node serves.
    #[serde(default)]
    pub publish: Vec<PathBuf>,
    /// Worker programs, by a name of your choice.
    #[serde(default)]
    pub workers: BTreeMap<String, WorkerConfig>,
    /// Runner of each model, by its identifier in the catalog.
    pub models: BTreeMap<String, ModelConfig>,
}

/// Program that stays running and runs several models, one task after the other.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct WorkerConfig {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Working directory, relative to the folder of the configuration.
    pub folder: Option<PathBuf>,
    /// Limit on the address space of each process, in MiB.
    pub memory_mib: Option<u64>,
    /// Number of processes; each runs one task at a time.
    #[serde(default = "one_process")]
    pub processes: usize,
    /// Timeout until the program is ready.
    #[serde(default = "start_seconds")]
    pub start_seconds: u64,
}

const fn one_process() -> usize {
    1
}

const fn start_seconds() -> u64 {
    120
}

const fn drain_seconds() -> u64 {
    60
}

/// Runner and limits of one model.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "ModelEntry")]
#[non_exhaustive]
pub struct ModelConfig {
    /// Runner of the model.
    pub runner: RunnerConfig,
    /// Number of tasks that run concurrently.
    pub side_by_side: usize,
    /// Timeout of a run, at most a day. None: the service's limit.
    pub time: Option<Duration>,
}

/// Runner of a model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RunnerConfig {
    /// Program: JSON on standard input, JSON on standard output, files by path.
    Command {
        /// Program and arguments.
        command: Vec<String>,
        /// Working directory, relative to the folder of the configuration.
        folder: Option<PathBuf>,
        /// Limit on the address space of each process, in MiB.
        memory_mib: Option<u64>,
    },
    /// Server that implements cog's `POST /predictions`.
    Cog {
        /// Address of the server.
        server: Url,
    },
    /// Server of version 2 of the Open Inference Protocol: KServe, Triton, MLServer.
    OpenInference {
        /// Address of the server.
        server: Url,
        /// Name of the model at the server, if the catalog has another one.
        model: Option<String>,
        /// Version of the model. None: the server chooses.
        version: Option<String>,
    },
    /// Program that stays running.
    Worker {
        /// Name among the workers of the configuration.
        worker: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelEntry {
    command: Option<Vec<String>>,
    worker: Option<String>,
    folder: Option<PathBuf>,
    memory_mib: Option<u64>,
    cog: Option<Url>,
    open_inference: Option<Url>,
    server_model: Option<String>,
    server_version: Option<String>,
    side_by_side: Option<usize>,
    seconds: Option<f64>,
}

/// Word of a command that stands for the Python of the environment.
const PYTHON: &str = "{python}";
const EXECUTABLE: u32 = 0o111;

pub(crate) fn check_program(of: &str, program: &str, folder: Option<&Path>) -> Result<(), Error> {
    let refused = |why: String| Err(Error::new(format!("starting {of}"), why));
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return refused(format!("there is no folder {}", folder.display()));
    }
    if program == PYTHON {
        return refused(format!("{PYTHON} is the Python of an environment: name a file by \"requirements\""));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = match program.contains('/') {
        true => vec![folder.join(program)],
        false => std::env::split_paths(&path).map(|place| place.join(program)).collect(),
    };
    let mode = |place: &PathBuf| place.metadata().ok().filter(Metadata::is_file).map(|found| found.mode());
    match places.iter().filter_map(mode).max_by_key(|mode| mode & EXECUTABLE) {
        Some(mode) if mode & EXECUTABLE != 0 => Ok(()),
        Some(_) => refused(format!("{program} is not executable: chmod +x {program}")),
        None => refused(format!("there is no program {program}")),
    }
}

impl TryFrom<ModelEntry> for ModelConfig {
    type Error = String;

    fn try_from(entry: ModelEntry) -> Result<Self, String> {
        let of_command = entry.folder.is_some() || entry.memory_mib.is_some();
        let of_open_inference = entry.server_model.is_some() || entry.server_version.is_some();
        let runner = match (entry.command, entry.worker, entry.cog, entry.open_inference) {
            (Some(command), None, None, None) if !of_open_inference => {
                if command.is_empty() {
                    return Err("a command has at least the name of a program".to_owned());
                }
                RunnerConfig::Command { command, folder: entry.folder, memory_mib: entry.memory_mib }
            }
            (None, Some(worker), None, None) if !of_command && !of_open_inference => {
                RunnerConfig::Worker { worker }
            }
            (None, None, Some(server), None) if !of_command && !of_open_inference => {
                RunnerConfig::Cog { server }
            }
            (None, None, None, Some(server)) if !of_command => RunnerConfig::OpenInference {
                server,
                model: entry.server_model,
                version: entry.server_version,
            },
            _ => {
                return Err("a model has one of command (with folder, memory_mib), worker, cog, and \
                            open_inference (with server_model, server_version)"
                    .to_owned());
            }
        };
        let time = entry.seconds.map(Duration::try_from_secs_f64).transpose();
        let time = time.map_err(|cause| format!("seconds: {cause}"))?;
        if time.is_some_and(|time| time.is_zero()) {
            return Err("seconds: a run takes longer than 0".to_owned());
        }
        if time.is_some_and(|time| time > MAX_RUN) {
            return Err(format!("seconds: a run takes at most {}", MAX_RUN.as_secs()));
        }
        Ok(Self { runner, side_by_side: entry.side_by_side.unwrap_or(1), time })
    }
}

impl Config {
    /// Parses the settings from JSON; an error has the position and the reason.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let doing = "reading the settings";
        let config: Self = serde_json::from_str(text).map_err(|cause| Error::new(doing, cause))?;
        match config.mistake() {
            Some(mistake) => Err(Error::new(doing, mistake)),
            None => Ok(config),
        }
    }

    fn mistake(&self) -> Option<String> {
        if self.models.is_empty() {
            return Some("a node runs at least one model".to_owned());
        }
        if let Some((name, _)) = self.workers.iter().find(|(_, worker)| worker.processes == 0) {
            return Some(format!("the worker {name} has 0 processes, which would run nothing"));
        }
        for (id, model) in &self.models {
            if model.side_by_side == 0 {
                return Some(format!("the model {id} has side_by_side 0, and would never run"));
            }
            if let RunnerConfig::Worker { worker } = &model.runner
                && !self.workers.contains_key(worker)
            {
                return Some(format!("the model {id} names the worker {worker}, and there is none"));
            }
        }
        let is_safe = self.service.scheme() == "https" || is_this_machine(&self.service);
        let message = "the key would travel unencrypted to another machine; use https, or set allow_plain_http if \
                       the way is safe";
        (!is_safe && !self.allow_plain_http).then(|| message.to_owned())
    }

    /// Reads the settings from a file, and resolves folders relative to it; an error has the position and the reason.
    pub fn read(file: &Path) -> Result<Self, Error> {
        Self::read_for(file, None)
    }

    /// Reads the settings from a file, for the service at this address; the file need not name one.
    pub fn read_for(file: &Path, service: Option<&Url>) -> Result<Self, Error> {
        let doing = || format!("reading {}", file.display());
        let text = std::fs::read_to_string(file).map_err(|cause| Error::new(doing(), cause))?;
        // Some editors of Windows write a byte-order mark.
        let mut text = text.trim_start_matches('\u{feff}').to_owned();
        if let Some(service) = service {
            let mut settings: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(&text).map_err(|cause| Error::new(doing(), cause))?;
            settings.insert("service".to_owned(), service.as_str().into());
            text = serde_json::Value::Object(settings).to_string();
        }
        let mut config = Self::from_json(&text)?;
        let base = file.parent().unwrap_or(Path::new(""));
        let base = if base.as_os_str().is_empty() { Path::new(".") } else { base };
        let within = |folder: &mut Option<PathBuf>| {
            *folder = Some(folder.as_ref().map_or(base.to_owned(), |folder| base.join(folder)));
        };
        for model in config.models.values_mut() {
            if let RunnerConfig::Command { folder, .. } = &mut model.runner {
                within(folder);
            }
        }
        config.workers.values_mut().for_each(|worker| within(&mut worker.folder));
        for file in config.requirements.iter_mut().chain(&mut config.cacert).chain(&mut config.publish) {
            *file = base.join(&*file);
        }
        Ok(config)
    }

    pub(crate) fn check_programs(&self) -> Result<(), Error> {
        for (id, model) in &self.models {
            if let RunnerConfig::Command { command, folder, .. } = &model.runner
                && let Some(program) = command.first()
            {
                check_program(&format!("the model {id}"), program, folder.as_deref())?;
            }
        }
        for (name, worker) in &self.workers {
            if let Some(program) = worker.command.first() {
                check_program(&format!("the worker {name}"), program, worker.folder.as_deref())?;
            }
        }
        Ok(())
    }

    /// Replaces `{python}` in every command.
    pub fn set_python(&mut self, python: &Path) {
        let python = python.display().to_string();
        let commands = self.models.values_mut().filter_map(|model| match &mut model.runner {
            RunnerConfig::Command { command, .. } => Some(command),
            _ => None,
        });
        for word in self.workers.values_mut().map(|worker| &mut worker.command).chain(commands).flatten() {
            if word == PYTHON {
                word.clone_from(&python);
            }
        }
    }
}

pub(crate) fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Key of a node. Its `Debug` output hides the text.
#[derive(Clone)]
pub struct NodeKey(String);

impl NodeKey {
    /// Wraps the text of a key.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_an_error_before_the_first_task() {
        let checked = |program: &str| {
            let model = format!(r#"{{"a": {{"command": ["{program}", "x"], "folder": "/"}}}}"#);
            let text = format!(r#"{{"service": "http://localhost:1", "models": {model}}}"#);
            Config::from_json(&text)
                .and_then(|config| config.check_programs())
                .map_err(|error| error.to_string())
        };
        for program in ["sh", "/bin/sh", "./bin/sh"] {
            assert_eq!(checked(program), Ok(()));
        }
        for (program, why) in [
            ("no-such-program", "there is no program no-such-program"),
            ("./no-such-program", "there is no program ./no-such-program"),
            ("/etc/passwd", "/etc/passwd is not executable: chmod +x /etc/passwd"),
            ("{python}", r#"{python} is the Python of an environment: name a file by "requirements""#),
        ] {
            assert_eq!(checked(program), Err(format!("starting the model a failed: {why}")));
        }
        let refused = check_program("the model a", "sh", Some(Path::new("/no-such-folder")));
        let refused = refused.err().map(|error| error.to_string());
        assert_eq!(
            refused.as_deref(),
            Some("starting the model a failed: there is no folder /no-such-folder")
        );
    }

    #[test]
    fn settings_that_contradict_themselves_are_refused() {
        let with = |service: &str, model: &str| {
            Config::from_json(&format!(r#"{{"service": "{service}", "models": {{"a": {model}}}}}"#))
        };
        let command = r#"{"command": ["true"], "folder": "x", "seconds": 1.5}"#;
        for service in ["https://nodes.example", "http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"]
        {
            assert!(with(service, command).is_ok(), "{service}");
        }
        for (service, model) in [
            ("http://nodes.example", command),
            ("nodes", command),
            ("https://nodes.example", "{}"),
            ("https://nodes.example", r#"{"command": []}"#),
            ("https://nodes.example", r#"{"command": ["true"], "cog": "http://localhost:5000"}"#),
            ("https://nodes.example", r#"{"cog": "http://localhost:5000", "memory_mib": 5}"#),
            ("https://nodes.example", r#"{"command": ["true"], "seconds": -1}"#),
            ("https://nodes.example", r#"{"command": ["true"], "seconds": 0}"#),
            ("https://nodes.example", r#"{"command": ["true"], "seconds": 86401}"#),
            ("https://nodes.example", r#"{"command": ["true"], "typo": 1}"#),
            ("https://nodes.example", r#"{"worker": "none"}"#),
            ("https://nodes.example", r#"{"command": ["true"], "side_by_side": 0}"#),
            (
                "https://nodes.example",
                r#"{"worker": "w"}}, "workers": {"w": {"command": ["w"], "processes": 0}"#,
            ),
        ] {
            assert!(with(service, model).is_err(), "{service} {model}");
        }
        assert_eq!(format!("{:?}", NodeKey::new("secret")), "NodeKey(…)");
    }
}
