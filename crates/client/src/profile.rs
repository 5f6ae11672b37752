//! Profiles of the command `inferstore`: services and keys, in a file that its `login` writes. A profile may have the
//! command that prints its key instead, of the keyring of the system or of another password manager.

use std::collections::BTreeMap;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use std::{iter, thread};

use inferstore_api::ApiKey;
use serde::Deserialize;

use crate::transport::error::{Error, Result};
use crate::transport::redact::{cut, printable};

/// The environment variable that names the profile.
pub const PROFILE_VARIABLE: &str = "INFERSTORE_PROFILE";

/// The environment variable that names another file of profiles.
pub const CONFIG_VARIABLE: &str = "INFERSTORE_CONFIG";

/// How long the command that prints a key may take, with a person who unlocks a keyring.
const KEY_TIMEOUT: Duration = Duration::from_secs(30);

/// How much is kept of what it writes.
const MAX_WRITTEN: usize = 64 * 1024;

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
    api_key: Option<String>,
    /// The program and the arguments that print the key.
    #[serde(default)]
    key_command: Vec<String>,
}

/// The base URL and the key of a profile; without a name, of the one that the environment names, or that
/// is in use.
pub(crate) fn read(name: Option<&str>) -> Result<(String, ApiKey)> {
    let unknown = || Error::Config(format!("no folder for profiles is known; set {CONFIG_VARIABLE}"));
    let path = path().ok_or_else(unknown)?;
    let name = name.map(str::to_owned).or_else(|| variable(PROFILE_VARIABLE));
    read_from(&path, name)
}

fn read_from(path: &Path, name: Option<String>) -> Result<(String, ApiKey)> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::Config(format!("the profiles in {shown} cannot be read: {error}")))?;
    let stored: Profiles = serde_json::from_str(&text).map_err(|error| {
        // The message of the parser may quote a key.
        let place = format!("line {} column {}", error.line(), error.column());
        Error::Config(format!("{shown} is no file of profiles: {place}"))
    })?;
    let mut profiles = stored.profiles;
    let names: Vec<_> = profiles.keys().cloned().collect();
    let Some(name) = name.or(stored.current) else {
        return Err(Error::Config(format!("{shown} has no profile in use; log in, or name one")));
    };
    let Some(Stored { base_url, api_key, key_command }) = profiles.remove(&name) else {
        let names = names.join(", ");
        return Err(Error::Config(format!("there is no profile {name:?} in {shown}; there are: {names}")));
    };
    let key = match api_key {
        Some(key) => key,
        None => printed_key(&key_command, KEY_TIMEOUT).map_err(|problem| {
            Error::Config(format!(
                "the key_command of the profile {name:?}: {problem}; unlock the keyring, or store the key in \
                 the file with `inferstore login --no-keyring`"
            ))
        })?,
    };
    Ok((base_url, ApiKey::new(key)))
}

/// Returns the key that a command prints on its first line.
///
/// # Errors
///
/// Those of [`run_program`]; when it prints none.
pub fn printed_key(command: &[String], timeout: Duration) -> Result<String, String> {
    let printed = run_program(command, "", timeout)?;
    match printed.lines().next().unwrap_or_default().trim() {
        "" => Err(format!("{} printed no key", command.first().map_or("", String::as_str))),
        key => Ok(key.to_owned()),
    }
}

/// Runs a program with its arguments and this input; returns what it writes.
///
/// # Errors
///
/// When it does not start, fails, or has not ended in time.
pub fn run_program(command: &[String], input: &str, timeout: Duration) -> Result<String, String> {
    let (program, arguments) = command.split_first().ok_or("it names no program")?;
    let mut child = Command::new(program);
    child.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().map_err(|error| format!("{program} does not start: {error}"))?;
    let printed = read_along(child.stdout.take());
    let message = read_along(child.stderr.take());
    // A program that ends without reading is judged by its exit status.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    let until = Instant::now() + timeout;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        if Instant::now() >= until {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("{program} has not ended for {} seconds", timeout.as_secs()));
        }
        thread::sleep(Duration::from_millis(2));
    };
    if status.success() {
        return Ok(written(&printed));
    }
    let message = cut(&printable(&written(&message)), 200);
    Err(format!("{program} has failed ({status}) {message}"))
}

/// Reads what a program writes while it runs: with a full pipe it would wait for ever.
fn read_along(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut stream = stream?;
        let mut chunk = vec![0; 4 * 1024];
        let mut kept = 0;
        while let Ok(length @ 1..) = stream.read(&mut chunk) {
            if kept < MAX_WRITTEN {
                kept += length;
                sender.send(chunk[..length].to_vec()).ok()?;
            }
        }
        Some(())
    });
    receiver
}

/// What a program that has ended wrote. Another one that it started may still hold the pipe.
fn written(chunks: &Receiver<Vec<u8>>) -> String {
    let until = Instant::now() + Duration::from_secs(1);
    let next = || chunks.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
    let bytes: Vec<u8> = iter::from_fn(next).flatten().collect();
    String::from_utf8_lossy(&bytes).into_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILES: &str = r#"{
        "current": "work",
        "profiles": {
            "local": {"base_url": "http://127.0.0.1:1/api/v1", "api_key": "LOCAL-KEY"},
            "work": {"base_url": "https://host.example/api/v1", "api_key": "WORK-KEY"}
        }
    }"#;

    fn read(text: &str, name: Option<&str>) -> Result<(String, ApiKey)> {
        let file = tempfile::NamedTempFile::new().map_err(|error| Error::Config(error.to_string()))?;
        std::fs::write(file.path(), text).map_err(|error| Error::Config(error.to_string()))?;
        read_from(file.path(), name.map(str::to_owned))
    }

    #[test]
    fn a_profile_is_the_named_one_or_the_one_in_use() -> Result<()> {
        let (base_url, key) = read(PROFILES, Some("local"))?;
        assert_eq!((base_url.as_str(), key.expose()), ("http://127.0.0.1:1/api/v1", "LOCAL-KEY"));
        let (base_url, key) = read(PROFILES, None)?;
        assert_eq!((base_url.as_str(), key.expose()), ("https://host.example/api/v1", "WORK-KEY"));
        Ok(())
    }

    #[test]
    fn a_profile_that_cannot_be_read_is_an_error_without_a_key() {
        let broken = PROFILES.replace("\"WORK-KEY\"", "WORK-KEY");
        for (text, name, problem) in [
            (PROFILES, Some("home"), "there are: local, work"),
            ("{}", None, "no profile in use"),
            (broken.as_str(), None, "line 5 column"),
            (r#"{"profiles": {"a": {"api_key": "WORK-KEY"}}}"#, Some("a"), "line 1 column"),
        ] {
            let error = read(text, name).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(problem) && !error.contains("WORK-KEY"), "{error}");
        }
        let missing = read_from(Path::new("/nowhere/profiles.json"), None);
        assert!(matches!(missing, Err(Error::Config(problem)) if problem.contains("/nowhere/profiles.json")));
    }

    #[cfg(unix)]
    #[test]
    fn a_key_is_what_a_command_prints_or_the_error_says_why_there_is_none() {
        let printed = |script: &str| {
            let command = ["sh", "-c", script].map(str::to_owned);
            printed_key(
                &command,
                Duration::from_millis(if script.contains("exec sleep") { 20 } else { 20_000 }),
            )
        };
        assert_eq!(printed("echo ' THE-KEY '; echo of mine"), Ok("THE-KEY".to_owned()));
        let begun = Instant::now();
        assert_eq!(printed("sleep 60 & echo THE-KEY"), Ok("THE-KEY".to_owned()), "an agent stays behind");
        let much = "yes | head -c 200000 >&2; echo THE-KEY; yes | head -c 200000";
        assert_eq!(printed(much), Ok("THE-KEY".to_owned()), "a pipe holds less");
        assert!(begun.elapsed() < Duration::from_secs(30));
        for (script, problem) in [
            ("exit 0", "sh printed no key"),
            ("printf 'it is \\033[31mlocked' >&2; exit 3", "(exit status: 3) it is [31mlocked"),
            ("exec >&-; exec sleep 600", "sh has not ended"),
        ] {
            let result = printed(script);
            assert!(matches!(&result, Err(found) if found.contains(problem)), "{result:?}");
        }
        let nowhere = ["/nowhere/pass".to_owned()];
        for command in [&nowhere[..], &[]] {
            assert!(printed_key(command, KEY_TIMEOUT).is_err());
        }
    }
}
