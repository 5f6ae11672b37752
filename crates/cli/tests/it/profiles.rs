//! Logging in, and which settings win.

#[cfg(unix)]
use std::io::{BufRead, BufReader, Write};
#[cfg(unix)]
use std::process::{Command, Stdio};
#[cfg(unix)]
use std::time::{Duration, Instant};

use inferstore_cli::exit;
#[cfg(unix)]
use serde_json::json;

#[cfg(target_os = "linux")]
use crate::support::secret_tool;
use crate::support::{Cli, Local, filters};

const KEY: &str = "the-key-of-the-tests";

/// A service, and a command that knows nothing of it.
fn logged_out() -> (Local, String) {
    let mut local = Local::start();
    let base_url = local.service().base_url().to_owned();
    local.cli.unset("INFERSTORE_BASE_URL");
    local.cli.unset("INFERSTORE_API_KEY");
    (local, base_url)
}

#[test]
fn a_key_is_checked_stored_and_never_printed() {
    let _filters = filters();
    let (mut local, base_url) = logged_out();
    local.cli.stdin(KEY);
    let login = format!("login --base-url {base_url} --profile work");
    let transcript = local.cli.transcript(&["balance", &login, "balance --format quiet", "profile list"]);
    insta::assert_snapshot!("login", transcript);
    assert!(!transcript.contains(KEY));
}

#[cfg(unix)]
#[test]
fn only_its_owner_can_read_the_file_of_profiles() {
    use std::os::unix::fs::PermissionsExt;
    let (mut local, base_url) = logged_out();
    local.cli.stdin(KEY);
    assert_eq!(local.cli.call(&format!("login --base-url {base_url}")).code, exit::DONE);
    let path = local.cli.path("profiles.json");
    let mode = || std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
    assert!(local.cli.call("balance").stderr.contains("others can read"));
    assert_eq!(local.cli.call("profile use default").code, exit::DONE);
    assert_eq!(mode(), 0o600, "writing corrects it");
}

#[test]
fn a_wrong_key_is_not_stored() {
    let (mut local, base_url) = logged_out();
    local.cli.stdin("wrong");
    let ended = local.cli.call(&format!("login --base-url {base_url}"));
    assert_eq!(ended.code, exit::KEY);
    assert!(ended.stderr.contains("hint: log in again with the whole key"), "{ended}");
    assert_eq!(local.cli.call("profile list --format json").stdout, "[]\n");
    local.cli.stdin("");
    assert_eq!(local.cli.call(&format!("login --base-url {base_url}")).code, exit::KEY, "an empty one");
}

#[test]
fn flags_come_before_the_environment_and_that_before_profiles() {
    let (mut local, base_url) = logged_out();
    local.cli.stdin(KEY);
    local.cli.call(&format!("login --base-url {base_url}"));
    assert_eq!(local.cli.call("balance").code, exit::DONE, "the profile");
    local.cli.set("INFERSTORE_API_KEY", "wrong");
    assert_eq!(local.cli.call("balance").code, exit::KEY, "the environment");
    assert_eq!(local.cli.call(&format!("balance --api-key {KEY}")).code, exit::DONE, "the flag");
}

#[test]
fn the_key_of_a_profile_goes_to_no_other_service() {
    let (mut local, base_url) = logged_out();
    local.cli.stdin(KEY);
    local.cli.call(&format!("login --base-url {base_url}"));
    let other = Local::start();
    let ended = local.cli.call(&format!("balance --base-url {}", other.service().base_url()));
    assert_eq!(ended.code, exit::KEY, "{ended}");
    assert!(ended.stderr.contains("there is no API key for"), "{ended}");
}

#[test]
fn a_base_url_is_shown_without_what_may_be_a_secret() {
    for base_url in ["https://user:hidden@host.example/api", "https://host.example/api?token=hidden#hidden"] {
        let ended = crate::support::Cli::new().call(&format!("balance --base-url {base_url}"));
        assert!(ended.stderr.contains("host.example/api\n"), "{ended}");
        assert!(!ended.stderr.contains("hidden"), "{ended}");
    }
}

#[test]
fn profiles_are_listed_and_chosen() {
    let _filters = filters();
    let (mut local, base_url) = logged_out();
    local.cli.stdin(KEY);
    for name in ["first", "second"] {
        local.cli.call(&format!("login --base-url {base_url} --profile {name}"));
    }
    insta::assert_snapshot!(
        "profile",
        local.cli.transcript(&[
            "profile list",
            "profile use first",
            "profile list --format jsonl",
            "profile list --format quiet",
            "profile use third",
            "profile remove first",
            "balance",
            "profile remove second",
            "logout",
        ])
    );
}

/// Serves a data folder until its profile is stored, and returns its messages until then.
#[cfg(unix)]
fn serve_once(cli: &Cli, folder: &str) -> String {
    let mut process = Command::new(env!("CARGO_BIN_EXE_inferstore"))
        .args(["serve", "--port", "0", "--storage-port", "0", "--no-console", "--data-dir", folder])
        .env_remove("INFERSTORE_BASE_URL")
        .env_remove("INFERSTORE_API_KEY")
        .env("INFERSTORE_CONFIG", cli.path("profiles.json"))
        .current_dir(cli.folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut messages = String::new();
    let mut stderr = BufReader::new(process.stderr.take().expect("it is piped"));
    while !messages.contains("leads here") {
        assert_ne!(stderr.read_line(&mut messages).expect("text"), 0, "a line about the profile: {messages}");
    }
    let killed = Command::new("kill").args(["-s", "TERM", &process.id().to_string()]).status();
    assert!(killed.expect("it starts").success());
    process.wait().expect("it ends");
    messages
}

#[cfg(unix)]
#[test]
fn each_data_folder_keeps_the_key_that_was_shown_once() {
    let cli = Cli::new();
    assert!(serve_once(&cli, "first").contains("the profile local leads here;"));
    let second = serve_once(&cli, "second");
    assert!(second.contains("the profile local-2 leads here (local is of another service)"), "{second}");
    assert!(second.contains("--profile local-2"), "{second}");
    let of_key = "a new one: `inferstore admin key add demo --data-dir first -q`";
    assert!(!second.contains("a new one"), "{second}");
    let first = serve_once(&cli, "first");
    assert!(first.contains("the profile local leads here;") && first.contains(of_key), "{first}");
    assert!(serve_once(&cli, "second").contains("the profile local-2 leads here"));
    assert_eq!(cli.call("profile list -q").stdout, "local\nlocal-2\n");

    // A folder that is emptied has a new key, and the old one is worth nothing.
    std::fs::remove_dir_all(cli.path("first")).expect("it is ours");
    assert!(serve_once(&cli, "first").contains("the profile local leads here;"));
    assert_eq!(cli.call("profile list -q").stdout, "local\nlocal-2\n");
}

#[cfg(unix)]
#[test]
fn serve_keeps_a_profile_local_that_a_person_has_made() {
    let cli = Cli::new();
    let login = "login https://host.example --no-check --profile local --api-key of-the-other";
    assert_eq!(cli.call(login).code, exit::DONE);
    assert!(serve_once(&cli, "data").contains("the profile local-2 leads here"));
    let stored = std::fs::read_to_string(cli.path("profiles.json")).expect("it is there");
    assert!(stored.contains("of-the-other"), "{stored}");
}

#[cfg(unix)]
#[test]
fn serve_asks_no_password_manager_for_the_key_of_another_service() {
    let cli = Cli::new();
    let asked = cli.path("asked");
    let key_command = ["sh", "-c", &format!("touch {asked}; echo a-key")];
    let profile = json!({"base_url": "https://host.example/api/v1", "key_command": key_command});
    let profiles = json!({"profiles": {"local": profile}});
    std::fs::write(cli.path("profiles.json"), profiles.to_string()).expect("it can be written");
    assert!(serve_once(&cli, "data").contains("the profile local-2 leads here"));
    assert!(!std::fs::exists(asked).expect("it can be asked"), "its key_command has run");
}

#[cfg(unix)]
#[test]
fn a_login_that_waits_for_the_key_loses_no_profile_of_another_command() {
    let cli = Cli::new();
    let mut slow = Command::new(env!("CARGO_BIN_EXE_inferstore"))
        .args(["login", "https://slow.example", "--no-check", "--profile", "slow"])
        .env_remove("INFERSTORE_API_KEY")
        .env("INFERSTORE_CONFIG", cli.path("profiles.json"))
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    // Spaces around the key are not part of it: once this one is read, the command waits for the key.
    let mut typed = slow.stdin.take().expect("it is piped");
    typed.write_all(b" ").expect("it can be typed");
    let begun = Instant::now();
    while rustix::io::ioctl_fionread(&typed).expect("a pipe") > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "the command does not ask for the key");
        std::thread::sleep(Duration::from_millis(5));
    }
    let quick = cli.call("login https://quick.example --no-check --profile quick --api-key a-key");
    assert_eq!(quick.code, exit::DONE, "{quick}");
    typed.write_all(b"a-key\n").expect("it can be typed");
    assert!(slow.wait().expect("it ends").success());
    assert_eq!(cli.call("profile list -q").stdout, "quick\nslow\n");
}

#[test]
fn a_broken_file_is_told_without_its_content() {
    let cli = Cli::new();
    std::fs::write(cli.path("profiles.json"), r#"{"profiles": {"a": planted-key}}"#)
        .expect("it can be written");
    let ended = cli.call("balance");
    assert_eq!(ended.code, exit::USAGE);
    assert!(!ended.to_string().contains("planted"), "{ended}");
}

/// A command on a desktop with a keyring, and the entries of the keyring.
#[cfg(target_os = "linux")]
fn with_keyring(local: &mut Local) -> impl Fn() -> Vec<String> + use<> {
    let folder = secret_tool(&local.cli);
    let home = local.cli.path("home");
    local.cli.unset("INFERSTORE_CONFIG");
    for (name, value) in [("HOME", &*home), ("PATH", &folder), ("DISPLAY", ":0")] {
        local.cli.set(name, value);
    }
    move || {
        let entries = std::fs::read_dir(&folder).expect("it is there").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("entry-")).collect()
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_key_is_in_the_keyring_of_the_system_until_the_logout() {
    let (mut local, base_url) = logged_out();
    let entries = with_keyring(&mut local);
    let login = format!("login {base_url} --api-key {KEY}");
    let ended = local.cli.call(&login);
    assert!(ended.code == exit::DONE && ended.stderr.contains("the key in the keyring"), "{ended}");
    let file = local.cli.path("home/.config/inferstore/profiles.json");
    let stored = || std::fs::read_to_string(&file).expect("it is there");
    assert!(!stored().contains(KEY) && entries().len() == 1, "{}", stored());
    assert_eq!(local.cli.call("balance -q").stdout, "100\n");
    let status = local.cli.call("status");
    assert!(status.stdout.contains("from the keyring of the system, for the profile default"), "{status}");

    // The same service by another name: the key of the one before is not left behind.
    let other = base_url.replace("127.0.0.1", "localhost");
    assert_eq!(local.cli.call(&format!("login {other} --api-key {KEY} --profile default")).code, exit::DONE);
    assert!(matches!(&entries()[..], [entry] if entry.contains("localhost")), "{:?}", entries());
    assert_eq!(local.cli.call(&format!("{login} --no-keyring --profile default")).code, exit::DONE);
    assert!(stored().contains(KEY) && entries().is_empty(), "{:?}", entries());

    assert_eq!(local.cli.call(&login).code, exit::DONE);
    assert_eq!(local.cli.call("logout").code, exit::DONE);
    assert!(!stored().contains(KEY) && entries().is_empty(), "{:?}", entries());
}

#[cfg(target_os = "linux")]
#[test]
fn a_keyring_that_cannot_be_used_leaves_the_key_in_the_file() {
    let (mut local, base_url) = logged_out();
    let entries = with_keyring(&mut local);
    let login = format!("login {base_url} --api-key {KEY}");
    local.cli.unset("DISPLAY");
    assert_eq!(local.cli.call(&login).code, exit::DONE, "where no person can unlock it");
    assert!(entries().is_empty());
    local.cli.set("DISPLAY", ":0");
    let locked = local.cli.path("bin/locked");
    std::fs::write(&locked, "").expect("it is ours");
    let ended = local.cli.call(&login);
    assert!(ended.code == exit::DONE && ended.stderr.contains("the collection is locked"), "{ended}");
    assert_eq!(local.cli.call("balance -q").stdout, "100\n");

    std::fs::remove_file(&locked).expect("it is there");
    assert_eq!(local.cli.call(&login).code, exit::DONE);
    std::fs::write(&locked, "").expect("it is ours");
    let ended = local.cli.call("balance");
    assert!(ended.code == exit::KEY && ended.stderr.contains("login --no-keyring"), "{ended}");
    let ended = local.cli.call("logout");
    assert!(ended.code != exit::DONE && ended.stderr.contains("may still have a key of default"), "{ended}");
    assert_eq!(local.cli.call("profile list --json").stdout, "[]\n");

    // What cannot be stored leaves nothing behind.
    std::fs::remove_file(&locked).expect("it is there");
    for entry in entries() {
        std::fs::remove_file(local.cli.path(&format!("bin/{entry}"))).expect("it is there");
    }
    local.cli.set("XDG_CONFIG_HOME", "/proc/1");
    let ended = local.cli.call(&login);
    assert!(ended.code != exit::DONE && !ended.stderr.contains("stored in"), "{ended}");
    assert!(entries().is_empty(), "{:?}", entries());
}

#[cfg(unix)]
#[test]
fn a_profile_may_have_the_command_of_a_password_manager() {
    let (local, base_url) = logged_out();
    let write = |script: &str| {
        let profile = json!({"base_url": base_url, "key_command": ["sh", "-c", script]});
        let profiles = json!({"current": "default", "profiles": {"default": profile}});
        std::fs::write(local.cli.path("profiles.json"), profiles.to_string()).expect("it can be written");
    };
    write(&format!("echo {KEY}"));
    assert_eq!(local.cli.call("balance -q").stdout, "100\n");
    let status = local.cli.call("status");
    assert!(status.stdout.contains("from its key_command, for the profile default"), "{status}");
    write("echo 'the vault is sealed' >&2; exit 1");
    let ended = local.cli.call("balance");
    assert!(ended.code == exit::KEY && ended.stderr.contains("the vault is sealed"), "{ended}");
    assert_eq!(local.cli.call("logout").code, exit::DONE, "there is nothing of ours to remove");
}

#[test]
fn a_login_at_another_service_keeps_the_profile_of_the_first() {
    let (mut local, base_url) = logged_out();
    let other = Local::start();
    let other_url = other.service().base_url();
    let login = |url: &str| format!("login {url} --api-key {KEY}");
    assert_eq!(local.cli.call(&login(&base_url)).code, exit::DONE);
    let ended = local.cli.call(&login(other_url));
    let host = other_url.trim_start_matches("http://").trim_end_matches("/api/v1");
    assert!(ended.stderr.contains(&format!("profile {host}: {other_url}")), "{ended}");
    assert_eq!(local.cli.call(&login(&base_url)).code, exit::DONE);
    assert_eq!(local.cli.call("profile list -q").stdout, format!("{host}\ndefault\n"));

    // The flag comes before the environment, also when a key is renewed.
    local.cli.set("INFERSTORE_BASE_URL", "http://127.0.0.1:9/api/v1");
    let ended = local.cli.call(&format!("login --profile default --api-key {KEY}"));
    assert!(ended.stderr.contains(&format!("profile default: {base_url}")), "{ended}");
}

#[cfg(unix)]
#[test]
fn a_file_of_profiles_that_is_a_link_stays_one() {
    let (local, base_url) = logged_out();
    let (link, file) = (local.cli.path("profiles.json"), local.cli.path("dotfiles.json"));
    std::fs::write(&file, "{}").expect("it is ours");
    std::os::unix::fs::symlink(&file, &link).expect("it is ours");
    assert_eq!(local.cli.call(&format!("login {base_url} --api-key {KEY}")).code, exit::DONE);
    assert!(std::fs::symlink_metadata(&link).is_ok_and(|it| it.is_symlink()));
    assert!(std::fs::read_to_string(&file).is_ok_and(|text| text.contains(KEY)));
}
