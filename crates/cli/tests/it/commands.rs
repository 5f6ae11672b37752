//! Every command against the running service: what it prints, where, and how it ends.

use inferstore_cli::exit;

use crate::support::{Local, PICTURE, filters, names_in};

#[test]
fn the_balance_is_told_in_every_format() {
    let _filters = filters();
    let local = Local::start();
    insta::assert_snapshot!(
        "balance",
        local.cli.transcript(&[
            "balance",
            "balance --format json",
            "balance --format jsonl",
            "balance --format quiet",
        ])
    );
}

#[test]
fn the_catalog_is_listed_searched_and_told_model_by_model() {
    let _filters = filters();
    let local = Local::start();
    insta::assert_snapshot!(
        "models",
        local.cli.transcript(&[
            "models list --search haze",
            "models list --search haze --format json",
            "models list --sort created_oldest --limit 3 --offset 1 --format quiet",
            "models list --search nothing-has-this-in-its-name",
            "models show haze-removal",
            "models schema color-harmonization",
            "models schema color-harmonization --format quiet",
            "models cost haze-removal",
            "models cost haze-removal --format json",
            "models serving haze-removal",
            "models serving haze-removal --format quiet",
        ])
    );
}

#[test]
fn all_pages_together_hold_every_record_once() {
    let local = Local::start();
    let all = local.cli.call("models list --limit 4 --all --format quiet").stdout;
    let once = local.cli.call("models list --limit 100 --format quiet").stdout;
    assert_eq!(all, once);
    assert!(all.lines().count() > 10, "{all}");
    let lines = local.cli.call("models list --limit 4 --all --format jsonl").stdout;
    assert_eq!(lines.lines().count(), all.lines().count());
}

#[test]
fn json_is_what_the_service_wrote() {
    let local = Local::start();
    for (command, path) in [
        ("balance", "/api-key/balance"),
        ("models show haze-removal", "/api-key/model/haze-removal"),
        ("models schema haze-removal", "/api-key/model/haze-removal/versioning"),
        ("models cost haze-removal", "/api-key/model/haze-removal/task/cost"),
        ("files stats", "/api/v1/api-key/storage/upload/statistics"),
        ("files list samples", "/api-key/storage/upload/samples"),
    ] {
        let shown = local.cli.call(&format!("{command} --format json")).stdout;
        let answer = local.cli.call(&format!("api GET {path}")).stdout;
        assert!(answer.contains(&format!("\"data\":{}}}", shown.trim())), "{shown} is not within {answer}");
    }
}

#[test]
fn files_go_up_are_listed_come_down_and_go_away() {
    let _filters = filters();
    let local = Local::start();
    let cli = &local.cli;
    insta::assert_snapshot!(
        "files",
        cli.transcript(&[
            "files upload samples hazy.png",
            "files upload covers hazy.png --name front.png --format quiet",
            "files upload documents hazy.png --mime application/octet-stream --format json",
            "files list samples",
            "files list covers --type image --format json",
            "files list covers --type audio",
            "files stats",
        ])
    );
    let url = cli.call("files list covers --format quiet").stdout;
    let url = url.trim();
    assert_eq!(cli.call(&format!("files download {url} back.png --format quiet")).stdout, "back.png\n");
    assert_eq!(std::fs::read(cli.path("back.png")).expect("it is there"), PICTURE);
    assert_eq!(cli.call(&format!("files download {url} back.png")).code, exit::INPUT, "it is there already");
    assert_eq!(cli.call(&format!("files download {url} back.png --overwrite")).code, exit::DONE);
    let unasked = cli.call(&format!("files delete {url}"));
    assert!(unasked.code == exit::USAGE && unasked.stderr.contains("nothing was deleted"), "{unasked}");
    assert_eq!(cli.call("files stats --format quiet").stdout, "3\n");
    assert_eq!(cli.call(&format!("files delete {url} --yes")).code, exit::DONE);
    assert_eq!(cli.call(&format!("files delete {url} --yes")).code, exit::REFUSED);
    assert_eq!(cli.call("files stats --format quiet").stdout, "2\n");
}

#[test]
fn a_run_uploads_waits_and_downloads() {
    let _filters = filters();
    let local = Local::start();
    let ended = local.cli.transcript(&[
        "run haze-removal -i input_image=@hazy.png --out out --deadline 2m --max-cost 0.01 --require-serving",
    ]);
    insta::assert_snapshot!("run", ended);
    let names = names_in(&local.cli.folder.path().join("out"));
    assert_eq!(names, ["hazy-haze-removal.png"]);
}

#[test]
fn the_json_of_a_run_is_the_task() {
    let local = Local::start();
    let run = local.cli.call("run haze-removal -i input_image=@hazy.png --format json").stdout;
    let id = local.cli.call("task list --format quiet").stdout;
    let task = local.cli.call(&format!("task show {} --format json", id.trim())).stdout;
    assert_eq!(run, task);
    let waited = local.cli.call(&format!("task wait {} --format json", id.trim())).stdout;
    assert_eq!(waited, task);
}

#[test]
fn inputs_come_from_a_file_and_from_standard_input() {
    let mut local = Local::start();
    let url = local.cli.call("files upload samples hazy.png --format quiet").stdout;
    let inputs = format!(r#"{{"input_image": "{}", "template": "v_shape", "angle": 30}}"#, url.trim());
    local.cli.stdin(&inputs);
    let dry = "run color-harmonization --input-json - -i template=x_cross --dry-run --format json";
    let ended = local.cli.call(dry);
    assert!(ended.stdout.contains(r#""angle":"30""#) && ended.stdout.contains("x_cross"), "{ended}");
    std::fs::write(local.cli.path("inputs.json"), inputs).expect("it can be written");
    let ended = local.cli.call("run color-harmonization --input-json inputs.json --format quiet");
    assert_eq!((ended.code, ended.stdout.lines().count()), (exit::DONE, 2), "{ended}");
}

#[test]
fn inputs_are_sent_unchecked_when_that_is_asked_for() {
    let local = Local::start();
    let run = "run haze-removal -i input_image=http://h.example/a.png -i note=7 --dry-run --format json";
    assert_eq!(local.cli.call(run).code, exit::INPUT);
    let unchecked = "run haze-removal -i note=7 --no-check --dry-run --format json";
    let ended = local.cli.call(unchecked);
    assert!(ended.code == exit::DONE && ended.stdout.contains(r#""input":{"note":"7"}"#), "{ended}");
}

#[test]
fn a_task_is_read_as_often_as_asked_for() {
    let local = Local::start();
    let run = "run haze-removal -i input_image=@hazy.png --format quiet";
    for interval in ["1", "fast"] {
        let ended = local.cli.call(&format!("{run} --poll {interval}"));
        assert_eq!(ended.code, exit::DONE, "{ended}");
    }
    let newest = local.cli.call("task list --limit 1 --format quiet").stdout;
    assert_eq!(local.cli.call(&format!("task wait {} --poll long", newest.trim())).code, exit::DONE);
    assert_eq!(local.cli.call(&format!("{run} --poll often")).code, exit::USAGE);
}

#[test]
fn tasks_are_detached_listed_waited_for_and_canceled() {
    let _filters = filters();
    let local = Local::start();
    let cli = &local.cli;
    let done = cli.call("run haze-removal -i input_image=@hazy.png --detach --format quiet").stdout;
    cli.call(&format!("task wait {}", done.trim()));
    // No node runs this one, so it stays in the queue.
    let queued = cli.call("run face-mesh -i input=@hazy.png --detach --format quiet").stdout;
    let cancel = format!("task cancel {}", queued.trim());
    let shown = format!("task show {}", done.trim());
    insta::assert_snapshot!(
        "task",
        cli.transcript(&[
            "run face-mesh -i input=@hazy.png --detach",
            "run face-mesh -i input=@hazy.png --detach --format json",
            &cancel,
            &cancel,
            "task list",
            "task list --limit 1 --format json",
            "task list --status success",
            "task list --model haze-removal --all --format jsonl",
            &shown,
        ])
    );
}

#[test]
fn a_dry_run_creates_nothing() {
    let _filters = filters();
    let local = Local::start();
    let dry = "run color-harmonization -i input_image=@hazy.png -i template=v_shape -i angle=30 --dry-run";
    insta::assert_snapshot!("dry_run", local.cli.transcript(&[dry, &format!("{dry} --format json")]));
    assert_eq!(local.cli.call("task list --format quiet").stdout, "");
    assert_eq!(local.cli.call("files stats --format quiet").stdout, "0\n");
}

#[test]
fn any_request_can_be_sent() {
    let _filters = filters();
    let mut local = Local::start();
    local.cli.stdin(r#"{"limit": 1, "sort": "likes"}"#);
    insta::assert_snapshot!(
        "api",
        local.cli.transcript(&[
            "api GET /api-key/model/haze-removal/task/cost",
            "api POST /api-key/model/list --body @-",
            "api get /api-key/nothing",
            "api POST /api-key/model/list --body {",
            "api GET api-key/balance",
            "api /api-key/model/haze-removal/task/cost -f limit=1",
            "api /../../admin",
            "api STEAL /api-key/balance",
        ])
    );
}

#[test]
fn a_terminal_gets_what_fits_into_it() {
    let mut local = Local::start();
    local.cli.on_a_terminal(60);
    let wide = local.cli.call("models list").stdout;
    assert!(wide.contains("\u{1b}[1mID"), "headings are emphasized: {wide}");
    local.cli.set("NO_COLOR", "1");
    let plain = local.cli.call("models list").stdout;
    assert!(!plain.contains('\u{1b}'), "{plain}");
    assert!(plain.lines().all(|line| line.chars().count() <= 60), "{plain}");
}

#[test]
fn the_demo_has_every_format() {
    let cli = crate::support::Cli::new();
    let ended = cli.call("demo --format jsonl");
    let places = ended.stdout.lines().map(serde_json::from_str::<serde_json::Value>);
    let places: Vec<_> = places.map(|record| record.expect("a line of JSON")["place"].take()).collect();
    assert!(ended.code == exit::DONE && places.len() == 5, "{ended}");
    let quiet = cli.call("demo -q");
    assert!(quiet.stdout.lines().count() == 5 && quiet.stderr.is_empty(), "{quiet}");
}

#[test]
fn the_demo_runs_from_beginning_to_end() {
    let cli = crate::support::Cli::new();
    let ended = cli.call("demo");
    assert_eq!(ended.code, exit::DONE, "{ended}");
    let names = names_in(&cli.folder.path().join("inferstore-demo"));
    assert_eq!(
        names,
        [
            "color-harmonization-output_hue.png",
            "color-harmonization-output_image.png",
            "dark.png",
            "haze-removal-output_image.png",
            "hazy.png",
            "landscape.bmp",
            "low-light-enhancement-output_image.png",
        ]
    );
    let large = std::fs::metadata(cli.path("inferstore-demo/landscape.bmp")).expect("it is there").len();
    assert!(large > 5 * 1024 * 1024, "the second tier of uploads: {large}");
    let (shown, afterwards) =
        ended.stdout.split_once("\n\nHow to go on:").expect("it ends with how to go on");
    assert!(afterwards.contains("inferstore serve"), "{afterwards}");
    let readme = include_str!("../../../../README.md");
    let block =
        readme.split("```text\n").nth(1).and_then(|rest| rest.split("\n```").next()).expect("a block");
    assert!(shown.contains(block), "the README shows another run than this one: {shown}");
}

#[test]
fn a_second_demo_has_the_same_pictures_and_replaces_no_file_of_a_person() {
    let cli = crate::support::Cli::new();
    let folder = cli.folder.path().join("inferstore-demo");
    assert_eq!(cli.call("demo -q").code, exit::DONE);
    let first = names_in(&folder);
    assert_eq!(cli.call("demo -q").code, exit::DONE);
    assert_eq!(names_in(&folder), first);

    let mine = folder.join("haze-removal-output_image.png");
    std::fs::write(&mine, "mine").expect("it can be written");
    let third = cli.call("demo -q");
    let place = third.stdout.lines().next().expect("the first output");
    assert_eq!(std::fs::read(&mine).expect("it is there"), b"mine");
    assert!(place != "inferstore-demo/haze-removal-output_image.png", "{third}");
    assert_eq!(names_in(&folder).len(), first.len() + 1);

    std::fs::write(folder.join("hazy.png"), "mine").expect("it can be written");
    let refused = cli.call("demo -q");
    assert_eq!(refused.code, exit::INPUT, "{refused}");
    assert!(
        refused.stderr.contains("hazy.png exists already") && refused.stderr.contains("--out"),
        "{refused}"
    );
    assert_eq!(std::fs::read(folder.join("hazy.png")).expect("it is there"), b"mine");
}

#[test]
fn a_person_is_shown_what_a_model_wants() {
    let _filters = filters();
    let mut local = Local::start();
    local.cli.typing();
    insta::assert_snapshot!("wants", local.cli.transcript(&["run color-harmonization", "run face-mesh"]));
}
