//! Pages: content, speed, and behavior while the service fails.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::{Client, PollInterval};
use inferstore_api::operations;
use inferstore_console::Console;
use inferstore_service::{Config, Fault, Script};
use reqwest::StatusCode;
use serde_json::json;

use crate::support::{ANYWHERE, FormBody, Seen, Site, TEMPORARY, Visitor, picture, publish};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_is_small() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let page = visitor.get("/").await;
    let assets: BTreeSet<_> = page.body.split('"').filter(|text| text.starts_with("/assets/")).collect();
    assert_eq!(assets.len(), 3);
    let mut size = page.body.len();
    for address in assets {
        let asset = visitor.get(address).await;
        assert!(asset.header("cache-control").contains("immutable"), "{address}");
        size += asset.body.len();
    }
    assert!(size <= 60 * 1024, "{size} bytes");
    assert_eq!(visitor.get("/assets/app.css").await.status, StatusCode::NOT_FOUND);
}

fn code_lines(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let count = |path: PathBuf| {
        if path.is_dir() {
            return code_lines(&path);
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if matches!(name.as_str(), "reference.html" | "tests.rs") {
            return 0;
        }
        let text = std::fs::read_to_string(&path).expect("text");
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//") && !line.starts_with("/*");
        code.lines().map(str::trim).filter(is_code).count()
    };
    entries.map(count).sum()
}

#[test]
fn the_console_stays_small() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lines = code_lines(&package.join("src")) + code_lines(&package.join("assets"));
    assert!(lines <= 3_400, "{lines} lines of Rust with its templates, CSS and JavaScript");
}

#[tokio::test]
async fn the_catalog_is_searched_filtered_and_says_what_is_served() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let all = visitor.get("/").await;
    assert_eq!(all.body.matches("href=\"/models/").count(), 15);
    all.says("Ready").says("0.05").says("Official");
    for (search, model) in [
        ("haze&sort=created", "haze-removal"),
        ("Background+remove", "background-removal"),
        ("cartoon", "image-to-anime"),
        ("palette", "color-extraction"),
        ("outline", "video-edge-map"),
    ] {
        let found = visitor.get(&format!("/?q={search}")).await;
        found.says(&format!("href=\"/models/{model}\""));
        assert!(found.body.matches("href=\"/models/").count() <= 3, "{search}: {}", found.body);
    }
    for search in ["upscale", "image+quality"] {
        visitor.get(&format!("/?q={search}")).await.says("href=\"/models/super-resolution\"");
    }
    assert!(!all.body.contains("<select"));
    visitor.get("/?q=nothing-like-it").await.says("No model matches");
    visitor.get("/?filter=community").await.says("No model matches");
    site.service.controls().expect("controls").take_node_down().await.expect("a node");
    visitor.get("/").await.says("Offline");
}

#[tokio::test]
async fn the_history_is_newest_first_in_pages_and_filtered() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let controls = site.service.controls().expect("controls");
    let output = serde_json::json!({"output": "#102030"});
    controls.let_model("color-extraction", Script::succeed(output)).await.expect("a script");
    controls.let_model("haze-removal", Script::fail("no")).await.expect("a script");
    let mut tasks = Vec::new();
    for number in 0..30 {
        let (model, input) =
            if number == 3 { ("haze-removal", "input_image") } else { ("color-extraction", "input") };
        let inputs = inferstore::Inputs::new().set(input, format!("https://files.example/{number}.png"));
        tasks.push(
            site.client.model(model).run(inputs).start().await.expect("a task").id().as_str().to_owned(),
        );
    }
    let place = |page: &str, number: usize| page.find(&format!("/tasks/{}", tasks[number]));
    let page = visitor.get("/runs").await;
    assert!(place(&page.body, 29) < place(&page.body, 28) && place(&page.body, 5).is_some());
    assert!(place(&page.body, 4).is_none());
    let older = page
        .body
        .split("href=\"")
        .find(|link| link.contains("before="))
        .and_then(|link| link.split('"').next());
    let page = visitor.get(&older.expect("a link").replace("&amp;", "&")).await;
    assert!(place(&page.body, 4) < place(&page.body, 0) && place(&page.body, 5).is_none());
    let page = visitor.get("/runs?model=haze-removal").await;
    assert!(place(&page.body, 3).is_some() && place(&page.body, 4).is_none());
    visitor.get("/runs?status=canceled").await.says("No run matches");
    visitor.get("/runs?day=2001-01-01").await.says("No run matches");
    // A day is one of the browser's zone: UTC, fourteen hours before it, and twelve after it.
    for minutes in [0, -840, 720] {
        let today =
            || (jiff::Timestamp::now() - jiff::SignedDuration::from_mins(minutes)).strftime("%F").to_string();
        let day = today();
        let page = visitor.get(&format!("/runs?model=haze-removal&day={day}&zone={minutes}")).await;
        assert!(place(&page.body, 3).is_some() || today() != day, "{minutes}");
    }
}

#[tokio::test]
async fn files_are_stored_listed_fetched_and_deleted() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let form = FormBody::new().file("files", "a.png", &picture()).file("files", "b.txt", b"some text");
    assert_eq!(visitor.post("/files/covers", form).await.status, StatusCode::SEE_OTHER);
    let page = visitor.get("/files/covers").await;
    page.says("2 stored").says("a.png").says("b.txt").says("<img src=\"/view/");
    visitor.get("/files/covers?search=B.t").await.says("b.txt").says("1 of the 2000 latest files");
    let links = downloads(&page);
    let [text, link] = &links[..] else { panic!("two downloads: {links:?}") };
    assert!(text.ends_with("?download=b.txt"), "the newest is first: {text}");
    let bytes = visitor
        .request(reqwest::Method::GET, link)
        .header("range", "bytes=0-7")
        .send()
        .await
        .expect("a response");
    assert_eq!(bytes.status(), StatusCode::PARTIAL_CONTENT);
    assert_eq!(&bytes.bytes().await.expect("bytes")[1..4], b"PNG");
    let id = |link: &str| link.trim_start_matches("/view/").split('?').next().unwrap_or_default().to_owned();
    let small = visitor.request(reqwest::Method::GET, &format!("/view/{}?small", id(link))).send().await;
    let small = small.expect("a response").bytes().await.expect("bytes");
    let small = image::load_from_memory(&small).expect("a picture");
    assert_eq!((small.width(), small.height()), (384, 240));
    // The form comes back to the page that it was on.
    let chosen = format!("file.{}=on&page=1&search=b", id(text));
    page.says("action=\"/files/covers/delete\"").says("Nothing can bring back a deleted file");
    let deleted = delete(&visitor, &chosen).await;
    assert_eq!(deleted.status, StatusCode::SEE_OTHER);
    assert_eq!(deleted.header("location"), "/files/covers?page=1&search=b&deleted=1");
    visitor.get(deleted.header("location")).await.says("1 file was deleted");
    visitor.get("/files/covers").await.says("1 stored").says("a.png");
    let beyond = visitor.get("/files/covers?page=9").await;
    assert_eq!(beyond.header("location"), "/files/covers?page=1&search=");
}

async fn delete(visitor: &Visitor, form: &str) -> Seen {
    send(visitor, "/files/covers/delete", form).await
}

async fn send(visitor: &Visitor, path: &str, form: &str) -> Seen {
    let request = visitor.request(reqwest::Method::POST, path).header("origin", &visitor.origin);
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(form.to_owned());
    crate::support::seen(request).await
}

fn downloads(page: &Seen) -> Vec<String> {
    let links = page.body.split("class=\"save\" href=\"").skip(1);
    links.filter_map(|rest| rest.split('"').next().map(str::to_owned)).collect()
}

fn download(page: &Seen) -> String {
    downloads(page).into_iter().next().expect("a download")
}

#[tokio::test]
async fn files_are_listed_newest_first_over_pages_under_their_own_names() {
    let site = Site::start().await;
    let visitor = site.open().await;
    for number in 0..30 {
        let file = inferstore::File::bytes(format!("{number}.txt"), &b"text"[..]);
        site.client.folder("covers").upload(file).await.expect("an upload");
    }
    let names = |page: &Seen| -> Vec<String> {
        let names = downloads(page).into_iter().filter_map(|link| Some(link.rsplit_once('=')?.1.to_owned()));
        names.collect()
    };
    let expected =
        |range: std::ops::Range<u32>| range.rev().map(|number| format!("{number}.txt")).collect::<Vec<_>>();
    assert_eq!(names(&visitor.get("/files/covers").await), expected(6..30));
    assert_eq!(names(&visitor.get("/files/covers?page=2").await), expected(0..6));
    let found = visitor.get("/files/covers?search=1.TXT").await;
    assert_eq!(names(&found), ["21.txt", "11.txt", "1.txt"]);
    visitor.get("/files/covers?search=none").await.says("No file matches");

    // A file of a run has an unguessable stored name.
    let run =
        visitor.run("color-extraction", FormBody::new().file("in.input", "my cat.png", &picture())).await;
    visitor.result(&run).await;
    let page = visitor.get("/files/samples").await;
    page.says(">my cat.png</h2>");
    visitor.get("/runs").await.says("my cat.png");
}

#[tokio::test]
async fn a_file_that_was_replaced_or_deleted_is_not_shown_any_more() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let upload = |text: &'static [u8]| FormBody::new().file("files", "a.txt", text);
    visitor.post("/files/covers", upload(b"the first")).await;
    let first = download(&visitor.get("/files/covers").await);
    let seen = visitor.get(&first).await;
    assert_eq!((&*seen.body, seen.header("cache-control")), ("the first", "private, no-cache"));

    let file = inferstore::File::bytes("a.txt", &b"the second"[..]);
    site.client.folder("covers").upload(file).await.expect("an upload");
    let second = download(&visitor.get("/files/covers").await);
    assert_ne!(first, second);
    assert_eq!(visitor.get(&second).await.body, "the second");
    visitor.post("/files/covers", upload(b"the third")).await;
    assert_eq!(visitor.get(&second).await.body, "the third");

    let id = second.trim_start_matches("/view/").split('?').next().unwrap_or_default();
    assert_eq!(delete(&visitor, &format!("file.{id}=on")).await.status, StatusCode::SEE_OTHER);
    assert!(!visitor.get(&second).await.status.is_success());
}

#[tokio::test]
async fn an_upload_that_fails_in_part_says_what_is_stored() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let form = FormBody::new().file("files", "a.txt", b"text").file("files", "empty.txt", b"");
    let page = visitor.post("/files/covers", form.file("files", "c.txt", b"text")).await;
    let (failed, stored) = page.body.split_once("<h2>Stored</h2>").expect("both lists");
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(failed.contains("<h3>empty.txt</h3>") && failed.contains("empty.txt: it is empty"), "{failed}");
    assert!(!page.body.contains(TEMPORARY), "{}", page.body);
    assert!(stored.contains("a.txt") && stored.contains("c.txt"), "{stored}");
    visitor.get("/files/covers").await.says("2 stored");
}

#[tokio::test]
async fn an_address_or_a_form_that_no_page_has_is_refused_with_a_reason() {
    let site = Site::start().await;
    let visitor = site.open().await;
    for path in [
        "/runs?before=18446744073709551615",
        "/?sort=nope",
        "/?filter=nope",
        "/?page=x",
        "/files/nope",
        "/files/covers?page=nope",
    ] {
        assert_eq!(visitor.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    let form = FormBody::new().file("files", "a.txt", b"text");
    assert_eq!(visitor.post("/files/nope", form).await.status, StatusCode::NOT_FOUND);
    let page = visitor.get("/runs?status=foo").await;
    page.says("No run matches").says("<option value=\"foo\" selected>Foo</option>");
    let request = visitor.request(reqwest::Method::POST, "/files/covers").header("origin", &visitor.origin);
    let request = request.header("content-type", "application/x-www-form-urlencoded").body("files=a");
    let page = crate::support::seen(request).await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    page.says("not sent as multipart/form-data").says("What to try: open the page again");
    let files = |count| (0..count).fold(FormBody::new(), |form, _| form.file("files", "a.txt", b"text"));
    let page = visitor.post("/files/covers", files(501)).await;
    assert_eq!(page.status, StatusCode::PAYLOAD_TOO_LARGE);
    page.says("It takes 500 files and fields. Nothing was stored.");
    visitor.get("/files/covers").await.says("0 stored");
}

#[tokio::test]
async fn text_of_others_cannot_disguise_itself() {
    let site = Site::start().await;
    let text = json!({"type": "string", "required": true, "position": 0});
    publish(&site, "evil", "one\u{1b}[2Jtwo\u{202e}eerht", &text, &text).await;
    let visitor = site.open().await;
    for path in ["/", "/models/evil"] {
        let page = visitor.get(path).await;
        page.says("one\u{fffd}[2Jtwo\u{fffd}eerht");
        assert!(!page.body.contains(['\u{1b}', '\u{202e}']), "{path}: {:?}", page.body);
    }
}

#[tokio::test]
async fn a_declared_text_that_begins_like_a_url_is_shown_as_text() {
    let site = Site::start().await;
    let text = json!({"type": "string", "required": true, "position": 0});
    publish(&site, "echo", "", &text, &text).await;
    let said = "https://files.example/a.png is where it was";
    let controls = site.service.controls().expect("controls");
    controls.let_model("echo", Script::succeed(json!({ "text": said }))).await.expect("a script");
    let visitor = site.open().await;
    let run = visitor.run("echo", FormBody::new().text("in.text", "where?")).await;
    let page = visitor.result(&run).await;
    page.says(&format!("<p class=\"text\">{said}</p>"));
    assert!(!page.body.contains("not shown here"), "{}", page.body);
}

/// Starts a site whose storage has another origin than the API, like a bucket.
async fn with_storage_elsewhere() -> Site {
    let port =
        std::net::TcpListener::bind(ANYWHERE).expect("a port").local_addr().expect("an address").port();
    let mut config = Config::ephemeral().with_controls();
    config.storage.set_port(port);
    config.storage_url = Some(format!("http://localhost:{port}"));
    Site::start_with(config).await
}

#[tokio::test]
async fn an_output_in_a_storage_elsewhere_is_shown_before_any_file_is_stored() {
    let site = with_storage_elsewhere().await;
    let controls = site.service.controls().expect("controls");
    let output = json!({"output": format!("{}/outputs/b.png", site.service.storage_url())});
    controls.let_model("background-removal", Script::succeed(output)).await.expect("a script");
    let visitor = site.open().await;
    let run =
        visitor.run("background-removal", FormBody::new().text("url.input", "https://tracker.example/a.png"));
    let page = visitor.result(&run.await).await;
    page.says("Show the file from tracker.example");
    assert_eq!(page.body.matches("<img src=\"/view/").count(), 1, "{}", page.body);
    let stored = site.client.storage_statistics().await.expect("they are read");
    assert_eq!(stored.total_files, Some(0), "nothing was uploaded");
}

#[tokio::test]
async fn a_picture_of_another_host_is_fetched_by_a_click_alone() {
    let site = with_storage_elsewhere().await;
    let controls = site.service.controls().expect("controls");
    let output = json!({"output": "https://tracker.example/b.png"});
    controls.let_model("background-removal", Script::succeed(output)).await.expect("a script");
    let visitor = site.open().await;
    let run = visitor.run("background-removal", FormBody::new().file("in.input", "a.png", &picture())).await;
    let page = visitor.result(&run).await;
    page.says("Success").says("Show the file from tracker.example");
    assert_eq!(page.body.matches("<img src=\"/view/").count(), 1, "{}", page.body);

    let run = FormBody::new().text("url.input", "https://tracker.example/a.png");
    let run = visitor.run("background-removal", run).await;
    let page = visitor.result(&run).await;
    assert!(!page.body.contains("<img src=\"/view/"), "{}", page.body);
    let again = page.body.split("href=\"").find(|link| link.contains("?from=")).expect("a link");
    let page = visitor.get(again.split('"').next().unwrap_or_default()).await;
    page.says("Show the file from tracker.example");
    assert!(!page.body.contains("<img src=\"/view/"), "{}", page.body);
}

#[tokio::test]
async fn a_picture_of_another_port_of_the_same_host_is_not_fetched() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let other = tokio::net::TcpListener::bind(ANYWHERE).await.expect("a port");
    let port = other.local_addr().expect("an address").port();
    let output = json!({"output": format!("http://127.0.0.1:{port}/secret.png")});
    let controls = site.service.controls().expect("controls");
    controls.let_model("background-removal", Script::succeed(output)).await.expect("a script");
    let run = visitor.run("background-removal", FormBody::new().file("in.input", "a.png", &picture())).await;
    let page = visitor.result(&run).await;
    page.says(&format!("Show the file from 127.0.0.1:{port}"));
    assert_eq!(page.body.matches("<img src=\"/view/").count(), 1, "the input alone: {}", page.body);
}

#[tokio::test]
async fn a_message_names_inputs_by_their_titles_and_folds_details() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let controls = site.service.controls().expect("controls");
    for (message, shown) in [
        ("The input `input_image` is too large", "The input “Hazy image” is too large"),
        ("input_image: it is gone", "Hazy image: it is gone"),
    ] {
        controls.let_model("haze-removal", Script::fail(message)).await.expect("a script");
        let form = FormBody::new().file("in.input_image", "a.png", &picture());
        let run = visitor.run("haze-removal", form.text("form", message)).await;
        visitor.result(&run).await.says(shown);
    }
}

#[tokio::test]
async fn the_account_shows_the_balance_and_what_was_spent() {
    let site = Site::start().await;
    let visitor = site.open().await;
    for form in [FormBody::new().text("form", "1"), FormBody::new().text("form", "2")] {
        let run = visitor.run("color-extraction", form.file("in.input", "a.png", &picture())).await;
        visitor.result(&run).await.says("#");
    }
    let page = visitor.get("/account").await;
    page.says("4.9 USD</dd>")
        .says("In 2 successful tasks, 0.1 USD in all")
        .says("Storing 1 GiB costs 0.001 USD a day")
        .says("<progress")
        .says("0.1 USD</td>")
        .says("color-extraction</td>");
}

#[tokio::test]
async fn the_account_makes_a_key_shows_it_once_and_revokes_it() {
    let mut config = Config::ephemeral();
    config.owners_manage_keys = Some(true);
    let site = Site::start_with(config).await;
    let visitor = site.open().await;
    let none = visitor.get("/account").await;
    none.says("(of this console)").says("Make a key");
    assert!(!none.body.contains("Revoke"), "the console does not revoke its own key: {}", none.body);

    let form = "name=the+nightly+job&expires=2999-01-31&limit=0.5&models=haze-removal%2C+color-extraction";
    let made = send(&visitor, "/account/keys", form).await;
    let key = made.body.split("class=\"once\">").nth(1).and_then(|rest| rest.split('<').next());
    let key = key.expect("a key");
    site.client.with_key(key).expect("a key").balance().await.expect("the service accepts the key");
    assert_eq!(made.header("cache-control"), "no-store");
    let id = key.split('_').nth(1).expect("an identifier");
    let page = visitor.get("/account").await;
    page.says("the nightly job")
        .says(&format!("isk_{id}_…"))
        .says("2999-01-31 23:59:59 UTC")
        .says("0.5 USD a day")
        .says("only haze-removal, color-extraction");
    for secret in [key, &site.key] {
        assert!(!page.body.contains(secret), "{}", page.body);
    }
    for models in ["no-such-model", "haze-removal color-extraction"] {
        let refused = send(&visitor, "/account/keys", &format!("name=other&models={models}")).await;
        assert_eq!(refused.status, StatusCode::NOT_FOUND, "{models}");
        refused.says("href=\"/account\">Back");
    }
    let again = send(&visitor, "/account/keys", form).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    again.says("choose another name");
    let wrong = send(&visitor, "/account/keys", "name=other&limit=much").await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);

    let revoked = send(&visitor, &format!("/account/keys/{id}"), "").await;
    assert_eq!((revoked.status, revoked.header("location")), (StatusCode::SEE_OTHER, "/account"));
    let page = visitor.get("/account").await;
    page.says("· revoked <time");
    assert!(!page.body.contains("Revoke"), "{}", page.body);
    assert!(site.client.with_key(key).expect("a key").balance().await.is_err());
}

#[tokio::test]
async fn the_account_lists_its_keys_where_only_the_operator_makes_them() {
    let site = Site::start().await;
    site.service.add_key("demo").await.expect("a key");
    let visitor = site.open().await;
    let page = visitor.get("/account").await;
    assert_eq!(page.body.matches("<code>isk_").count(), 2, "{}", page.body);
    page.says("The operator of the service makes and revokes keys");
    assert!(!page.body.contains("Make a key") && !page.body.contains("Revoke"), "{}", page.body);
    let refused = send(&visitor, "/account/keys", "name=mine").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
}

struct LongHistory;

impl Middleware for LongHistory {
    fn handle<'a>(
        &'a self,
        request: reqwest::Request,
        _: Next<'a>,
    ) -> BoxFuture<'a, reqwest::Result<reqwest::Response>> {
        let number = |name: &str| {
            let found = request.url().query_pairs().find(|(own, _)| own == name);
            found.and_then(|(_, value)| value.parse::<u64>().ok()).unwrap_or_default()
        };
        let now = jiff::Timestamp::now().to_string();
        let record = |number: u64| {
            let model = if number.is_multiple_of(2) { "a-b" } else { "a_b" };
            json!({"task_id": format!("task-{number}"), "status": "success", "model_id": model, "cost": "0.5",
                "created_at": now, "updated_at": now})
        };
        let data = match request.url().path().ends_with("/histories") {
            true => {
                let first = number("offset");
                let records: Vec<_> = (first..first + number("limit")).map(record).collect();
                json!({"records": records, "total": 5_000})
            }
            false => json!({"balance": "1"}),
        };
        let body = json!({"status": "success", "message": "ok", "data": data}).to_string();
        Box::pin(async { Ok(axum::http::Response::new(body).into()) })
    }
}

#[tokio::test]
async fn the_account_says_which_days_it_did_not_read_and_keeps_models_apart() {
    let client = Client::builder("https://api.example/api/v1", "a key").middleware(LongHistory);
    let client = client.build().expect("a client");
    let console = Console::start(client, ANYWHERE, PollInterval::Adaptive).await.expect("a console");
    let page = Visitor::open(&console).await.get("/account").await;
    let by_day = page.body.split("Spent by model").next().expect("a chart");
    assert!(by_day.contains("Only the 2000 latest tasks are counted"), "{by_day}");
    assert_eq!(
        (by_day.matches(">1000</td>").count(), by_day.matches(">–</td>").count()),
        (1, 13),
        "{by_day}"
    );
    assert!(!by_day.contains(">0</td>"), "{by_day}");
    page.says("<td>a-b</td>").says("<td>a_b</td>").says(">500</td>");
}

#[tokio::test]
async fn the_reference_and_the_document_are_there() {
    let site = Site::start().await;
    let visitor = site.open().await;
    visitor.get("/docs").await.says("id=\"createTask\"").says("href=\"/openapi.yaml\"");
    let document = visitor.get("/openapi.yaml").await;
    document.says("openapi: 3.0.3");
    assert_eq!(document.header("content-type"), "text/plain; charset=utf-8");
}

#[tokio::test]
async fn a_failing_service_leaves_a_page_with_a_reason() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let controls = site.service.controls().expect("controls");
    controls
        .add_fault(Fault::status(502).on(operations::GET_BALANCE).body("text/html", "<h1>Bad gateway</h1>"))
        .expect("a fault");
    let page = visitor.get("/account").await;
    assert_eq!(page.status, StatusCode::BAD_GATEWAY);
    page.says("What to try: ").says("&lt;h1&gt;");
    let wrong = Client::new(site.service.base_url(), "isk_wrong_wrong").expect("a client");
    let console = Console::start(wrong, ANYWHERE, PollInterval::Adaptive).await.expect("a console");
    let visitor = Visitor::open(&console).await;
    let page = visitor.get("/").await;
    assert_eq!(page.status, StatusCode::UNAUTHORIZED);
    page.says("The service refuses the API key");
}

#[tokio::test]
async fn a_form_without_a_response_is_not_tried_again_as_a_page() {
    let Site { service, console, .. } = Site::start().await;
    let visitor = Visitor::open(&console).await;
    service.shutdown().await;
    visitor.get("/account").await.says("data-retry").says("tries again every two seconds");
    let page = send(&visitor, "/account/keys", "name=mine").await;
    page.says("Whether this was done is unknown").says("href=\"/account\">Back");
    send(&visitor, "/models/haze-removal", "").await.says("Nothing was started");
    assert!(!page.body.contains("data-retry") && !page.body.contains("refresh"), "{}", page.body);
}
