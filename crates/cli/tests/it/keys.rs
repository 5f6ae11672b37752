//! The keys of the account: a secret on standard output once and alone, and a hint where keys cannot be managed.

use inferstore_cli::exit;

use crate::support::{Cli, Local};

fn local() -> Local {
    Local::with(|config| config.owners_manage_keys = Some(true))
}

/// Creates a key; returns what standard output has.
fn created(cli: &Cli, options: &[&str]) -> String {
    let ended = cli.call_with(&[&["keys", "create"], options].concat());
    assert_eq!(ended.code, exit::DONE, "{ended}");
    let (_, secret) = ended.stdout.trim_end().rsplit_once('_').expect("a key");
    assert!(ended.stderr.contains("the one time") && !ended.stderr.contains(secret), "{ended}");
    ended.stdout
}

#[test]
fn a_key_is_created_used_listed_and_revoked() {
    let mut local = local();
    let cli = &local.cli;
    let rules = ["--daily-limit", "2.50", "--model", "haze-removal", "--expires", "2099-12-31"];
    let key = created(cli, &[&["--name", "nightly job"], &rules[..]].concat());
    assert!(key.ends_with('\n') && key.lines().count() == 1 && key.starts_with("isk_"), "the key alone");
    let key = key.trim_end();
    let id = key.split('_').nth(1).expect("an identifier");

    let listed = cli.call("keys list");
    let line = listed.stdout.lines().find(|line| line.starts_with(id)).expect("the key is listed");
    for shown in ["nightly job", "2099-12-31T23:59:59", "2.5", "haze-removal"] {
        assert!(line.contains(shown), "{line}");
    }
    assert!(!listed.stdout.contains(key) && listed.stdout.contains("(this key)"), "{listed}");
    assert_eq!(cli.call("keys list --format quiet").stdout.lines().next(), Some(id), "the newest first");
    assert_eq!(cli.call("keys list --json --jq .can_manage").stdout, "true\n");
    assert_eq!(cli.call("keys list --json=id,name --format jsonl").stdout.lines().count(), 2);

    let name = cli.call_with(&["keys", "create", "--name", "nightly job"]);
    assert_eq!((name.code, name.stdout.as_str()), (exit::REFUSED, ""), "{name}");
    local.cli.set("INFERSTORE_API_KEY", key);
    assert_eq!(local.cli.call("balance").code, exit::DONE);
    local.cli.set("INFERSTORE_API_KEY", "the-key-of-the-tests");
    let revoked = local.cli.call(&format!("keys revoke isk_{id}_"));
    assert_eq!((revoked.code, revoked.stdout.as_str()), (exit::DONE, ""), "{revoked}");
    assert_eq!(local.cli.call(&format!("keys revoke {id}")).code, exit::REFUSED, "it is revoked already");
    local.cli.set("INFERSTORE_API_KEY", key);
    assert_eq!(local.cli.call("balance").code, exit::KEY);
}

#[test]
fn a_created_key_is_printed_in_each_format_and_whatever_a_filter_does() {
    let local = local();
    let one = created(&local.cli, &["--name", "one", "--format", "quiet"]);
    assert_eq!(one.lines().count(), 1);
    let two = created(&local.cli, &["--name", "two", "--json"]);
    let two: serde_json::Value = serde_json::from_str(&two).expect("the payload");
    assert!(two["key"].as_str().is_some_and(|key| key.contains(two["id"].as_str().expect("an identifier"))));
    let three = local.cli.call("keys create --name three --json --jq .key|tonumber");
    assert!(three.code == exit::FAILED && three.stdout.contains("isk_"), "{three}");
}

#[test]
fn a_refusal_says_which_setting_or_key_permits_it() {
    let forbidding = Local::start();
    for command in ["keys create --name a", "keys revoke abcdefgh"] {
        let refused = forbidding.cli.call(command);
        assert_eq!((refused.code, refused.stdout.as_str()), (exit::REFUSED, ""), "{refused}");
        assert!(refused.stderr.contains("inferstore serve --owners-manage-keys yes"), "{refused}");
    }
    assert_eq!(forbidding.cli.call("keys list --format quiet").stdout.lines().count(), 1);

    let mut local = local();
    let key = created(&local.cli, &["--name", "ruled", "--daily-limit", "1"]);
    local.cli.set("INFERSTORE_API_KEY", key.trim_end());
    let refused = local.cli.call("keys create --name a");
    assert!(refused.stderr.contains("one without rules") && !refused.stderr.contains("serve"), "{refused}");
    for wrong in ["keys create", "keys create --name a --daily-limit x", "keys revoke isk_"] {
        assert_eq!(local.cli.call(wrong).code, exit::USAGE, "{wrong}");
    }
}
