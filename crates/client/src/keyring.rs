//! The keyring of the system, through the program that comes with it: `secret-tool` of libsecret, or `security` of
//! macOS. Without a library, which would bring D-Bus to every program over the client.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::transport::redact::printable;

/// The timeout where a person can be asked to unlock it.
const UNLOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout where no person can be asked: a locked keyring does not respond there.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// The name under which all entries are.
const SERVICE: &str = "inferstore";

/// The keyring of the system.
#[derive(Debug)]
pub struct Keyring {
    program: PathBuf,
    kind: Kind,
    /// Whether a person can be asked to unlock it.
    can_ask: bool,
    /// The timeout of its program.
    timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    SecretTool,
    Security,
}

/// What a key is found by. A profile that is led to another service does not take its key along.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The profile.
    pub profile: &'a str,
    /// The base URL of its service.
    pub base_url: &'a str,
}

/// The key of an entry, in the keyring that these variables of the environment lead to.
///
/// # Errors
///
/// As [`Keyring::read`], also when there is no keyring.
pub fn read(entry: Entry<'_>, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    Keyring::find(variable).ok_or_else(|| "there is none".to_owned())?.read(entry)
}

/// What is done with an entry.
enum Action<'a> {
    Store { key: &'a str },
    Read,
    Remove,
}

impl Keyring {
    /// The keyring, with these variables of the environment; `None` when there is none.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let (kind, name) = match cfg!(target_os = "macos") {
            true => (Kind::Security, "security"),
            false => (Kind::SecretTool, "secret-tool"),
        };
        let folders = variable("PATH")?;
        let program =
            std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|it| it.is_file())?;
        let has_display = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| variable(name).is_some());
        let can_ask = kind == Kind::Security || has_display;
        Some(Self {
            program,
            kind,
            can_ask,
            timeout: if can_ask { UNLOCK_TIMEOUT } else { RESPONSE_TIMEOUT },
        })
    }

    /// Whether a person can be asked to unlock it.
    pub fn can_ask(&self) -> bool {
        self.can_ask
    }

    /// Stores a key, and reads it again; the entry may have another one already.
    ///
    /// # Errors
    ///
    /// What the program says, as of the other methods.
    pub fn store(&self, entry: Entry<'_>, key: &str) -> Result<(), String> {
        self.run(entry, &Action::Store { key })?;
        // `security` reads commands, and ends well however they end.
        match self.read(entry)? == key {
            true => Ok(()),
            false => Err("it has another key than was stored".to_owned()),
        }
    }

    /// The key of an entry.
    ///
    /// # Errors
    ///
    /// As [`store`](Self::store), also when there is no such entry.
    pub fn read(&self, entry: Entry<'_>) -> Result<String, String> {
        let key = self.run(entry, &Action::Read)?.trim().to_owned();
        if key.is_empty() { Err("it has no such entry".to_owned()) } else { Ok(key) }
    }

    /// Removes an entry.
    ///
    /// # Errors
    ///
    /// As [`store`](Self::store).
    pub fn remove(&self, entry: Entry<'_>) -> Result<(), String> {
        self.run(entry, &Action::Remove).map(drop)
    }

    /// Runs the program; what it writes.
    fn run(&self, entry: Entry<'_>, action: &Action<'_>) -> Result<String, String> {
        let (arguments, input) = self.kind.call(entry, action);
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| format!("{} does not start: {error}", self.name()))?;
        // A program that ends without reading is judged by its exit status.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
        let (output, message) =
            (read_in_background(child.stdout.take()), read_in_background(child.stderr.take()));
        let Ok(output) = output.recv_timeout(self.timeout) else {
            kill(child);
            return Err(format!("{} has not responded for {} seconds", self.name(), self.timeout.as_secs()));
        };
        let Some(status) = wait(&mut child, self.timeout) else {
            kill(child);
            return Err(format!("{} has not ended for {} seconds", self.name(), self.timeout.as_secs()));
        };
        if status.success() {
            return Ok(output);
        }
        match printable(&message.recv_timeout(RESPONSE_TIMEOUT).unwrap_or_default()) {
            message if message.is_empty() => Err(format!("{} has failed ({status})", self.name())),
            message => Err(message),
        }
    }

    fn name(&self) -> std::borrow::Cow<'_, str> {
        self.program.file_name().unwrap_or_default().to_string_lossy()
    }
}

impl Kind {
    /// The arguments and the input of the program. Others can see arguments: a key is part of the input.
    fn call(self, Entry { profile, base_url }: Entry<'_>, action: &Action<'_>) -> (Vec<String>, String) {
        let service = format!("{SERVICE} {base_url}");
        let entry = match self {
            Self::SecretTool => vec!["service", SERVICE, "profile", profile, "url", base_url],
            Self::Security => vec!["-s", &service, "-a", profile],
        };
        let label = format!("Inferstore, profile {profile}");
        let (words, input) = match (self, action) {
            (Self::SecretTool, Action::Store { key }) => {
                (vec!["store", "--label", &label], (*key).to_owned())
            }
            (Self::SecretTool, Action::Read) => (vec!["lookup"], String::new()),
            (Self::SecretTool, Action::Remove) => (vec!["clear"], String::new()),
            (Self::Security, Action::Store { key }) => {
                let entry: String = entry.iter().map(|word| format!(" {word:?}")).collect();
                let key: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
                return (vec!["-i".to_owned()], format!("add-generic-password -U{entry} -X {key}\n"));
            }
            (Self::Security, Action::Read) => (vec!["find-generic-password", "-w"], String::new()),
            (Self::Security, Action::Remove) => (vec!["delete-generic-password"], String::new()),
        };
        (words.into_iter().chain(entry).map(str::to_owned).collect(), input)
    }
}

/// What a program writes, once it has ended.
fn read_in_background(stream: Option<impl std::io::Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            // What has been read before a failure is what there is.
            let _ = stream.take(64 * 1024).read_to_end(&mut bytes);
        }
        sender.send(String::from_utf8_lossy(&bytes).into_owned())
    });
    receiver
}

/// How the program ends, if it does so in time.
fn wait(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + timeout;
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(2)),
            status => return status.ok().flatten(),
        }
    }
}

fn kill(mut child: Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    const ENTRY: Entry<'static> = Entry { profile: "work", base_url: "https://host.example/api/v1" };

    /// A keyring whose program is this script.
    fn keyring(script: &str, timeout: Duration) -> (tempfile::TempDir, Keyring) {
        let folder = tempfile::tempdir().unwrap();
        let (text, program) = (folder.path().join("script"), folder.path().join("secret-tool"));
        std::fs::write(&text, format!("#!/bin/sh\ncd \"$(dirname \"$0\")\"\n{script}\n")).unwrap();
        // Copied by another process: a file that one of this process writes cannot be run meanwhile.
        assert!(
            Command::new("install").args(["-m", "700"]).arg(text).arg(program).status().unwrap().success()
        );
        let path = folder.path().to_str().map(str::to_owned);
        let keyring = Keyring::find(|name| path.clone().filter(|_| name == "PATH")).unwrap();
        (folder, Keyring { timeout, ..keyring })
    }

    #[test]
    fn a_key_is_no_argument_which_others_can_see() {
        let stored = |kind: Kind| kind.call(ENTRY, &Action::Store { key: "key" });
        let (arguments, input) = stored(Kind::SecretTool);
        let url = ENTRY.base_url;
        let entry = ["service", "inferstore", "profile", "work", "url", url];
        assert_eq!(arguments, [&["store", "--label", "Inferstore, profile work"][..], &entry].concat());
        assert_eq!(input, "key");
        let (arguments, input) = stored(Kind::Security);
        assert_eq!(arguments, ["-i"]);
        assert_eq!(
            input,
            format!("add-generic-password -U \"-s\" \"inferstore {url}\" \"-a\" \"work\" -X 6b6579\n")
        );
    }

    #[test]
    fn a_key_is_there_until_it_is_removed() {
        let script = r#"action=$1; while [ "$1" != service ]; do shift; done
            case $action in
              store) cat > "$4";;
              lookup) cat "$4" 2>/dev/null;;
              clear) rm "$4";;
            esac"#;
        let (_folder, keyring) = keyring(script, UNLOCK_TIMEOUT);
        keyring.store(ENTRY, "first").unwrap();
        keyring.store(ENTRY, "second").unwrap();
        assert_eq!(keyring.read(ENTRY).unwrap(), "second");
        keyring.remove(ENTRY).unwrap();
        keyring.read(ENTRY).unwrap_err();
        keyring.remove(ENTRY).unwrap_err();
    }

    #[test]
    fn a_program_that_stores_nothing_is_found_out() {
        let (_folder, keyring) = keyring("cat >/dev/null", UNLOCK_TIMEOUT);
        keyring.store(ENTRY, "the-key").unwrap_err();
    }

    #[test]
    fn a_keyring_that_is_locked_or_empty_says_so() {
        let (_folder, locked) =
            keyring("cat >/dev/null; printf 'in a \\033[31mlocked collection' >&2; exit 1", UNLOCK_TIMEOUT);
        let problem = locked.store(ENTRY, "the-key").unwrap_err();
        assert!(problem.contains("locked collection") && !problem.contains('\u{1b}'), "{problem:?}");
        let (_folder, empty) = keyring("exit 1", UNLOCK_TIMEOUT);
        assert!(empty.read(ENTRY).unwrap_err().contains("secret-tool has failed"), "{empty:?}");
        let (_folder, empty) = keyring("exit 0", UNLOCK_TIMEOUT);
        assert_eq!(empty.read(ENTRY).unwrap_err(), "it has no such entry");
    }

    #[test]
    fn a_keyring_that_does_not_respond_is_given_up() {
        for script in ["exec sleep 600", "exec >&-; exec sleep 600"] {
            let (_folder, keyring) = keyring(script, Duration::from_millis(50));
            assert!(keyring.read(ENTRY).unwrap_err().contains("secret-tool has not"), "{script}");
        }
    }
}
