//! Whole life of a console in headless Chromium. Ignored by default because it needs Chromium and axe-core;
//! `.ci/run` installs both and runs it.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use image::{ImageFormat, Rgb, RgbImage};
use inferstore::{Client, PollInterval};
use inferstore_api::operations;
use inferstore_console::Console;
use inferstore_service::{Config, Controls, Fault, Script, Service};
use serde_json::{Value, json};

mod flows;
mod workbench;

use crate::devtools::{Browser, Tab};
use crate::support::{ANYWHERE, Site, publish};

fn controls(site: &Site) -> Controls {
    site.service.controls().expect("the service has controls")
}

fn hazy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../cli/demo/hazy.png")
        .canonicalize()
        .expect("the picture is there")
}

async fn is_accessible(tab: &Tab, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/tools/axe/node/node_modules/axe-core/axe.min.js");
    let axe = std::fs::read_to_string(path).expect("axe-core is installed, as `.ci/run` does");
    tab.eval(&format!("{axe}; undefined")).await;
    let run = "axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations\
        .map(({id, nodes}) => `${id}: ${nodes.slice(0, 3).map((node) => node.html + ' ' + node.failureSummary).join(' | ')}`))";
    let found = tab.eval(run).await;
    tab.picture(page).await;
    assert_eq!(found, Value::Array(Vec::new()), "{page}");
}

async fn fits(tab: &Tab, page: &str) {
    let widths = tab.eval("[document.documentElement.scrollWidth, innerWidth]").await;
    assert!(
        widths[0].as_u64() <= widths[1].as_u64(),
        "{page} is {} wide in a window of {}",
        widths[0],
        widths[1]
    );
}

/// Looks of a page: name, width in CSS pixels, device pixels in one of them, color scheme, forced colors. A window of
/// 1280 pixels at 200 % has 640 CSS pixels.
const LOOKS: [(&str, u32, u32, &str, &str); 6] = [
    ("1280-light", 1280, 1, "light", "none"),
    ("1280-dark", 1280, 1, "dark", "none"),
    ("360-light", 360, 1, "light", "none"),
    ("360-dark", 360, 1, "dark", "none"),
    ("zoomed", 640, 2, "light", "none"),
    ("forced", 1280, 1, "dark", "active"),
];

async fn looks_right(tab: &Tab, page: &str) {
    for (look, width, scale, scheme, forced) in LOOKS {
        tab.size(width, 820, scale).await;
        tab.colors(scheme, forced).await;
        let page = format!("{page}-{look}");
        fits(tab, &page).await;
        // In a narrow window, progress and result are below the form.
        let top = if width < 500 { ".tries:not([hidden])" } else { "body" };
        tab.eval(&format!("(document.querySelector('{top}') ?? document.body).scrollIntoView()")).await;
        is_accessible(tab, &page).await;
    }
    tab.size(1280, 820, 1).await;
    tab.colors("light", "none").await;
}

/// Drops a picture onto the page, and waits for its preview, which shifts the layout.
async fn choose(tab: &Tab, file: &Path) {
    tab.drop(".drop", file).await;
    tab.shows("hazy.png").await;
    tab.until("document.querySelector('.preview img').naturalWidth > 0").await;
}

fn address(site: &Site, path: &str) -> String {
    format!("{}{path}", site.console.url().split("/?").next().expect("an address"))
}

async fn at_model(site: &Site, model: &str) -> (Browser, Tab) {
    let (browser, tab) = at_start(site).await;
    tab.open(&address(site, &format!("/models/{model}"))).await;
    (browser, tab)
}

async fn at_start(site: &Site) -> (Browser, Tab) {
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.colors("light", "none").await;
    tab.open(site.console.url()).await;
    tab.until("document.querySelector('.cards')").await;
    (browser, tab)
}

fn png(image: impl Into<image::DynamicImage>) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.into().write_to(&mut bytes, ImageFormat::Png).expect("a picture can be written");
    bytes.into_inner()
}

fn file(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("it is written");
    path
}

fn paste(files: &str) -> String {
    format!(
        "(() => {{ const data = new DataTransfer(); {files}.forEach((file) => data.items.add(file)); \
        document.body.dispatchEvent(new ClipboardEvent('paste', {{clipboardData: data, bubbles: true}})); }})()"
    )
}

fn photo() -> Vec<u8> {
    let wave = |x: u32, y: u32| Rgb([(x / 16) as u8, (y / 12) as u8, (x.wrapping_mul(y) % 31) as u8]);
    let mut bytes = Cursor::new(Vec::new());
    let photo = RgbImage::from_fn(4_000, 3_000, wave);
    photo.write_to(&mut bytes, ImageFormat::Jpeg).expect("a picture can be written");
    bytes.into_inner()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_person_runs_a_model_by_dropping_a_picture() {
    let site = Site::start().await;
    let (browser, tab) = at_start(&site).await;
    tab.until("location.search === ''").await;
    assert_eq!(tab.eval("document.cookie").await, "", "the cookie is not for scripts");
    looks_right(&tab, "models").await;

    tab.click("a[href='/models/color-harmonization']").await;
    tab.shows("Costs 0.05").await;
    tab.click("form.run button.primary").await;
    tab.shows("required but not given").await;
    looks_right(&tab, "invalid").await;
    assert_eq!(controls(&site).seen(operations::CREATE_TASK), 0);

    tab.open(&address(&site, "/models/color-harmonization")).await;
    choose(&tab, &hazy()).await;
    tab.click("input[type=radio][value=t_shape] + span").await;
    tab.eval("document.querySelector('input[type=range]').focus()").await;
    tab.key("ArrowRight").await;
    assert_eq!(tab.eval("document.querySelector('.number input[type=text]').value").await, "2");
    looks_right(&tab, "model").await;

    controls(&site).let_model("color-harmonization", Script::stay_queued()).await.expect("a script");
    tab.click("form.run button.primary").await;
    tab.until("location.pathname.startsWith('/models/') && document.querySelector('.steps .now')").await;
    tab.shows("A canceled task is not billed").await;
    looks_right(&tab, "run").await;
    controls(&site).clear_script("color-harmonization").await.expect("a script");
    tab.until("location.pathname.startsWith('/models/') && document.querySelector('.slides')").await;
    tab.shows("0.05 USD").await;
    tab.eval("document.querySelector('.compare input').focus()").await;
    for _ in 0..10 {
        tab.key("ArrowLeft").await;
    }
    assert_eq!(tab.eval("document.querySelector('.stage').style.getPropertyValue('--at')").await, "40%");
    looks_right(&tab, "workbench").await;
    let task = tab.eval("document.querySelector('a.task').href").await;
    tab.open(task.as_str().expect("an address")).await;
    tab.until("document.querySelector('.slides')").await;
    looks_right(&tab, "result").await;
    let calls = tab.eval("document.querySelector('.call').textContent").await.to_string();
    for part in [
        "inferstore run color-harmonization",
        "angle=2",
        "input_image=@hazy.png",
        "Client::from_env",
        "$INFERSTORE_API_KEY",
    ] {
        assert!(calls.contains(part), "{part} is missing from {calls}");
    }

    tab.open(&address(&site, "/models/color-extraction")).await;
    choose(&tab, &hazy()).await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelectorAll('.swatches rect').length > 2").await;
    is_accessible(&tab, "colors").await;

    tab.open(&address(&site, "/files/covers")).await;
    choose(&tab, &hazy()).await;
    tab.click(".drop button").await;
    tab.until("document.querySelector('.thumbnail img')?.naturalWidth > 0").await;
    looks_right(&tab, "files").await;
    tab.shows("1 file was stored").await;
    tab.click(".files input[type=checkbox]").await;
    tab.click("form details summary").await;
    tab.shows("Nothing can bring back").await;
    is_accessible(&tab, "delete").await;
    tab.click("button.danger").await;
    tab.shows("No files here").await;

    tab.open(&address(&site, "/runs")).await;
    tab.until("document.querySelectorAll('.runs li').length === 2").await;
    for (page, path) in [("account", "/account"), ("runs", "/runs"), ("docs", "/docs")] {
        tab.open(&address(&site, path)).await;
        looks_right(&tab, page).await;
    }
    for (page, path) in [
        ("unknown", "/nowhere"),
        ("no-model", "/?q=nothing-like-it"),
        ("no-run", "/runs?status=canceled"),
        ("no-file", "/files/avatars"),
    ] {
        tab.open(&address(&site, path)).await;
        is_accessible(&tab, page).await;
    }

    let own = address(&site, "/");
    let foreign: Vec<_> = browser
        .requests()
        .into_iter()
        // The icon of a date field is the browser's own.
        .filter(|url| !url.starts_with(&own) && !url.starts_with("blob:") && !url.starts_with("data:"))
        .filter(|url| url != "about:blank")
        .collect();
    assert_eq!(foreign, Vec::<String>::new());
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn what_goes_wrong_is_shown_where_it_is() {
    let site = Site::start().await;
    let controls = controls(&site);
    let (browser, tab) = at_start(&site).await;
    let start = |model: &'static str| {
        let (tab, site) = (&tab, &site);
        async move {
            tab.open(&address(site, &format!("/models/{model}"))).await;
            choose(tab, &hazy()).await;
            tab.click("form.run button.primary").await;
        }
    };

    controls.let_model("haze-removal", Script::stay_queued()).await.expect("a script");
    start("haze-removal").await;
    tab.click("form[action$='/cancel'] button").await;
    tab.shows("The task was canceled").await;
    tab.shows("not billed").await;
    is_accessible(&tab, "canceled").await;

    controls.clear_journal();
    controls.add_fault(Fault::lose_response().on(operations::CREATE_TASK).once()).expect("a fault");
    start("low-light-enhancement").await;
    tab.until("document.querySelector('.result')").await;
    tab.shows("Success").await;
    assert_eq!(controls.seen(operations::CREATE_TASK), 2);

    let lost = controls.add_fault(Fault::lose_response().on(operations::CREATE_TASK)).expect("a fault");
    start("low-light-enhancement").await;
    tab.shows("The response was lost").await;
    tab.shows("What to try").await;
    is_accessible(&tab, "lost").await;
    assert!(controls.clear_fault(lost));

    let wrong = Client::new(site.service.base_url(), "isk_wrong_wrong").expect("a client");
    let refused = Console::start(wrong, ANYWHERE, PollInterval::Adaptive).await.expect("a console");
    tab.open(refused.url()).await;
    tab.shows("The service refuses the API key").await;
    is_accessible(&tab, "refused").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_service_that_was_gone_is_there_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = Config::folder(folder.path());
    (config.api, config.storage) = (ANYWHERE, ANYWHERE);
    let site = Site::start_with(config.clone()).await;
    let (_browser, tab) = at_start(&site).await;
    let port = |url: &str| url.split(':').nth(2).and_then(|rest| rest.split('/').next()?.parse().ok());
    config.api.set_port(port(site.service.base_url()).expect("a port"));
    let Site { service, console, .. } = site;
    service.shutdown().await;
    let tasks = format!("{}/runs", console.url().split("/?").next().expect("an address"));
    tab.open(&tasks).await;
    tab.shows("The service does not respond").await;
    is_accessible(&tab, "gone").await;
    let service = Service::start(config).await.expect("the service starts again");
    tab.shows("Nothing has run yet").await;
    service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_model_runs_without_javascript_and_without_a_mouse() {
    let site = Site::start().await;
    let (_browser, tab) = at_start(&site).await;
    let visitor = site.open().await;
    let upload = visitor
        .post(
            "/files/samples",
            crate::support::FormBody::new().file("files", "a.png", &crate::support::picture()),
        )
        .await;
    assert_eq!(upload.status, 303);
    let files = site
        .client
        .folder("samples")
        .list(inferstore::FileQuery::default())
        .try_collect()
        .await
        .expect("files");
    let url = files[0].download_url.clone().expect("a URL");

    tab.scripts(false).await;
    tab.open(&address(&site, "/models/image-to-anime")).await;
    let mut is_typed = false;
    for _ in 0..40 {
        tab.key("Tab").await;
        let at = tab.eval("`${document.activeElement.tagName} ${document.activeElement.type ?? ''}`").await;
        match at.as_str().unwrap_or_default() {
            "SUMMARY " if !is_typed => tab.key("Enter").await,
            "INPUT url" => {
                for c in url.chars() {
                    tab.key(&c.to_string()).await;
                }
                is_typed = true;
            }
            "BUTTON submit" => break,
            _ => {}
        }
    }
    assert!(is_typed);
    tab.key("Enter").await;
    tab.until("location.pathname.startsWith('/tasks/')").await;
    tab.shows("Success").await;
    assert_eq!(tab.eval("getComputedStyle(document.querySelector('.compare input')).display").await, "none");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_hundred_runs_side_by_side_stay_live() {
    let site = Site::start().await;
    let controls = controls(&site);
    controls.let_model("color-extraction", Script::stay_queued()).await.expect("a script");
    let visitor = site.open().await;
    for _ in 0..100 {
        visitor
            .run(
                "color-extraction",
                crate::support::FormBody::new().file("in.input", "a.png", &crate::support::picture()),
            )
            .await;
    }
    let (_browser, tab) = at_start(&site).await;
    tab.open(&address(&site, "/runs")).await;
    tab.until("document.querySelectorAll('[data-run]').length === 100").await;
    tab.until("document.querySelectorAll('.badge.in_queue').length === 100").await;
    let order = "[...document.querySelectorAll('[data-run]')].every(({dataset}, place, all) => \
        !place || Number(dataset.run) === Number(all[place - 1].dataset.run) - 1)";
    assert_eq!(tab.eval(order).await, true);
    is_accessible(&tab, "hundred").await;
    controls.clear_script("color-extraction").await.expect("a script");
    tab.until("document.querySelectorAll('.badge.success').length === 100").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_live_page_keeps_the_focus_and_says_when_its_console_has_ended() {
    let site = Site::start().await;
    controls(&site).let_model("color-extraction", Script::stay_queued()).await.expect("a script");
    let form = crate::support::FormBody::new().file("in.input", "a.png", &crate::support::picture());
    let run = site.open().await.run("color-extraction", form).await;
    let (_browser, tab) = at_start(&site).await;
    tab.open(&address(&site, &run)).await;
    tab.until("document.querySelector('[data-live] [role=status]').textContent === 'In queue'").await;
    tab.shows("A canceled task is not billed").await;
    is_accessible(&tab, "queued").await;
    tab.eval("document.querySelector('.clock a').focus()").await;
    controls(&site).add_fault(Fault::status(500).on(operations::CANCEL_TASK)).expect("a fault");
    let id = tab.eval("document.activeElement.pathname").await.as_str().expect("a path").to_owned();
    site.open().await.post(&format!("{id}/cancel"), crate::support::FormBody::new()).await;
    tab.shows("Whether the task is canceled is unknown").await;
    assert_eq!(tab.eval("document.activeElement.pathname").await, id);

    drop(site.console);
    tab.shows("the console does not respond").await;
    tab.until("getComputedStyle(document.querySelector('.now'), '::before').animationName === 'none'").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_picture_with_too_many_pixels_is_named_when_it_is_chosen() {
    let site = Site::start().await;
    let sample = "https://storage.inferstore.example/samples/ball.jpg";
    let input = json!({"type": "file", "position": 0, "max_pixels": 20_000, "samples": [sample]});
    publish(&site, "small", "Takes little.", &input, &json!({"type": "string", "position": 0})).await;
    let (_browser, tab) = at_start(&site).await;
    tab.open(&address(&site, "/models/small")).await;
    choose(&tab, &hazy()).await;
    tab.shows("megapixels; this model takes at most 0.02.").await;
    tab.click("form.run button.primary").await;
    assert_eq!(tab.eval("location.pathname").await, "/models/small");
    assert_eq!(tab.eval("document.activeElement.id").await, "in.text");
    assert_eq!(controls(&site).seen(operations::CREATE_PRESIGNED_UPLOAD), 0);

    tab.eval("document.querySelector('details').open = true").await;
    tab.click(".example").await;
    tab.until("document.querySelector('[name=\"url.text\"]').value.endsWith('/samples/ball.jpg')").await;
    tab.until("!document.querySelector('.preview img')").await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelector('.latest').children.length").await;

    tab.open(&address(&site, "/models/small")).await;
    choose(&tab, &hazy()).await;
    tab.until("document.querySelector('.drop .error button')").await;
    tab.click(".drop .error button").await;
    tab.until("!document.querySelector('.drop .error')").await;
    tab.until(
        "(({ naturalWidth: width, naturalHeight: height }) => width * height > 15000 && width * height <= 20000)\
         (document.querySelector('.preview img'))",
    )
    .await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelector('.latest').children.length").await;
    assert_eq!(controls(&site).seen(operations::CREATE_PRESIGNED_UPLOAD), 1);
}
