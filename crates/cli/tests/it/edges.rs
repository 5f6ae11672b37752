//! Sharp edges: files that must not be replaced, settings that must be obeyed, lists that must be whole.

use std::io::Read;

use inferstore_cli::exit;
use inferstore_wire::{Reaction, Server};

use crate::support::{CLOSED, Cli, Local, PICTURE, filters, names_in};

/// A service with one file, and its URL.
fn with_file() -> (Local, String) {
    let local = Local::start();
    let url = local.cli.call("files upload samples hazy.png -q").stdout.trim().to_owned();
    (local, url)
}

#[cfg(unix)]
#[test]
fn a_download_writes_into_pipes_and_devices_and_follows_symlinks() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    let (local, url) = with_file();
    let cli = &local.cli;

    let made = std::process::Command::new("mkfifo").arg(cli.path("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()));
    let pipe = cli.path("pipe");
    let reader = std::thread::spawn(move || {
        let mut content = Vec::new();
        std::fs::File::open(pipe).expect("it is there").read_to_end(&mut content).expect("it is read");
        content
    });
    assert_eq!(cli.call(&format!("files download {url} pipe --overwrite")).code, exit::DONE);
    assert_eq!(reader.join().expect("it ends"), PICTURE);
    let kind = std::fs::metadata(cli.path("pipe")).expect("it is there").file_type();
    assert!(kind.is_fifo(), "it is still a pipe");
    assert_eq!(cli.call(&format!("files download {url} /dev/null --overwrite")).code, exit::DONE);
    assert!(std::fs::metadata("/dev/null").expect("it is there").file_type().is_char_device());

    std::fs::write(cli.path("real.txt"), "old").expect("it can be written");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(cli.path("real.txt"), private).expect("it is ours");
    symlink("real.txt", cli.path("link.txt")).expect("it can be made");
    assert_eq!(cli.call(&format!("files download {url} link.txt")).code, exit::INPUT, "it exists");
    assert_eq!(cli.call(&format!("files download {url} link.txt --overwrite")).code, exit::DONE);
    assert!(std::fs::symlink_metadata(cli.path("link.txt")).expect("it is there").is_symlink());
    assert_eq!(std::fs::read(cli.path("real.txt")).expect("it is there"), PICTURE);
    let mode = std::fs::metadata(cli.path("real.txt")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it keeps its mode");
}

#[test]
fn a_place_that_cannot_be_written_is_found_before_anything_is_billed() {
    let local = Local::start();
    std::fs::write(local.cli.path("tiny.txt"), "mine").expect("it can be written");
    for out in ["tiny.txt", "tiny.txt/folder/", "{inputs}.png", "out/{ext}-{name}"] {
        let ended = local.cli.call(&format!("run haze-removal hazy.png -o {out}"));
        assert!([exit::INPUT, exit::USAGE].contains(&ended.code), "{out}: {ended}");
        assert!(ended.stderr.contains("hint: "), "{ended}");
    }
    let made = std::process::Command::new("mkfifo").arg(local.cli.path("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()));
    let run = "run color-harmonization hazy.png template=v_shape angle=30 -o";
    for out in ["-", "pipe"] {
        let several = local.cli.call(&format!("{run} {out}"));
        assert_eq!(several.code, exit::USAGE, "{several}");
        assert!(several.stderr.contains("takes one file"), "{several}");
    }
    assert_eq!(local.cli.call("task list -q").stdout, "", "no task was created");
    assert_eq!(local.cli.call("files stats -q").stdout, "0\n", "nothing was uploaded");
    assert_eq!(std::fs::read(local.cli.path("tiny.txt")).expect("it is there"), b"mine");
}

#[test]
fn outputs_go_to_a_file_a_folder_a_template_or_standard_output() {
    let mut local = Local::start();
    local.cli.set("HOME", &local.cli.path("home"));
    std::fs::create_dir(local.cli.path("home")).expect("it can be made");
    std::fs::copy(local.cli.path("hazy.png"), local.cli.path("home/h.png")).expect("it can be copied");
    let cli = &local.cli;
    for (run, path) in [
        ("run haze-removal hazy.png -o clear.png -q", "clear.png"),
        ("run haze-removal hazy.png -o folder -q", "folder/hazy-haze-removal.png"),
        // Its journal has it: nothing is paid again.
        ("run haze-removal hazy.png -o folder -q", "folder/hazy-haze-removal.png"),
        ("run haze-removal input_image=@hazy.png -o folder -q", "folder/hazy-haze-removal-2.png"),
        ("run haze-removal hazy.png -o folder -q --overwrite", "folder/hazy-haze-removal.png"),
        ("run haze-removal input_image=@~/h.png -o new/{name}/{input}.{ext} -q", "new/output_image/h.png"),
        ("run haze-removal ~/h.png -o ~/out.png -q", "home/out.png"),
        ("task show @last -o again.png -q", "again.png"),
        ("task wait @last -o waited/{name}.{ext} -q", "waited/output_image.png"),
    ] {
        let ended = cli.call(run);
        assert_eq!(ended.code, exit::DONE, "{run}: {ended}");
        assert!(ended.stdout.trim().ends_with(path), "{run}: {ended}");
        let content = std::fs::read(cli.path(path)).expect("it is there");
        assert!(content.starts_with(b"\x89PNG"), "{run}");
    }
    let several = cli.call("run color-harmonization hazy.png template=v_shape angle=30 -o h.png -q");
    assert_eq!(several.code, exit::DONE, "{several}");
    assert!(names_in(cli.folder.path()).contains(&"h-output_hue.png".to_owned()), "{several}");
    let device = cli.call("task show @last -o /dev/null");
    assert_eq!(device.code, exit::DONE, "{device}");
    let piped = cli.call("run haze-removal hazy.png -o -");
    assert!(piped.code == exit::DONE && piped.stdout.contains("PNG"), "{}", piped.stderr);
}

#[test]
fn a_file_comes_from_standard_input() {
    let mut local = Local::start();
    local.cli.stdin_bytes(PICTURE);
    for run in ["run haze-removal - -o a.png", "run haze-removal input_image=@- -o b.png"] {
        let ended = local.cli.call(run);
        assert_eq!(ended.code, exit::DONE, "{ended}");
    }
    assert!(names_in(local.cli.folder.path()).contains(&"b.png".to_owned()));
}

#[test]
fn a_line_break_in_a_name_begins_no_line() {
    let local = Local::start();
    let cli = &local.cli;
    let (there, missing) = ("a\nforged.png", "b\nforged.png");
    std::fs::copy(cli.path("hazy.png"), cli.path(there)).expect("it can be copied");
    std::fs::create_dir(cli.path("c\nforged")).expect("it can be made");
    let named = format!("input_image={there}");
    let at = format!("input_image=@{missing}");
    for words in [
        &["files", "upload", "samples", there, missing][..],
        &["files", "upload", "samples", "c\nforged"],
        &["files", "delete", missing],
        &["files", "download", "http://127.0.0.1:1/a\nforged", "out.png"],
        &["run", "haze-removal", there, "hazy.png", "-o", "out"],
        &["run", "haze-removal", there, missing, "-o", "out"],
        &["run", "haze-removal", missing, "-o", "d\nforged.png"],
        &["run", "haze-removal", "c\nforged"],
        &["run", "haze-removal", &named],
        &["run", "haze-removal", &at],
        &["run", "haze-removal", "nothing=1", "--input-json", missing],
        &["run", missing, "hazy.png"],
        &["task", "show", missing],
        &["profile", "use", missing],
    ] {
        let ended = cli.call_with(words);
        let text = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!text.lines().any(|line| line.trim_start().starts_with("forged")), "{words:?}: {text}");
    }
}

#[test]
fn inputs_that_cannot_be_read_from_standard_input_are_named() {
    let mut local = Local::start();
    local.cli.stdin("no JSON");
    let ended = local.cli.call("run haze-removal --input-json -");
    assert_eq!(ended.code, exit::INPUT, "{ended}");
    assert!(ended.stderr.contains("error: standard input is no JSON object"), "{ended}");
}

#[test]
fn every_upload_is_printed_every_failure_is_named_and_the_rest_goes_on() {
    let local = Local::start();
    let cli = &local.cli;
    for name in ["a.png", "b.png"] {
        std::fs::copy(cli.path("hazy.png"), cli.path(name)).expect("it can be copied");
    }
    let ended = cli.call("files upload samples a.png missing.png b.png gone.png -q");
    assert_eq!(ended.code, exit::INPUT, "{ended}");
    let urls: Vec<&str> = ended.stdout.lines().collect();
    assert!(urls.len() == 2 && urls[0].ends_with("/a.png") && urls[1].ends_with("/b.png"), "{ended}");
    assert!(ended.stderr.contains("missing.png") && ended.stderr.contains("gone.png"), "{ended}");
    let ended = cli.call("files delete samples/a.png samples/nothing.png");
    assert_eq!(ended.code, exit::INPUT, "{ended}");
    assert_eq!(cli.call("files delete samples/a.png samples/b.png --yes").code, exit::DONE);
    assert_eq!(cli.call("files stats -q").stdout, "0\n");

    std::fs::create_dir_all(cli.path("tree/inner")).expect("it can be made");
    for name in ["tree/a.png", "tree/inner/b.png"] {
        std::fs::copy(cli.path("hazy.png"), cli.path(name)).expect("it can be copied");
    }
    assert_eq!(cli.call("files upload samples tree").code, exit::INPUT, "it is a folder");
    let ended = cli.call("files upload samples tree -r -q");
    assert!(ended.stdout.contains("/a.png") && ended.stdout.contains("/inner-b.png"), "{ended}");
    let listed = cli.call("files list samples --limit 1 --offset 1 -q").stdout;
    assert_eq!(listed.lines().count(), 1, "{listed}");
}

#[test]
fn a_profile_that_is_named_comes_before_the_environment() {
    let mut local = Local::start();
    let other = Local::with(|config| config.first_account.balance = "7".parse().expect("an amount"));
    local.cli.stdin("the-key-of-the-tests");
    let login = format!("login {} --profile other", other.service().base_url());
    assert_eq!(local.cli.call(&login).code, exit::DONE);
    assert_eq!(local.cli.call("balance -q").stdout, "100\n", "the environment");
    assert_eq!(local.cli.call("balance -q --profile other").stdout, "7\n", "the flag");
    let ended = local.cli.call("balance --profile othr");
    assert_eq!(ended.code, exit::USAGE);
    assert!(ended.stderr.contains("did you mean `other`?"), "{ended}");
    local.cli.set("INFERSTORE_PROFILE", "unknown");
    assert_eq!(local.cli.call("balance").code, exit::USAGE, "an unknown profile of the environment");
}

#[test]
fn a_login_asks_for_the_address_and_a_logout_forgets_the_key() {
    let mut local = Local::start();
    let base_url = local.service().base_url().to_owned();
    local.cli.unset("INFERSTORE_BASE_URL");
    local.cli.unset("INFERSTORE_API_KEY");
    local.cli.typing();
    local.cli.stdin(&format!("{}\n", base_url.trim_end_matches("/api/v1")));
    let ended = local.cli.call("login --api-key the-key-of-the-tests");
    assert!(ended.code == exit::DONE && ended.stderr.contains("Address of the service ["), "{ended}");
    let status = local.cli.call("status");
    assert!(status.stdout.contains("from the profile default"), "{status}");
    assert!(!status.to_string().contains("the-key-of-the-tests"), "{status}");
    assert_eq!(local.cli.call("logout").code, exit::DONE);
    assert_eq!(local.cli.call("status").code, exit::USAGE);
    assert!(
        !std::fs::read_to_string(local.cli.path("profiles.json")).expect("it is there").contains("the-key")
    );
    let storage = local.service().storage_url().to_owned();
    let ended = local.cli.call(&format!("login {storage} --api-key x"));
    assert!(ended.code == exit::NOT_REACHED && ended.stderr.contains("is not the API"), "{ended}");
}

#[test]
fn the_newest_tasks_come_first_and_a_beginning_names_one() {
    let local = Local::start();
    let cli = &local.cli;
    let mut created = Vec::new();
    for _ in 0..3 {
        created.push(cli.call("run face-mesh hazy.png --detach -q").stdout.trim().to_owned());
    }
    created.reverse();
    let listed = cli.call("task list -q").stdout;
    assert_eq!(listed.lines().collect::<Vec<_>>(), created);
    assert_eq!(cli.call("task list -q --limit 1 --offset 1").stdout.trim(), created[1]);
    assert_eq!(cli.call("task list -q --status in_queue --model face-mesh").stdout, listed);
    assert_eq!(cli.call("task show @last -q").stdout.trim(), created[0]);
    let beginning = &created[2][..35];
    assert_eq!(cli.call(&format!("task show {beginning} -q")).stdout.trim(), created[2]);
    for id in &created {
        assert_eq!(cli.call(&format!("task cancel {id}")).code, exit::DONE);
    }
    cli.call("run haze-removal hazy.png");
    let again = cli.call("task rerun @last -o again.png -q");
    assert!(again.code == exit::DONE && again.stdout.trim().ends_with("again.png"), "{again}");
}

#[test]
fn an_offset_skips_tasks_that_pass_the_filter() {
    let local = Local::start();
    let cli = &local.cli;
    let mut created = Vec::new();
    for model in ["face-mesh", "haze-removal", "haze-removal", "face-mesh", "face-mesh", "haze-removal"] {
        let task = cli.call(&format!("run {model} hazy.png --detach -q")).stdout;
        created.extend((model == "face-mesh").then(|| task.trim().to_owned()));
    }
    created.reverse();
    for filter in ["--model face-mesh", "--status in_queue --model face-mesh"] {
        let list = |paging: &str| cli.call(&format!("task list -q {filter} {paging}")).stdout;
        let pages = list("--limit 2") + &list("--limit 2 --offset 2") + &list("--limit 2 --offset 4");
        assert_eq!(pages.lines().collect::<Vec<_>>(), created, "{filter}");
        assert_eq!(list("--all --offset 1").lines().collect::<Vec<_>>(), created[1..], "{filter}");
    }
}

#[test]
fn json_is_reduced_to_fields_and_filtered() {
    let local = Local::start();
    let cli = &local.cli;
    let fields = cli.call("models list --search haze --json=id,price").stdout;
    assert_eq!(fields, "[{\"id\":\"haze-removal\",\"price\":0.01}]\n");
    let one = cli.call("models show haze-removal --json=id").stdout;
    assert_eq!(one, "{\"id\":\"haze-removal\"}\n");
    let filtered = cli.call("models list --search haze --jq .records[].id");
    assert_eq!(filtered.stdout, "haze-removal\n");
    assert_eq!(cli.call("models list --json=nothing").code, exit::USAGE);
    assert_eq!(cli.call("balance --json").stdout, cli.call("balance --format json").stdout);
    let pages = cli.call("api /api-key/model/list --paginate -f limit=4");
    assert_eq!(pages.code, exit::DONE, "fields make it a POST: {pages}");
    let pages = cli.call("api POST /api-key/model/list --paginate -f limit=4");
    let all = cli.call("models list --all -q").stdout;
    assert_eq!(pages.stdout.lines().count(), all.lines().count().div_ceil(4), "{pages}");
    assert!(all.lines().all(|id| pages.stdout.contains(&format!("\"id\":\"{id}\""))), "{pages}");
    let of_body = cli.call("api POST /api-key/model/list --paginate --body {\"limit\":4}");
    assert_eq!(of_body.stdout, pages.stdout, "the limit of the body: {of_body}");
    let forced = cli.call("models list --color always").stdout;
    assert!(forced.contains('\u{1b}'), "{forced}");
}

#[test]
fn a_documented_field_that_a_response_leaves_out_is_null() {
    let local = Local::start();
    assert_eq!(local.cli.call("run haze-removal hazy.png").code, exit::DONE);
    let shown = local.cli.call("task show @last --json=status,message");
    assert_eq!(shown.stdout, "{\"status\":\"success\",\"message\":null}\n", "{shown}");
    assert_eq!(local.cli.call("task show @last --json=status,mesage").code, exit::USAGE);
    let listed = local.cli.call("task list --json=status,message");
    assert_eq!(listed.code, exit::USAGE, "a record of a list has no message: {listed}");
}

#[test]
fn a_run_that_deletes_its_inputs_prints_its_task() {
    let local = Local::start();
    let run = "run haze-removal input_image=@hazy.png --delete-inputs";
    let whole = local.cli.call(&format!("{run} --json"));
    assert!(whole.stdout.contains("\"status\":\"success\""), "{whole}");
    let cost = local.cli.call(&format!("{run} --json=cost"));
    assert!(cost.stdout.contains("0.01"), "{cost}");
}

#[test]
fn an_unreadable_created_task_is_named_with_the_command_to_wait() {
    let local = Local::with_controls();
    for (status, code) in [(404, exit::REFUSED), (401, exit::KEY)] {
        local.fault(
            serde_json::json!({"effect": "status", "status": status, "operation": "getTask", "times": 1}),
        );
        let ended = local.cli.call("run haze-removal hazy.png");
        let task = local.cli.call("task show @last -q").stdout;
        let hint = format!("inferstore task wait {}", task.trim());
        assert!(ended.code == code && ended.stderr.contains(&hint), "{ended}");
        assert_eq!(ended.stdout, task, "{ended}");
        assert!(!ended.stderr.contains("models list"), "{ended}");
    }
}

#[test]
fn a_run_waits_while_the_service_limits_the_account() {
    let local = Local::with_controls();
    let limit = |retry_after: u64, times: u64| {
        local.fault(serde_json::json!({
            "effect": "status", "status": 429, "retry_after": retry_after, "operation": "createTask", "times": times
        }));
    };
    for command in ["run haze-removal hazy.png", "run haze-removal hazy.png --delete-inputs --json"] {
        // The client itself sends a create five times.
        limit(0, 5);
        let ended = local.cli.call(command);
        assert_eq!(ended.code, exit::DONE, "{ended}");
        assert!(ended.stderr.contains("waiting: the service limits the account"), "{ended}");
    }
    limit(0, 5);
    let ended = local.cli.call("run haze-removal hazy.png --detach -q");
    assert_eq!(ended.code, exit::DONE, "{ended}");
    limit(40, 1);
    let ended = local.cli.call("run haze-removal hazy.png --deadline 30s");
    assert_eq!(ended.code, exit::REFUSED, "the deadline is before the next attempt: {ended}");
    assert_eq!(local.cli.call("task list --all -q").stdout.lines().count(), 3);
}

#[test]
fn help_has_topics_and_knows_every_command() {
    let cli = Cli::new();
    for (words, text) in [
        ("help exit-codes", "11  the run was interrupted"),
        ("help environment", "CLICOLOR_FORCE"),
        ("help formats", "--jq"),
        ("help files upload", "Usage: inferstore files upload"),
        ("help", "Commands:"),
    ] {
        let ended = cli.call(words);
        assert!(ended.code == exit::DONE && ended.stdout.contains(text), "{words}: {ended}");
    }
    let ended = cli.call("help exit-code");
    assert!(ended.code == exit::USAGE && ended.stderr.contains("did you mean `exit-codes`?"), "{ended}");
}

#[test]
fn doctor_finds_what_does_not_work() {
    let mut local = Local::start();
    let well = local.cli.call("doctor");
    assert!(well.code == exit::DONE && well.stdout.contains("object storage"), "{well}");
    let key = local.cli.call("doctor --api-key wrong");
    assert!(key.code == exit::KEY && key.stdout.contains("failed"), "{key}");
    local.cli.set("INFERSTORE_BASE_URL", CLOSED);
    let gone = local.cli.call("doctor -q");
    assert_eq!((gone.code, gone.stdout.as_str()), (exit::NOT_REACHED, "connection\n"), "{gone}");
}

#[test]
fn doctor_compares_the_clocks_by_the_response_that_it_has() {
    let mut local = Local::start();
    let mut reads = 0;
    let server = Server::start(move |request| {
        let is_balance = request.target.ends_with("/balance");
        reads += usize::from(is_balance);
        if is_balance && reads > 1 {
            return Reaction::status(404);
        }
        let body = r#"{"status": "success", "message": "ok", "data": {"balance": "1"}}"#;
        let date = "Thu, 01 Jan 2015 00:00:00 GMT".to_owned();
        let headers = vec![("content-type", "application/json".to_owned()), ("date", date)];
        Reaction::Answer(200, headers, body.as_bytes().to_vec())
    });
    local.cli.set("INFERSTORE_BASE_URL", &server.base_url());
    let ended = local.cli.call("doctor");
    assert!(ended.stderr.contains("the clocks differ by"), "{ended}");
}

/// A service that responds to each request with the same payload, in which `ORIGIN` is its own origin.
fn service_of(payload: &'static str) -> String {
    let server = Server::start(move |request| {
        if request.target.ends_with("/private") {
            return Reaction::status(404);
        }
        let origin = format!("http://{}", request.header("host").unwrap_or_default());
        let data = payload.replace("ORIGIN", &origin);
        Reaction::Json(200, format!(r#"{{"status": "success", "message": "ok", "data": {data}}}"#))
    });
    server.base_url()
}

#[test]
fn doctor_compares_the_responses_with_the_document() {
    let mut local = Local::start();
    let ran = local.cli.call("run haze-removal hazy.png -o clear.png");
    assert_eq!(ran.code, exit::DONE, "{ran}");
    let same = local.cli.call("doctor --api");
    assert!(same.code == exit::DONE && !same.stdout.contains("differs"), "{same}");
    assert!(same.stdout.contains("the responses of 13 operations are compared\n"), "{same}");

    let payload = r#"{"balance": "1", "queue_position": 7, "debt": true, "download_url": "ORIGIN/private"}"#;
    local.cli.set("INFERSTORE_BASE_URL", &service_of(payload));
    let moved = local.cli.call("doctor --api --json");
    assert_eq!(moved.code, exit::FAILED, "{moved}");
    for (pointer, detail) in [
        ("AccountBalance/properties/queue_position", "the document has no such field; its value is integer"),
        ("AccountBalance/properties/debt", "is boolean, and the document says otherwise"),
    ] {
        let record = serde_json::json!({
            "check": "document", "ok": false, "pointer": format!("/components/schemas/{pointer}"), "detail": detail
        });
        assert!(moved.stdout.contains(&record.to_string()), "{record}: {moved}");
    }
    assert!(!moved.stdout.contains("private"), "{moved}");
    assert!(moved.stderr.contains("cannot be decoded"), "{moved}");
    let payload = r#"{"balance": "1", "queue_position": 7, "download_url": "ORIGIN/private"}"#;
    local.cli.set("INFERSTORE_BASE_URL", &service_of(payload));
    let moved = local.cli.call("doctor --api -q");
    assert_eq!((moved.code, moved.stdout.as_str()), (exit::FAILED, "document\n"), "{moved}");
    assert!(moved.stderr.contains("the responses differ from the API document in"), "{moved}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_goes_into_a_pipe_that_the_shell_has_opened() {
    use std::io::Read;
    use std::os::fd::AsRawFd;

    let local = Local::start();
    let (mut reader, writer) = std::io::pipe().expect("a pipe can be made");
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map(|_| bytes)
    });
    let pipe = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let ended = local.cli.call(&format!("run haze-removal hazy.png -o {pipe}"));
    drop(writer);
    assert_eq!(ended.code, exit::DONE, "{ended}");
    let read = reading.join().expect("it does not panic").expect("it can be read");
    assert!(read.starts_with(b"\x89PNG"));
}

#[test]
fn a_picture_with_too_many_pixels_is_refused_before_it_is_uploaded() {
    let local = Local::start();
    let mut photo = PICTURE.to_vec();
    photo.splice(16..24, [12_000_u32.to_be_bytes(), 9_000_u32.to_be_bytes()].concat());
    std::fs::write(local.cli.path("large.png"), photo).expect("it can be written");
    let ended = local.cli.call("run haze-removal large.png");
    assert_eq!(ended.code, exit::INPUT, "{ended}");
    let words = "input_image: This picture has 108 megapixels; this model takes at most 50. Make it smaller";
    assert!(ended.stderr.contains(words), "{ended}");
    assert_eq!(local.cli.call("files list samples -q").stdout, "", "nothing was uploaded");
}

#[test]
fn a_default_is_said_to_fill_the_form_alone() {
    let local = Local::start();
    let ended = local.cli.call("models show color-harmonization");
    assert!(ended.stdout.contains("angle (int from 1 to 90; the form begins with 1): Angle."), "{ended}");
}

#[test]
fn the_folder_of_a_new_model_is_named_where_it_is_taken_or_missing() {
    let cli = Cli::new();
    for name in ["list", "a--b", "Soft-focus"] {
        let refused = cli.call(&format!("model init {name}"));
        assert!(refused.code == exit::USAGE && !std::path::Path::new(&cli.path(name)).exists(), "{refused}");
    }
    assert_eq!(cli.call("model init soft-focus").code, exit::DONE);
    let model = std::fs::read_to_string(cli.path("soft-focus/model.json")).expect("it is written");
    assert!(model.contains(r#""pretty_name": "Soft focus""#), "{model}");
    let again = cli.call("model init soft-focus");
    assert!(again.code == exit::INPUT && again.stderr.contains("soft-focus is there already"), "{again}");
    let missing = cli.call("node run nothing");
    assert!(missing.code == exit::USAGE && missing.stderr.contains("a folder with a node.json"), "{missing}");
}

#[test]
fn a_service_that_lost_its_database_begins_no_other_one() {
    let mut cli = Cli::new();
    cli.set("INFERSTORE_DATABASE", " ");
    let refused = cli.call("serve --port 0 --storage-port 0");
    assert!(
        refused.code == exit::USAGE && refused.stderr.contains("INFERSTORE_DATABASE is empty"),
        "{refused}"
    );
    assert!(!std::path::Path::new(&cli.path("inferstore-data")).exists());
}

#[test]
fn what_would_be_lost_or_misunderstood_is_refused_before_anything_is_sent() {
    let _filters = filters();
    let local = Local::start();
    let cli = &local.cli;
    for name in ["one", "two"] {
        std::fs::create_dir(cli.path(name)).expect("it can be made");
        std::fs::copy(cli.path("hazy.png"), cli.path(&format!("{name}/n.png"))).expect("it can be copied");
    }
    insta::assert_snapshot!(cli.transcript(&[
        "files upload samples one/n.png two/n.png",
        "files upload samples -r one two",
        "run haze-removal one/n.png two/n.png -o out/{model}.png",
        "run haze-removal hazy.png -o ",
        "api /api-key/balance --json=balance",
        "api /api-key/task/histories?offset=3 --paginate",
        "api POST /api-key/model/list --paginate --body {\"offset\":3}",
    ]));
    assert_eq!(cli.call("task list -q").stdout, "");
    assert_eq!(cli.call("files list samples -q").stdout, "");
}

#[test]
fn a_task_runs_again_with_another_file_and_its_outputs_are_named_after_it() {
    let local = Local::start();
    let cli = &local.cli;
    std::fs::copy(cli.path("hazy.png"), cli.path("b.png")).expect("it can be copied");
    assert_eq!(cli.call("run haze-removal hazy.png").code, exit::DONE);
    let again = cli.call("task rerun @last b.png -o out -q");
    assert!(again.stdout.trim().ends_with("out/b-haze-removal.png"), "{again}");
    let shown = cli.call("task wait @last -o {input}-{model}.{ext} -q");
    assert!(shown.stdout.trim().ends_with("-haze-removal.png"), "{shown}");
    let filtered = cli.call("task list --format jsonl --jq .model_id");
    assert_eq!(filtered.stdout, "haze-removal\nhaze-removal\n");
}
