//! Profiles as a program reads, writes and uses them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;

use inferstore_profiles::{KeySource, Profile, ProfileErrorKind, Profiles, Result};

const PROFILES: &str = r#"{
    "current": "work",
    "profiles": {
        "local": {"base_url": "http://127.0.0.1:1/api/v1", "api_key": "LOCAL-KEY"},
        "work": {"base_url": "https://host.example/api/v1", "api_key": "WORK-KEY"}
    }
}"#;

fn read(text: &str) -> Result<Profiles> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    Profiles::read(file.path())
}

#[test]
fn a_profile_is_the_named_one_or_the_one_in_use() -> Result<()> {
    let profiles = read(PROFILES)?;
    for (named, name, url, key) in [
        (Some("local"), "local", "http://127.0.0.1:1/api/v1", "LOCAL-KEY"),
        (None, "work", "https://host.example/api/v1", "WORK-KEY"),
    ] {
        let (found, profile) = profiles.get(named)?;
        assert_eq!((found, profile.base_url.as_str()), (name, url));
        assert_eq!((profile.key(name)?.expose(), profile.key_source(name)), (key, KeySource::File));
    }
    let unknown = profiles.get(Some("home")).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no profile \"home\"");
    assert_eq!(unknown.hint, "there are: local, work");
    let none = Profiles::default();
    assert_eq!(none.get(None).unwrap_err().kind, ProfileErrorKind::NoneInUse);
    Ok(())
}

#[test]
fn a_file_without_profiles_is_an_error_without_a_key_and_no_file_is_none() -> Result<()> {
    let broken = PROFILES.replace("\"WORK-KEY\"", "WORK-KEY");
    for (text, place) in [
        (broken.as_str(), "line 5 column"),
        (r#"{"profiles": {"a": {"api_key": "WORK-KEY"}}}"#, "line 1 column"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(place) && !error.contains("WORK-KEY"), "{error}");
    }
    assert_eq!(Profiles::read(Path::new("/nowhere/profiles.json"))?, Profiles::default());
    Ok(())
}

#[test]
fn what_is_written_is_read_back_and_no_key_is_shown() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/profiles.json");
    let mut profiles = Profiles::default();
    let mut profile = Profile::new("https://host.example/api/v1", "WORK-KEY");
    profile.data_dir = Some("data".to_owned());
    profiles.profiles.insert("work".to_owned(), profile);
    profiles.current = Some("work".to_owned());
    let lock = Profiles::lock(&path);
    profiles.write(&path)?;
    drop(lock);
    assert_eq!(Profiles::read(&path)?, profiles);
    assert!(!format!("{profiles:?}").contains("WORK-KEY"));
    assert!(!inferstore_profiles::is_open_to_others(&path));
    let failed = profiles.write(&path.join("below/a/file")).unwrap_err().to_string();
    assert!(failed.contains("cannot be written"), "{failed}");
    Ok(())
}

#[test]
fn the_file_is_found_by_the_variables_of_the_environment() {
    let place = |known: &[&str]| {
        let variable = |name: &str| known.contains(&name).then(|| format!("/{name}"));
        Profiles::path(variable).ok().and_then(|path| path.to_str().map(str::to_owned))
    };
    let found = [
        place(&["APPDATA", "HOME", "XDG_CONFIG_HOME", "INFERSTORE_CONFIG"]),
        place(&["APPDATA", "HOME", "XDG_CONFIG_HOME"]),
        place(&["APPDATA", "HOME"]),
        place(&["APPDATA"]),
        place(&[]),
    ];
    let expected = [
        Some("/INFERSTORE_CONFIG"),
        Some("/XDG_CONFIG_HOME/inferstore/profiles.json"),
        Some("/HOME/.config/inferstore/profiles.json"),
        Some("/APPDATA/inferstore/profiles.json"),
        None,
    ];
    assert_eq!(found.each_ref().map(Option::as_deref), expected);
}

#[cfg(unix)]
mod client {
    use std::process::Command;

    use inferstore_wire::{Reaction, Server};

    use super::*;

    const KEY: &str = "the-key-that-is-printed";

    /// Set in the child process.
    const CHILD: &str = "INFERSTORE_TEST_PROFILE";

    /// Returns the base URL of a service that accepts the key, and has no account.
    fn serve() -> String {
        let respond = |has_key: bool| Reaction::status(if has_key { 404 } else { 401 });
        Server::start(move |request| respond(request.head.contains(KEY))).base_url()
    }

    async fn check_clients() {
        for name in [Some("work"), None] {
            let client = inferstore_profiles::client(name).await.unwrap();
            assert!(client.balance().await.unwrap_err().is_not_found());
        }
        for (name, problem) in [
            ("locked", "the key of the profile locked cannot be read from its key_command: sh has failed"),
            ("empty", "its key_command: it names no program"),
            ("broken", "the base URL"),
            ("none", "there is no profile"),
        ] {
            let error = inferstore_profiles::client(Some(name)).await.unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[tokio::test]
    async fn a_client_has_the_key_that_the_command_of_its_profile_prints() {
        if std::env::var_os(CHILD).is_some() {
            return check_clients().await;
        }
        let profiles = r#"{"profiles": {
            "work": {"base_url": "BASE", "key_command": ["sh", "-c", "echo KEY"]},
            "locked": {"base_url": "BASE", "key_command": ["sh", "-c", "exit 1"]},
            "empty": {"base_url": "BASE"},
            "broken": {"base_url": "nowhere", "api_key": "KEY"}
        }}"#;
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), profiles.replace("BASE", &serve()).replace("KEY", KEY)).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        // Runs this test again, with the file in its environment.
        child.args(["--exact", std::thread::current().name().unwrap()]).env(CHILD, "");
        child.env("INFERSTORE_CONFIG", file.path()).env("INFERSTORE_PROFILE", "work");
        let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    }
}
