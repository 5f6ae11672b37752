//! Logging in, and which settings win.

use inferstore_cli::exit;

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
    assert_eq!(mode(), 0o600, "writing mends it");
}

#[test]
fn a_wrong_key_is_not_stored() {
    let (mut local, base_url) = logged_out();
    local.cli.stdin("wrong");
    assert_eq!(local.cli.call(&format!("login --base-url {base_url}")).code, exit::KEY);
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
        ])
    );
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
