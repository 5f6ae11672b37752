//! Keyring of the system, through its program: `secret-tool` of libsecret, or `security` of macOS. A profile
//! with a key in the keyring stores the command that prints the key, as with any other password manager.

use crate::program::{TIMEOUT, printed_key, run_program};

const SERVICE: &str = "inferstore";

/// Keyring of the system.
#[derive(Debug, Clone, PartialEq)]
pub struct Keyring {
    program: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    SecretTool,
    Security,
}

/// Name of a keyring entry, with the base URL: a profile pointed at another service does not send it the key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) profile: &'a str,
    pub(crate) base_url: &'a str,
}

enum Action<'a> {
    Store { key: &'a str },
    Read,
    Remove,
}

impl Keyring {
    const fn new(program: String) -> Self {
        Self { program, kind: if cfg!(target_os = "macos") { Kind::Security } else { Kind::SecretTool } }
    }

    /// Returns the keyring, if the environment has one that a person can unlock.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let has_display = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| variable(name).is_some());
        let is_macos = cfg!(target_os = "macos");
        let name = if is_macos { "security" } else { "secret-tool" };
        let path = variable("PATH").filter(|_| is_macos || has_display)?;
        let mut folders = std::env::split_paths(&path);
        let program = folders.find_map(|folder| Some(folder.join(name)).filter(|program| program.is_file()));
        Some(Self::new(program?.to_str()?.to_owned()))
    }

    /// Returns the keyring whose read command this is; `None` for another command.
    pub(crate) fn of_command(command: &[String], entry: Entry<'_>) -> Option<Self> {
        let keyring = Self::new(command.first()?.clone());
        Some(keyring).filter(|keyring| keyring.call(entry, &Action::Read).0 == command)
    }

    /// Stores a key, replacing a previous one, and reads it back. Returns the command that prints the key.
    pub(crate) fn store(&self, entry: Entry<'_>, key: &str) -> Result<Vec<String>, String> {
        let (store, input) = self.call(entry, &Action::Store { key });
        run_program(&store, &input, TIMEOUT)?;
        let (command, _) = self.call(entry, &Action::Read);
        // `security` exits with success even if its commands fail.
        if printed_key(&command, TIMEOUT)? == key {
            Ok(command)
        } else {
            Err("it has another key than was stored".to_owned())
        }
    }

    pub(crate) fn remove(&self, entry: Entry<'_>) -> Result<(), String> {
        run_program(&self.call(entry, &Action::Remove).0, "", TIMEOUT).map(drop)
    }

    /// Returns the command of an action, and its input, which has the key: other users can see the arguments.
    fn call(&self, Entry { profile, base_url }: Entry<'_>, action: &Action<'_>) -> (Vec<String>, String) {
        let service = format!("{SERVICE} {base_url}");
        let entry = match self.kind {
            Kind::SecretTool => vec!["service", SERVICE, "profile", profile, "url", base_url],
            Kind::Security => vec!["-s", &service, "-a", profile],
        };
        let label = format!("Inferstore, profile {profile}");
        let (words, input) = match (self.kind, action) {
            (Kind::SecretTool, Action::Store { key }) => {
                (vec!["store", "--label", &label], (*key).to_owned())
            }
            (Kind::SecretTool, Action::Read) => (vec!["lookup"], String::new()),
            (Kind::SecretTool, Action::Remove) => (vec!["clear"], String::new()),
            (Kind::Security, Action::Store { key }) => {
                let entry: String = entry.iter().map(|word| format!(" {word:?}")).collect();
                let key: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
                let line = format!("add-generic-password -U{entry} -X {key}\n");
                return (vec![self.program.clone(), "-i".to_owned()], line);
            }
            (Kind::Security, Action::Read) => (vec!["find-generic-password", "-w"], String::new()),
            (Kind::Security, Action::Remove) => (vec!["delete-generic-password"], String::new()),
        };
        let command = [&*self.program].into_iter().chain(words).chain(entry);
        (command.map(str::to_owned).collect(), input)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const ENTRY: Entry<'static> = Entry { profile: "work", base_url: "https://host.example/api/v1" };

    fn sh(script: &str) -> [String; 3] {
        ["sh", "-c", script].map(str::to_owned)
    }

    #[test]
    fn a_key_is_no_argument_which_others_can_see() {
        let stored =
            |kind| Keyring { program: "it".to_owned(), kind }.call(ENTRY, &Action::Store { key: "key" });
        let (arguments, input) = stored(Kind::SecretTool);
        let url = ENTRY.base_url;
        let entry = ["service", "inferstore", "profile", "work", "url", url];
        assert_eq!(arguments, [&["it", "store", "--label", "Inferstore, profile work"][..], &entry].concat());
        assert_eq!(input, "key");
        let (arguments, input) = stored(Kind::Security);
        assert_eq!(arguments, ["it", "-i"]);
        assert_eq!(
            input,
            format!("add-generic-password -U \"-s\" \"inferstore {url}\" \"-a\" \"work\" -X 6b6579\n")
        );
    }

    #[test]
    fn a_keyring_is_known_by_its_command_and_another_command_is_none() {
        let keyring = Keyring::new("/bin/secret-tool".to_owned());
        let (command, _) = keyring.call(ENTRY, &Action::Read);
        assert_eq!(Keyring::of_command(&command, ENTRY), Some(keyring));
        assert_eq!(Keyring::of_command(&command, Entry { profile: "home", ..ENTRY }), None);
        assert_eq!(Keyring::of_command(&sh("pass show inferstore"), ENTRY), None);
    }

    #[test]
    fn a_program_that_stores_nothing_is_found_out() {
        let keyring = Keyring::new("true".to_owned());
        assert_eq!(keyring.store(ENTRY, "the-key"), Err("true printed no key".to_owned()));
    }
}
