//! The mistakes of a first hour: each message says what failed, why, and what to type.

use crate::support::{CLOSED, Cli, Local, filters};

#[test]
fn the_mistakes_of_a_first_hour() {
    let _filters = filters();
    let mut local =
        Local::with(|config| config.first_account.free_balance = "0.02".parse().expect("an amount"));
    std::fs::write(local.cli.path("notes.txt"), "a text").expect("it can be written");
    std::fs::write(local.cli.path("fake.png"), "no picture").expect("it can be written");
    std::fs::create_dir(local.cli.path("folder")).expect("it can be made");
    let base_url = local.service().base_url().to_owned();
    let storage = format!("balance --base-url {}", local.service().storage_url());
    let no_root = format!("balance --base-url {}", base_url.trim_end_matches("/api/v1"));
    let mut transcripts = vec![Cli::new().transcript(&["models list", "login"])];
    let mistakes = [
        "balance --api-key wrong",
        &no_root,
        &storage,
        "run haze-remval hazy.png",
        "models show haze_remval",
        "run haze-removal input_imag=@hazy.png",
        "run color-harmonization hazy.png template=v_shap angle=95",
        "run haze-removal -i input_image=hazy.png",
        "run haze-removal hazy.png hazy.png",
        "run haze-removal missing.png",
        "run haze-removal hzay.png",
        "run haze-removal foldr/hazy.png",
        "files upload samples notse.txt",
        "run haze-removal folder",
        "run haze-removal input_image=@~unknown/hazy.png",
        "run haze-removal notes.txt",
        "run haze-removal fake.png",
        "run haze-removal input_image=@hazy.png input_image=@fake.png",
        "run face-mesh hazy.png --deadline 5s",
        "task wait nonsense",
        "task wait nonsense --deadline 3s",
        "task list --status done",
        "task list --model haze-remval",
        "files list sampels",
        "rnu haze-removal",
    ];
    transcripts.push(local.cli.transcript(&mistakes));
    local.cli.set("INFERSTORE_BASE_URL", CLOSED);
    transcripts.push(local.cli.transcript(&["balance"]));
    insta::assert_snapshot!("mistakes", transcripts.join("\n"));
}

#[test]
fn a_balance_that_is_used_up() {
    let _filters = filters();
    let local = Local::with(|config| {
        config.first_account.balance = inferstore_service::Money::ZERO;
        config.first_account.free_balance = "0.001".parse().expect("it is an amount");
    });
    let url = local.cli.call("files upload samples hazy.png -q").stdout;
    let run = format!("run haze-removal {}", url.trim());
    insta::assert_snapshot!("mistake_balance", local.cli.transcript(&[&run]));
}

#[test]
fn a_task_that_failed_for_the_balance_leads_to_the_balance() {
    let local = Local::with(|config| {
        config.first_account.balance = inferstore_service::Money::ZERO;
        config.first_account.free_balance = "0.001".parse().expect("it is an amount");
        config.insufficient_balance = inferstore_service::InsufficientBalance::FailTask;
    });
    let ended = local.cli.call("run haze-removal hazy.png");
    assert_eq!(ended.code, inferstore_cli::exit::TASK_FAILED, "{ended}");
    assert!(ended.stderr.contains("hint: fix the inputs or the balance"), "{ended}");
}
