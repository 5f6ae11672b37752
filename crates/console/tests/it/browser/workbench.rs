//! Workbench: pictures, repeated runs, clocks, errors, files from anywhere.

use inferstore_console::LOCAL_POLL;
use inferstore_wire::until;
use tokio::net::TcpStream;

use super::*;
use crate::support::picture;

async fn paste_two_pictures(tab: &Tab) {
    let bytes = format!("new Uint8Array({:?})", picture());
    tab.eval(&paste(&format!(
        "['a', 'b'].map((name) => new File([{bytes}], `${{name}}.png`, {{type: 'image/png'}}))"
    )))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_picture_is_zoomed_saved_under_a_name_of_its_own_and_used_again() {
    let site = Site::start().await;
    let (browser, tab) = at_model(&site, "haze-removal").await;
    choose(&tab, &hazy()).await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelector('.slides')").await;
    assert_eq!(
        tab.eval("document.querySelectorAll('.latest img').length").await,
        3,
        "the result is there once"
    );
    let saved =
        tab.eval("new URL(document.querySelector('.tools .save').href).searchParams.get('download')").await;
    assert_eq!(saved, "hazy-haze-removal.png");
    let zoom = "Number(document.querySelector('.stage').style.getPropertyValue('--zoom'))";
    tab.wheel(".stage", -300.0).await;
    assert_ne!(tab.eval(&format!("{zoom} > 1")).await, true, "the wheel scrolls the page at first");
    tab.eval("document.querySelector('.compare input').focus()").await;
    tab.wheel(".stage", -300.0).await;
    tab.until(&format!("{zoom} > 2")).await;
    let left = "parseFloat(document.querySelector('.stage').style.getPropertyValue('--x'))";
    let before = tab.eval(left).await;
    tab.key("ArrowRight").await;
    tab.until(&format!("{left} === {before} - 60")).await;
    assert_eq!(tab.eval("document.querySelector('.compare input').value").await, "50");
    tab.eval(
        "[...document.querySelectorAll('.tools button')].find(one => one.textContent === '1:1').click()",
    )
    .await;
    let shown = "document.querySelector('.stage figure:last-child img')";
    tab.until(&format!(
        "Math.abs({shown}.getBoundingClientRect().width - {shown}.naturalWidth) < 2 || {zoom} === 1"
    ))
    .await;

    let full = "[...document.querySelectorAll('.tools button')].find(one => one.textContent === 'Full screen').click()";
    tab.eval(full).await;
    tab.until("document.fullscreenElement?.matches('.compare')").await;
    let fits = format!("{shown}.getBoundingClientRect().bottom <= innerHeight");
    tab.until(&fits).await;
    is_accessible(&tab, "fullscreen").await;
    tab.eval(full).await;
    tab.until("!document.fullscreenElement").await;

    let task = "document.querySelector('.latest a.task')?.pathname";
    let first = tab.eval(task).await;
    tab.reload().await;
    tab.until("document.querySelector('.preview img')?.naturalWidth > 0 && document.querySelector('.latest .slides')").await;
    assert_eq!(tab.eval(task).await, first);
    tab.click("form.run button.primary").await;
    tab.until(&format!("document.querySelector('.latest .slides') && {task} !== {first}")).await;

    tab.click(".tools a[href^='/?use=']").await;
    tab.shows("Choose the model that gets this file").await;
    tab.click("a[href^='/models/super-resolution?']").await;
    tab.until("document.querySelector('.preview img')?.naturalWidth > 0").await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelector('.latest .slides')").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_run_has_a_clock_a_title_and_an_expectation() {
    let site = Site::start().await;
    let (browser, tab) = at_model(&site, "color-extraction").await;
    choose(&tab, &hazy()).await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelector('.swatches')").await;
    assert!(
        tab.eval("document.title").await.as_str().is_some_and(|title| title.starts_with("Success · Color"))
    );
    controls(&site).let_model("color-extraction", Script::stay_queued()).await.expect("a script");
    tab.click("form.run button.primary").await;
    tab.until("document.title.startsWith('In queue · Color extraction')").await;
    tab.shows("with files of this size").await;
    let clock = "parseFloat(document.querySelector('[data-elapsed]').textContent)";
    let before = tab.eval(clock).await.as_f64().expect("seconds");
    tab.until(&format!("{clock} > {before} + 0.5")).await;
    tab.shows(": in progress").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_page_that_is_loaded_again_shows_its_run() {
    let site = Site::start().await;
    controls(&site).let_model("color-extraction", Script::stay_queued()).await.expect("a script");
    let (browser, tab) = at_model(&site, "color-extraction").await;
    choose(&tab, &hazy()).await;
    tab.click("form.run button.primary").await;
    tab.until("location.search.startsWith('?from=')").await;
    tab.reload().await;
    tab.until("document.querySelector('.latest .steps') && document.querySelector('.preview img')").await;
    controls(&site).clear_script("color-extraction").await.expect("a script");
    tab.until("document.querySelector('.latest .swatches')").await;
    tab.reload().await;
    tab.until("document.querySelector('.latest .swatches')").await;
    assert_eq!(controls(&site).seen(operations::CREATE_TASK), 1);
    tab.open(&address(&site, "/account")).await;
    tab.drop("h1", &hazy()).await;
    tab.shows("choose a model first").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn several_runs_go_on_after_a_restart_of_the_console() {
    let Site { service, console, client, .. } = Site::start().await;
    drop(console);
    let folder = tempfile::tempdir().expect("a folder");
    let admission = folder.path().join("console");
    let start = async || {
        let console =
            Console::start_beside(service.server(), client.clone(), ANYWHERE, LOCAL_POLL, Some(&admission));
        console.await.expect("a console")
    };
    let console = start().await;
    let controls = service.controls().expect("they are on");
    controls.let_model("color-extraction", Script::stay_queued()).await.expect("a script");
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(console.url()).await;
    tab.until("document.querySelector('.cards')").await;
    let origin = console.url().split("/?").next().expect("an address").to_owned();
    tab.open(&format!("{origin}/models/color-extraction")).await;
    paste_two_pictures(&tab).await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelectorAll(\".batch a[href^='/tasks/']\").length === 2").await;
    let former = console.url().to_owned();
    drop(console);
    let address = origin.trim_start_matches("http://").to_owned();
    until("the port is free", async || TcpStream::connect(&address).await.is_err()).await;
    let console = start().await;
    assert_eq!(console.url(), former);
    controls.clear_script("color-extraction").await.expect("a script");
    tab.shows("2 of 2 runs have ended, 2 with success.").await;
    assert_eq!(controls.seen(operations::CREATE_TASK), 2);
    service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn seven_runs_beside_one_form_leave_the_latest_in_charge() {
    let site = Site::start().await;
    let controls = controls(&site);
    controls.let_model("haze-removal", Script::stay_queued()).await.expect("a script");
    let (browser, tab) = at_model(&site, "haze-removal").await;
    choose(&tab, &hazy()).await;
    for earlier in 0..7 {
        tab.click("form.run button.primary").await;
        tab.until(&format!(
            "document.querySelectorAll('.earlier li').length === {earlier} && document.querySelector('.latest form button') \
             && !document.querySelector('form.run').dataset.state"
        ))
        .await;
    }
    let address = tab.eval("location.href").await;
    // More streams than connections would hold this request up.
    tab.click(".latest form button").await;
    tab.until("document.title.startsWith('Canceled')").await;
    controls.clear_script("haze-removal").await.expect("a script");
    tab.until("document.querySelectorAll('.earlier img').length === 6").await;
    assert_eq!(tab.eval("location.href").await, address);
    tab.until("document.title.startsWith('Canceled')").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn the_later_of_a_file_and_a_url_counts() {
    let site = Site::start().await;
    let (browser, tab) = at_model(&site, "haze-removal").await;
    choose(&tab, &hazy()).await;
    tab.eval("document.querySelector('.drop details').open = true").await;
    tab.click("input[type=url]").await;
    tab.text("https://files.example/b.png").await;
    tab.until("!document.querySelector('.preview img')").await;
    assert_eq!(tab.eval("document.querySelector('input[type=file]').files.length").await, 0);
    choose(&tab, &hazy()).await;
    assert_eq!(tab.eval("document.querySelector('input[type=url]').value").await, "");
    tab.click(".drop .danger").await;
    tab.until("!document.querySelector('.preview img') && document.activeElement.type === 'file'").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_lost_picture_is_sent_again_and_a_failed_one_stays_in_the_form() {
    let site = Site::start().await;
    let controls = controls(&site);
    let (browser, tab) = at_model(&site, "haze-removal").await;
    paste_two_pictures(&tab).await;
    tab.shows("Run 2 times").await;
    let lose = "(real => { let lost = 0; window.fetch = (address, options) => \
        options?.body?.get('form').endsWith('.1') && !lost++ ? Promise.reject(new TypeError()) : real(address, options) })(fetch)";
    tab.eval(lose).await;
    tab.click("form.run button.primary").await;
    tab.shows("2 of 2 runs have ended, 2 with success.").await;
    tab.shows("Run 2 times").await;
    assert_eq!(controls.seen(operations::CREATE_TASK), 2);

    controls.let_model("haze-removal", Script::fail("it is too dark").once()).await.expect("a script");
    tab.click("form.run button.primary").await;
    tab.shows("2 of 2 runs have ended, 1 with success.").await;
    tab.shows("The form has the files without a result now").await;
    assert_eq!(tab.eval("document.querySelector('input[type=file]').files.length").await, 1);
    assert_eq!(controls.seen(operations::CREATE_TASK), 4);
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_read_that_fails_offers_no_run_for_a_second_payment() {
    let site = Site::start().await;
    let (browser, tab) = at_model(&site, "haze-removal").await;
    paste_two_pictures(&tab).await;
    let lose = "(real => { let lost = 0; window.fetch = (address, options) => \
        String(address).includes('/runs/') && !lost++ ? Promise.reject(new TypeError()) : real(address, options) })(fetch)";
    tab.eval(lose).await;
    tab.click("form.run button.primary").await;
    tab.shows("2 of 2 runs have ended, 2 with success.").await;
    let gone = "(real => { window.fetch = (address, options) => \
        String(address).includes('/runs/') ? Promise.resolve(new Response('', {status: 404})) : real(address, options) })(fetch)";
    tab.eval(gone).await;
    tab.click("form.run button.primary").await;
    tab.shows("2 of 2 runs have ended, 0 with success.").await;
    tab.shows("Runs shows what became of it").await;
    assert_ne!(tab.eval("document.body.innerText.includes('The form has the files')").await, true);
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_second_run_that_fails_is_not_replaced_by_the_first() {
    let site = Site::start().await;
    let controls = controls(&site);
    controls.let_model("haze-removal", Script::stay_queued()).await.expect("a script");
    let (_browser, tab) = at_model(&site, "haze-removal").await;
    choose(&tab, &hazy()).await;
    tab.click("form.run button.primary").await;
    tab.until(
        "document.querySelector('.latest a.task') && !document.querySelector('form.run').dataset.state",
    )
    .await;
    controls.add_fault(Fault::status(500).on(operations::GET_MODEL_VERSIONING).once()).expect("a fault");
    tab.click("form.run button.primary").await;
    tab.shows("Nothing was started").await;
    controls.clear_script("haze-removal").await.expect("a script");
    tab.until("document.querySelector('.earlier img')?.naturalWidth > 0").await;
    tab.shows("Nothing was started").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_mistake_gets_the_focus_and_a_number_without_a_value_shows_none() {
    let site = Site::start().await;
    let number =
        json!({"type": "float", "required": true, "position": 0, "num_config": {"min": 0, "max": 1}});
    crate::support::publish(&site, "dial", "", &number, &number).await;
    let (browser, tab) = at_model(&site, "dial").await;
    assert_eq!(tab.eval("document.querySelector('input[type=range]').className").await, "unset");
    tab.click("form.run button.primary").await;
    tab.until("document.activeElement.getAttribute('aria-invalid') === 'true'").await;
    assert_eq!(tab.eval("document.activeElement.id").await, "in.text");
    assert_eq!(tab.eval("document.querySelector('.summary a').hash").await, "#in.text");
    tab.until("document.title.startsWith('Error · Dial')").await;
    for c in "0,5".chars() {
        tab.key(&c.to_string()).await;
    }
    tab.key("Tab").await;
    assert_eq!(tab.eval("document.querySelector('[name=\"in.text\"]').value").await, "0.5");
    is_accessible(&tab, "mistake").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_mistake_of_several_runs_is_said_once_before_any_begins() {
    let site = Site::start().await;
    let (browser, tab) = at_model(&site, "color-harmonization").await;
    paste_two_pictures(&tab).await;
    tab.shows("Run 2 times").await;
    tab.eval("document.querySelector('[name=\"in.angle\"]').value = '91'").await;
    tab.click("form.run button.primary").await;
    tab.until("document.activeElement.name === 'in.angle'").await;
    assert_eq!(controls(&site).seen(operations::CREATE_TASK), 0);
    tab.shows("Run 2 times").await;
    tab.eval("document.activeElement.value = '30'").await;
    tab.click("form.run button.primary").await;
    tab.shows("2 of 2 runs have ended, 2 with success.").await;
    assert_eq!(controls(&site).seen(operations::CREATE_TASK), 2);
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_cancel_stays_beside_the_form_and_an_end_is_announced_once() {
    let site = Site::start().await;
    controls(&site).let_model("haze-removal", Script::stay_queued()).await.expect("a script");
    let (browser, tab) = at_model(&site, "haze-removal").await;
    choose(&tab, &hazy()).await;
    let announced = "window.announced = []; new MutationObserver(() => document.querySelectorAll('[role=status], [role=alert]')\
        .forEach((one) => one.textContent !== one.last && announced.push(one.last = one.textContent)))\
        .observe(document.body, {subtree: true, childList: true, characterData: true}); true";
    tab.eval(announced).await;
    tab.click("form.run button.primary").await;
    tab.click(".latest form button").await;
    tab.shows("The task was canceled").await;
    tab.until("announced.includes('Canceled')").await;
    assert_eq!(tab.eval("location.pathname").await, "/models/haze-removal");
    assert_eq!(tab.eval("announced.filter((text) => text === 'Canceled').length").await, 1);
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn files_are_taken_from_anywhere_on_the_page() {
    let site = Site::start().await;
    let (browser, tab) = at_model(&site, "haze-removal").await;
    tab.drop("h1", &hazy()).await;
    tab.until("document.querySelector('.preview img')?.naturalWidth > 0").await;
    tab.open(&address(&site, "/models/haze-removal")).await;
    for (file, reason) in [
        (
            "[new File(['a'], 'a.pdf', {type: 'application/pdf'})]",
            "a.pdf is of the type application/pdf, not of image/jpeg",
        ),
        (
            "[new File([new Uint8Array(101 * 2 ** 20)], 'a.png', {type: 'image/png'})]",
            "a.png has more than 100 MiB",
        ),
    ] {
        tab.eval(&paste(file)).await;
        tab.shows(reason).await;
        assert_eq!(tab.eval("document.querySelector('input[type=file]').files.length").await, 0);
    }
    let mixed =
        "[new File(['a'], 'a.heic', {type: 'image/heic'}), new File(['b'], 'b.png', {type: 'image/png'})]";
    tab.eval(&paste(mixed)).await;
    tab.shows("a.heic is of the type image/heic").await;
    assert_eq!(tab.eval("document.querySelector('input[type=file]').files[0].name").await, "b.png");
    let two = "[new File(['a'], 'a\\u202egpj.png', {type: 'image/png'}), new File(['b'], 'b.png', {type: 'image/png'})]";
    tab.open(&address(&site, "/models/image-blending")).await;
    tab.eval(&paste(two)).await;
    tab.shows("This input takes one file: only a\u{fffd}gpj.png is used").await;
    tab.shows("a\u{fffd}gpj.png is not shown by this browser").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_browser_without_the_token_gets_a_field_for_it() {
    let site = Site::start().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.colors("light", "none").await;
    tab.open(&address(&site, "/runs")).await;
    tab.shows("This browser is not admitted").await;
    looks_right(&tab, "admission").await;
    tab.eval("document.querySelector('#address').focus()").await;
    for c in "wrong".chars() {
        tab.key(&c.to_string()).await;
    }
    tab.key("Enter").await;
    tab.shows("this is not the token of this console").await;
    tab.until("document.activeElement.getAttribute('aria-invalid') === 'true'").await;
    for c in site.console.url().chars() {
        tab.key(&c.to_string()).await;
    }
    tab.key("Enter").await;
    tab.until("location.pathname === '/runs'").await;
    tab.shows("Nothing has run yet").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium, curl and jq; .ci/run has them"]
async fn the_printed_curl_call_runs() {
    let site = Site::start().await;
    let (_browser, tab) = at_model(&site, "color-harmonization").await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(&folder, "my cat.png", &picture());
    tab.drop(".drop", &path).await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelector('.slides')").await;
    let call = "[...document.querySelectorAll('.call details')].find(one => one.querySelector('summary').textContent === 'curl')\
        .querySelector('code').textContent";
    let call = tab.eval(call).await;
    let ran = tokio::process::Command::new("bash")
        .args(["-euo", "pipefail", "-c", call.as_str().expect("a call")])
        .current_dir(&folder)
        .env("INFERSTORE_BASE_URL", site.service.base_url())
        .env("INFERSTORE_API_KEY", &site.key)
        .output()
        .await
        .expect("bash runs");
    assert!(ran.status.success(), "{call}: {ran:?}");
    let total = site.client.tasks().page(1, 0).await.expect("a page").total;
    assert_eq!(total, Some(2), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_photo_is_sent_once_and_its_result_fetched_once() {
    let site = Site::start().await;
    let photo = photo();
    let stored =
        site.client.folder("samples").upload(inferstore::File::bytes("done.jpg", photo.clone())).await;
    let output = json!({"output_image": stored.expect("an upload").download_url});
    controls(&site).let_model("haze-removal", Script::succeed(output)).await.expect("a script");
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(&folder, "photo.jpg", &photo);
    let (browser, tab) = at_model(&site, "haze-removal").await;
    let opened = browser.requests().len();
    tab.drop(".drop", &path).await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelector('.slides')").await;
    let requests = browser.requests().split_off(opened);
    let path = |url: &String| url.split(['/', '?']).nth(3).map(str::to_owned);
    let mut paths: Vec<_> =
        requests.iter().filter(|url| !url.starts_with("blob:")).filter_map(path).collect();
    paths.retain(|path| path != "assets");
    paths.sort();
    assert_eq!(paths, ["models", "runs", "runs", "runs", "tasks", "view", "view"], "{requests:?}");
}
