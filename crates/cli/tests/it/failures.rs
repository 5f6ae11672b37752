//! Every way to fail that a user can meet: the line, the hint, the exit code.

use inferstore_cli::exit;

#[cfg(feature = "controls")]
use crate::support::PICTURE;
use crate::support::{CLOSED, Cli, Local, filters};

#[test]
fn what_is_wrong_with_the_command_line_is_told() {
    let _filters = filters();
    let cli = Cli::new();
    insta::assert_snapshot!(
        "usage",
        cli.transcript(&[
            "runn",
            "models list --sort upside_down",
            "run haze-removal -i input_image",
            "run haze-removal -i a=b --deadline soon",
            "serve --max-requests-per-second 0",
            "run haze-removal --detach --dry-run",
            "balance",
            "balance --base-url https://host.example",
            "balance --base-url http://host.example/api/v1 --api-key x",
            "balance --profile unknown",
        ])
    );
}

#[test]
fn a_key_that_is_missing_or_wrong_is_told() {
    let _filters = filters();
    let mut local = Local::start();
    let wrong = local.cli.transcript(&["balance --api-key wrong", "balance --api-key wrong --verbose"]);
    local.cli.unset("INFERSTORE_API_KEY");
    let missing = local.cli.transcript(&["balance"]);
    insta::assert_snapshot!("key", format!("{wrong}\n{missing}"));
}

#[test]
fn inputs_that_do_not_fit_are_refused_before_anything_is_sent() {
    let _filters = filters();
    let local = Local::start();
    insta::assert_snapshot!(
        "input",
        local.cli.transcript(&[
            "run haze-removal",
            "run haze-removal -i input_imag=@hazy.png",
            "run haze-removal -i input_image=@nothing.png",
            "run color-harmonization -i input_image=@hazy.png -i template=v_shap -i angle=95",
            "run haze-removal -i input_image=@hazy.png --max-cost 0.001",
            "run face-mesh -i input=@hazy.png --require-serving",
            "run haze-removal --input-json nothing.json",
            "files upload samples nothing.png",
        ])
    );
    assert_eq!(local.cli.call("files stats --format quiet").stdout, "0\n");
}

#[test]
fn what_the_service_refuses_is_told_in_its_words() {
    let _filters = filters();
    let local = Local::with(|config| {
        config.first_account.balance = inferstore_service::Money::ZERO;
        config.first_account.free_balance = "0.001".parse().expect("it is an amount");
    });
    let url = local.cli.call("files upload samples hazy.png --format quiet").stdout;
    let run = format!("run haze-removal -i input_image={}", url.trim());
    insta::assert_snapshot!(
        "refused",
        local.cli.transcript(&[
            "models show nothing",
            "task show 00000000-0000-4000-8000-000000000000",
            "models show nothing --verbose",
            &run,
        ])
    );
}

#[test]
fn the_end_of_a_task_is_the_exit_code() {
    let _filters = filters();
    let local = Local::start();
    let cli = &local.cli;
    let failed = cli.transcript(&["run haze-removal -i input_image=http://127.0.0.1:1/a.png"]);
    insta::assert_snapshot!("task_failed", failed);

    let queued = cli.call("run face-mesh -i input=@hazy.png --detach --format quiet").stdout;
    cli.call(&format!("task cancel {}", queued.trim()));
    insta::assert_snapshot!("task_canceled", cli.transcript(&[&format!("task wait {}", queued.trim())]));

    let late = cli.call("run face-mesh -i input=@hazy.png --deadline 1s");
    assert_eq!(late.code, exit::DEADLINE, "{late}");
    let newest = cli.call("task list --limit 1 --format quiet").stdout;
    assert_eq!(late.stdout, newest, "the task is on standard output");
    let wait = cli.transcript(&[&format!("task wait {} --deadline 1s --cancel-at-deadline", newest.trim())]);
    insta::assert_snapshot!("deadline", wait);
}

#[test]
fn a_service_that_is_not_reached_is_an_error() {
    let _filters = filters();
    let mut cli = Cli::new();
    cli.set("INFERSTORE_BASE_URL", CLOSED);
    cli.set("INFERSTORE_API_KEY", "x");
    insta::assert_snapshot!("not_reached", cli.transcript(&["balance"]));
}

#[test]
fn no_failure_prints_the_key() {
    let local = Local::start();
    for command in [
        "balance --verbose",
        "models show nothing --verbose",
        "run haze-removal -i input_image=the-key-of-the-tests --verbose",
        "api GET /the-key-of-the-tests --verbose",
        "profile list",
        "files list the-key-of-the-tests --verbose",
    ] {
        let ended = local.cli.call(command);
        // What was typed may be repeated; what is a header may not.
        let typed = command.contains("the-key");
        assert!(typed || !ended.to_string().contains("the-key-of-the-tests"), "{ended}");
    }
    let wrong = local.cli.call("balance --api-key planted-key-of-no-account --verbose");
    assert!(!wrong.to_string().contains("planted"), "{wrong}");
}

#[cfg(feature = "controls")]
#[test]
fn object_storage_that_responds_is_not_one_that_was_not_reached() {
    let local = Local::with_controls();
    std::fs::write(local.cli.path("a.png"), PICTURE).expect("it can be written");
    local.fault(serde_json::json!({"operation": "postObject", "effect": "status", "status": 507}));
    let ended = local.cli.call("files upload samples a.png");
    assert_eq!(ended.code, exit::REFUSED, "{}", ended.stderr);
    assert!(ended.stderr.contains("hint: try again later"), "{}", ended.stderr);
}

#[test]
fn the_word_of_another_tool_leads_to_the_own_command() {
    insta::assert_snapshot!(Cli::new().transcript(&["logs", "get", "ps", "upload", "config", "list"]));
}

#[test]
fn a_word_that_is_no_command_leads_to_one_command() {
    for (typed, meant) in [
        ("cancel", "task cancel"),
        ("wait", "task wait"),
        ("cost", "models cost"),
        ("show", "task show @last"),
        ("stats", "files stats"),
        ("use", "profile use"),
        ("key list", "keys"),
        ("modles", "models"),
        ("tsak list", "task"),
        ("runn", "run"),
    ] {
        let ended = Cli::new().call(typed);
        assert!(ended.stderr.contains(&format!("did you mean `inferstore {meant}`?")), "{ended}");
        assert!(ended.code == exit::USAGE && !ended.stderr.contains("tip:"), "{ended}");
    }
    let inner = Cli::new().call("files lst");
    assert!(inner.stderr.contains("'list'") && !inner.stderr.contains("hint:"), "{inner}");
}

#[test]
fn the_password_in_a_database_url_that_is_refused_is_not_shown() {
    let cli = Cli::new();
    for words in ["serve --ephemeral", "admin import dump", "admin export dump"] {
        for url in ["postgresql//u:HUNTER2@db/x", "mysql://u:HUNTER2@db/x", "postgres:/u:HUNTER2@db/x"] {
            let ended = cli.call(&format!("{words} --database {url}"));
            assert!(ended.code == exit::USAGE && ended.stderr.contains("--database"), "{ended}");
            assert!(!ended.to_string().contains("HUNTER2"), "{ended}");
        }
    }
}
