//! Administration of a running and of a stopped service.

use inferstore_cli::exit;
use inferstore_service::{Config, Service};

use crate::support::{Cli, filters};

/// A command beside a data folder of a service that is stopped.
pub(crate) fn with_folder() -> Cli {
    let cli = Cli::new();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    runtime.block_on(async {
        let config = Config::folder(cli.folder.path().join("data"));
        Service::start(config).await.expect("the service starts").shutdown().await;
    });
    cli
}

#[test]
fn accounts_keys_credits_and_prices_are_looked_after() {
    let _filters = filters();
    let cli = with_folder();
    let model = include_str!("../../../../tests/fixtures/models/film-grain.json");
    let mut model: serde_json::Value = serde_json::from_str(model).expect("it is JSON");
    let fields = model.as_object_mut().expect("it is an object");
    fields.insert("id".to_owned(), "film-grain-too".into());
    std::fs::write(cli.path("model.json"), model.to_string()).expect("it can be written");
    insta::assert_snapshot!(
        "admin",
        cli.transcript(&[
            "admin account add lena --data-dir data",
            "admin account add lena --data-dir data",
            "admin account add Lena --data-dir data",
            "admin account add studio --organization --data-dir data --format json",
            "admin member add studio lena --data-dir data",
            "admin member list studio --data-dir data",
            "admin member remove studio lena --data-dir data",
            "admin member remove studio lena --data-dir data",
            "admin credit lena 2.5 --data-dir data",
            "admin credit unknown 2.5 --data-dir data",
            "admin credit lena 1e9 --data-dir data",
            "admin credit lena 9999999999 --data-dir data",
            "admin credit lena 4 --reference invoice-17 --data-dir data",
            "admin credit lena 4 --reference invoice-17 --data-dir data",
            "admin credit lena 5 --reference invoice-17 --data-dir data",
            "admin debit lena 1.5 --note mistyped --data-dir data",
            "admin debit lena 99 --note mistyped --data-dir data",
            "admin debit lena 1 --data-dir data",
            "admin account movements lena --data-dir data --json=reason,amount,from,to,reference,note",
            "admin account list --data-dir data",
            "admin account list --data-dir data --format json",
            "admin account list --data-dir data --format quiet",
            "admin account show lena --data-dir data",
            "admin account show unknown --data-dir data",
            "admin model price haze-removal 0.02 --data-dir data --format quiet",
            "admin model price nothing 0.02 --data-dir data",
            "admin model publish lena model.json --data-dir data",
            "admin model publish lena hazy.json --data-dir data",
            "admin model version lena model.json --data-dir data",
            "admin model version studio model.json --data-dir data",
            "admin model visibility film-grain-too private --data-dir data",
            "admin model verified film-grain-too yes --data-dir data",
            "admin model describe film-grain-too --name Grain --data-dir data",
            "admin model describe film-grain-too --description Noise --metadata {\"license\":\"MIT\"} --data-dir data \
             --format json",
            "admin model describe film-grain-too --metadata {license} --data-dir data",
            "admin model describe film-grain-too --data-dir data",
            "admin model playground film-grain-too no --data-dir data",
            "admin model pause film-grain-too --data-dir data",
            "admin model resume film-grain-too --data-dir data",
            "admin model retire film-grain-too --data-dir data",
            "admin model retire nothing --data-dir data",
            "admin model list --limit 2 --data-dir data",
            "admin key list unknown --data-dir data",
            "admin key revoke 0123456789ab --data-dir data",
            "admin node revoke gpu-1 --data-dir data",
            "admin node list --data-dir data",
            "admin task list --data-dir data",
            "admin task list --status done --data-dir data",
            "admin task show nothing --data-dir data",
            "admin task refund nothing --data-dir data",
            "admin task cancel nothing --data-dir data",
            "admin task fail nothing --message stopped --data-dir data",
            "admin task requeue nothing --data-dir data",
            "admin file delete http://127.0.0.1/nothing --data-dir data",
            "admin account suspend lena --data-dir data",
            "admin account list --data-dir data --json=account,state",
            "admin account resume lena --data-dir data",
            "admin account close lena --data-dir data",
            "admin account resume lena --data-dir data",
            "admin log --limit 3 --data-dir data --json=request,body,status",
            "admin backup copy --data-dir data",
            "admin backup copy --data-dir data",
            "admin audit --data-dir copy",
            "admin audit --data-dir data",
            "admin audit --data-dir nothing",
        ])
    );
}

#[test]
fn a_key_that_was_drawn_works_until_it_is_revoked() {
    let mut cli = with_folder();
    let key = cli.call("admin key add demo --data-dir data --format quiet").stdout;
    cli.stdin(&key);
    assert_eq!(cli.call("admin key revoke --data-dir data").code, exit::DONE);
    assert_eq!(cli.call("admin key revoke --data-dir data").code, exit::INPUT, "it is revoked already");
}

#[test]
fn a_key_that_was_drawn_is_shown_whatever_is_wrong_with_the_fields() {
    let cli = with_folder();
    let drawn = cli.call("admin key add demo --data-dir data --json=nothing");
    assert!(drawn.code == exit::FAILED && drawn.stdout.contains("isk_"), "{drawn}");
}

#[test]
fn a_list_is_not_cut_off_in_silence() {
    let cli = with_folder();
    for list in ["model", "task"] {
        for (limit, code) in [("1000", exit::DONE), ("1001", exit::USAGE)] {
            let ended = cli.call(&format!("admin {list} list --limit {limit} --data-dir data"));
            assert_eq!(ended.code, code, "{ended}");
        }
    }
}

#[test]
fn the_key_of_a_node_is_shown_once_and_can_be_revoked() {
    let cli = with_folder();
    let drawn = cli.call("admin node add studio --data-dir data --format json");
    assert!(drawn.stdout.contains("node_key") && drawn.stderr.contains("the one time"), "{drawn}");
    assert_eq!(cli.call("admin node add studio --data-dir data").code, exit::INPUT, "the name is taken");
    assert_eq!(cli.call("admin node revoke studio --data-dir data").code, exit::DONE);
    assert_eq!(
        cli.call("admin node revoke studio --data-dir data").code,
        exit::INPUT,
        "it is revoked already"
    );
}

#[cfg(unix)]
#[test]
fn a_key_for_a_model_that_does_not_exist_is_created_with_a_warning() {
    let cli = with_folder();
    let ended = cli.call("admin node add lab --model haze-removal --model nope --data-dir data");
    assert!(ended.code == exit::DONE && ended.stderr.contains("there is no model nope yet"), "{ended}");
    let ended = cli.call("admin key add demo --model nope --data-dir data");
    assert!(ended.code == exit::DONE && ended.stderr.contains("there is no model nope yet"), "{ended}");
    assert!(!ended.stderr.contains("no model haze-removal"), "{ended}");
}

#[test]
fn an_account_is_shown_in_words_with_its_money_first() {
    let cli = with_folder();
    let shown = cli.call("admin account show demo --data-dir data").stdout;
    let fields: Vec<_> = shown.lines().filter_map(|line| line.split("  ").next()).collect();
    let first = ["account", "scope", "state", "balance", "free credits", "reserved", "debt", "earnings"];
    assert_eq!(fields.get(..8), Some(&first[..]), "{shown}");
    assert!(fields.contains(&"stored bytes") && !shown.contains('_'), "{shown}");
}

#[test]
fn a_folder_without_data_has_one_code() {
    let cli = with_folder();
    std::fs::create_dir(cli.path("empty")).expect("a folder can be made");
    let codes =
        ["missing", "empty"].map(|folder| cli.call(&format!("admin account list --data-dir {folder}")).code);
    assert_eq!(codes, [exit::FAILED; 2]);
}

#[test]
fn a_running_service_takes_the_same_commands() {
    let cli = with_folder();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let service = runtime
        .block_on(Service::start(Config::folder(cli.folder.path().join("data"))))
        .expect("the service starts");
    assert_eq!(cli.call("admin account add lena --data-dir data").code, exit::DONE);
    let key = cli.call("admin key add lena --data-dir data --format quiet").stdout;
    let id = key.split('_').nth(1).expect("a key has an identifier");
    let listed = cli.call("admin key list lena --data-dir data --format quiet").stdout;
    assert_eq!(listed.trim(), id);
    let accounts = runtime.block_on(service.accounts()).expect("they can be read");
    assert!(accounts.iter().any(|account| account.username == "lena"), "the service knows of it at once");
    assert_eq!(cli.call(&format!("admin key revoke {id} --data-dir data")).code, exit::DONE);
    assert_eq!(cli.call("admin backup copy --data-dir data").code, exit::DONE);
    runtime.block_on(service.shutdown());
    assert!(cli.call("admin account list --data-dir copy --format quiet").stdout.contains("lena"));
}

#[cfg(unix)]
#[test]
fn a_service_without_a_socket_is_left_alone() {
    let cli = with_folder();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let service = runtime
        .block_on(Service::start(Config::folder(cli.folder.path().join("data"))))
        .expect("the service starts");
    std::fs::remove_file(cli.folder.path().join("data/admin.sock")).expect("there is a socket");
    let ended = cli.call("admin key add demo --data-dir data");
    assert_eq!(ended.code, exit::FAILED);
    assert!(ended.stderr.contains("no admin socket"), "{ended}");
    runtime.block_on(service.shutdown());
}

#[test]
fn a_name_that_does_not_exist_has_a_code_of_its_own() {
    let _filters = filters();
    let cli = with_folder();
    insta::assert_snapshot!(cli.transcript(&[
        "admin credit nobody 5 --data-dir data",
        "admin member add nobody demo --data-dir data",
        "admin model price nope 1 --data-dir data",
        "admin key revoke abc --data-dir data",
        "admin key add nobody --data-dir data",
    ]));
}

#[test]
fn a_backup_is_not_written_into_the_data_that_it_copies() {
    let cli = with_folder();
    insta::assert_snapshot!(cli.transcript(&[
        "admin backup data/copy --data-dir data",
        "admin backup data --data-dir data",
        "admin backup ./data/deep/er --data-dir data",
    ]));
    assert!(!cli.folder.path().join("data/copy").exists());
}

#[test]
fn everything_moves_to_another_folder_and_keys_stay_valid() {
    let mut cli = with_folder();
    let key = cli.call("admin key add demo --data-dir data --format quiet").stdout;
    let exported = cli.call("admin export move --data-dir data");
    assert!(
        exported.code == exit::DONE && exported.stderr.contains("exported 2 accounts, 0 tasks"),
        "{exported}"
    );
    assert_eq!(cli.call("admin export move --data-dir data").code, exit::FAILED, "it is there already");
    let refused = cli.call("admin import move --data-dir data");
    assert!(refused.code == exit::FAILED && refused.stderr.contains("not empty"), "{refused}");
    for _ in 0..2 {
        let imported = cli.call("admin import move --data-dir new --json=accounts,missing");
        assert_eq!(
            (imported.code, imported.stdout.contains("\"accounts\":2")),
            (exit::DONE, true),
            "{imported}"
        );
    }
    cli.stdin(&key);
    assert_eq!(cli.call("admin key revoke --data-dir new").code, exit::DONE);
}

#[test]
fn a_quota_is_a_number_of_bytes_or_none() {
    let cli = with_folder();
    for (quota, shown) in [("20GiB", "21474836480"), ("3MB", "3000000"), ("7", "7"), ("none", "null")] {
        assert_eq!(cli.call(&format!("admin account quota demo {quota} --data-dir data")).code, exit::DONE);
        let account = cli.call("admin account show demo --data-dir data --json=quota").stdout;
        assert!(account.contains(&format!("\"quota\":{shown}")), "{quota}: {account}");
    }
    for wrong in ["much", "-1", "1.5GiB", "99999999999TiB", ""] {
        let ended = cli.call(&format!("admin account quota demo {wrong} --data-dir data"));
        assert_eq!(ended.code, exit::USAGE, "{wrong}: {ended}");
    }
}

#[test]
fn a_damaged_database_is_named_with_the_way_out() {
    let cli = with_folder();
    let file = cli.path("data/inferstore.db");
    std::fs::write(&file, "no database ".repeat(1_000)).expect("it can be written");
    let ended = cli.call("admin account list --data-dir data");
    assert!(ended.code == exit::FAILED && ended.stderr.contains(&file), "{ended}");
    assert!(ended.stderr.contains("backup"), "{ended}");
}

#[cfg(unix)]
#[test]
fn data_of_another_user_are_named_as_such() {
    use std::os::unix::fs::PermissionsExt;
    let cli = with_folder();
    let folder = cli.folder.path().join("data");
    let close = |mode| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode));
    close(0o000).expect("it is ours");
    // Root reads everything.
    if std::fs::read_dir(&folder).is_err() {
        let ended = cli.call("admin account list --data-dir data");
        assert!(ended.stderr.contains("permission denied") && ended.stderr.contains("sudo -u"), "{ended}");
    }
    close(0o700).expect("it is ours");
}
