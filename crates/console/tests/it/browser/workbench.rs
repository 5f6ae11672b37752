//! Workbench: pictures, repeated runs, clocks, errors, files from anywhere.

use std::io::Cursor;

use image::{ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};
use inferstore_console::LOCAL_POLL;
use serde_json::json;

use super::*;
use crate::support::picture;

/// Opens a browser at the page of a model.
async fn at_model(site: &Site, model: &str) -> (Browser, Tab) {
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.scheme("light").await;
    tab.open(site.console.url()).await;
    tab.until("document.querySelector('.cards')").await;
    tab.open(&address(site, &format!("/models/{model}"))).await;
    (browser, tab)
}

/// Returns the color of the page at the center of an element.
async fn color_at(tab: &Tab, selector: &str) -> [u8; 3] {
    let (x, y) = tab.middle(selector).await;
    let shown = image::open(tab.picture("color").await).expect("a picture").into_rgb8();
    shown.get_pixel(x as u32, y as u32).0
}

fn png(image: impl Into<image::DynamicImage>) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.into().write_to(&mut bytes, ImageFormat::Png).expect("a picture can be written");
    bytes.into_inner()
}

/// Returns a script that pastes files, an array of JavaScript.
fn paste(files: &str) -> String {
    format!(
        "(() => {{ const data = new DataTransfer(); {files}.forEach((file) => data.items.add(file)); \
        document.body.dispatchEvent(new ClipboardEvent('paste', {{clipboardData: data, bubbles: true}})); }})()"
    )
}

/// Writes a file to drop.
fn file(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("it is written");
    path
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium; .ci/run has it"]
async fn a_cut_out_is_shown_without_the_input_behind_it() {
    let site = Site::start().await;
    let clear = png(RgbaImage::from_pixel(320, 200, Rgba([0, 0, 0, 0])));
    let stored = site.client.folder("samples").upload(inferstore::File::bytes("cut.png", clear)).await;
    let output = json!({"output": stored.expect("an upload").download_url});
    controls(&site).let_model("background-removal", Script::succeed(output)).await.expect("a script");
    let (browser, tab) = at_model(&site, "background-removal").await;
    let folder = tempfile::tempdir().expect("a folder");
    let red = png(RgbImage::from_pixel(320, 200, Rgb([255, 0, 0])));
    tab.drop(".drop", &file(&folder, "red.png", &red)).await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelector('.slides')").await;
    let set = |value: u8| {
        format!(
            "(slider => {{ slider.value = {value}; slider.dispatchEvent(new Event('input')) }})(document.querySelector('.compare input'))"
        )
    };
    tab.eval(&set(100)).await;
    assert_eq!(color_at(&tab, ".stage").await, [255, 0, 0]);
    let told = tab.eval("document.querySelector('.compare input').getAttribute('aria-valuetext')").await;
    assert_eq!(told, "100 % input, 0 % output");
    tab.eval(&set(0)).await;
    let [red, green, blue] = color_at(&tab, ".stage").await;
    assert!(green > 200 && blue > 200, "the checkerboard, and no input: {red} {green} {blue}");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium; .ci/run has it"]
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
    tab.picture("fullscreen").await;
    tab.eval(full).await;
    tab.until("!document.fullscreenElement").await;

    // A second run is beside the first one, and can be compared with it.
    let first = tab.eval("document.querySelector('.latest a.task').pathname").await;
    tab.click("form.run button.primary").await;
    let is_next = format!("document.querySelector('.latest a.task').pathname !== {first}");
    tab.until(&format!("document.querySelector('.latest .slides') && {is_next}")).await;
    tab.eval("document.querySelector('.earlier button').click()").await;
    tab.until("document.querySelector('.stage figcaption').textContent === 'Try 1'").await;
    tab.picture("tries").await;

    // A reload keeps the inputs.
    tab.eval("location.reload()").await;
    tab.until(
        "document.querySelector('.preview img')?.naturalWidth > 0 && !document.querySelector('.slides')",
    )
    .await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelector('.slides')").await;

    tab.click(".tools a[href^='/?use=']").await;
    tab.shows("Choose the model that gets this file").await;
    tab.click("a[href^='/models/super-resolution?']").await;
    tab.until("document.querySelector('.preview img')?.naturalWidth > 0").await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelector('.latest .slides')").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium; .ci/run has it"]
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
    // No event comes meanwhile.
    let clock = "parseFloat(document.querySelector('[data-elapsed]').textContent)";
    let before = tab.eval(clock).await.as_f64().expect("seconds");
    tab.until(&format!("{clock} > {before} + 0.5")).await;
    tab.shows(": in progress").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium; .ci/run has it"]
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
#[ignore = "needs Chromium; .ci/run has it"]
async fn files_are_taken_from_anywhere_on_the_page() {
    let site = Site::start().await;
    let (browser, tab) = at_model(&site, "haze-removal").await;
    tab.drop("h1", &hazy()).await;
    tab.until("document.querySelector('.preview img')?.naturalWidth > 0").await;
    tab.open(&address(&site, "/models/haze-removal")).await;
    // An input that the service would reject is not sent.
    for (file, reason) in [
        ("[new File(['a'], 'a.pdf', {type: 'application/pdf'})]", "a.pdf is no file of this type: image/"),
        (
            "[new File([new Uint8Array(101 * 2 ** 20)], 'a.png', {type: 'image/png'})]",
            "a.png has more than 100 MiB",
        ),
    ] {
        tab.eval(&paste(file)).await;
        tab.shows(reason).await;
        assert_eq!(tab.eval("document.querySelector('input[type=file]').files.length").await, 0);
    }
    let two = "[new File(['a'], 'a\\u202egpj.png', {type: 'image/png'}), new File(['b'], 'b.png', {type: 'image/png'})]";
    tab.open(&address(&site, "/models/image-blending")).await;
    tab.eval(&paste(two)).await;
    tab.shows("This input takes one file: only a\u{fffd}gpj.png is used").await;
    assert_eq!(tab.eval("document.querySelector('.chosen').textContent").await, "a\u{fffd}gpj.png");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn many_pictures_are_many_runs_and_one_archive() {
    let site = Site::start().await;
    let (browser, tab) = at_model(&site, "haze-removal").await;
    let folder = tempfile::tempdir().expect("a folder");
    let pictures = |count: u8| {
        let data = (0..count).map(|place| {
            let shade =
                png(RgbImage::from_fn(64, 48, |x, y| Rgb([(x * 4) as u8, (y * 5) as u8, place * 40])));
            format!("new File([new Uint8Array({shade:?})], 'a/p\u{e9}.png', {{type: 'image/png'}})")
        });
        paste(&format!("[{}]", data.collect::<Vec<_>>().join(", ")))
    };
    tab.eval(&pictures(5)).await;
    tab.shows("Run 5 times").await;
    tab.click("form.run button.primary").await;
    tab.shows("5 of 5 runs have ended, 5 with success.").await;
    assert_eq!(tab.eval("document.querySelectorAll('.batch li img').length").await, 5);
    assert_eq!(controls(&site).seen(operations::CREATE_TASK), 5);
    looks_right(&tab, "batch").await;

    // The archive as the browser would save it.
    let saved = "(async () => { const real = URL.createObjectURL; \
        const blob = await new Promise((done) => { URL.createObjectURL = (blob) => (done(blob), real(blob)); \
        [...document.querySelectorAll('.latest button')].find((one) => one.textContent.includes('ZIP')).click() }); \
        URL.createObjectURL = real; return [...new Uint8Array(await blob.arrayBuffer())] })()";
    let bytes: Vec<u8> = serde_json::from_value(tab.eval(saved).await).expect("the bytes of the archive");
    let archive = file(&folder, "outputs.zip", &bytes);
    let listed = tokio::process::Command::new("python3")
        .args([
            "-c",
            "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); print(z.testzip(), *z.namelist())",
        ])
        .arg(&archive)
        .output()
        .await
        .expect("Python runs");
    let names = (1..=5).map(|place| format!(" {place}-p\u{e9}-haze-removal.png")).collect::<String>();
    assert_eq!(String::from_utf8_lossy(&listed.stdout).trim_end(), format!("None{names}"), "{listed:?}");

    // Rejected pictures are beside the accepted ones.
    controls(&site).let_model("haze-removal", Script::fail("it is too dark")).await.expect("a script");
    tab.eval(&pictures(2)).await;
    tab.click("form.run button.primary").await;
    tab.shows("2 of 2 runs have ended, 0 with success.").await;
    tab.shows("it is too dark").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium; .ci/run has it"]
async fn a_page_comes_back_after_a_restart_of_its_console() {
    let site = Site::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("console");
    let start = || {
        Console::start_beside(site.service.server(), site.client.clone(), ANYWHERE, LOCAL_POLL, Some(&file))
    };
    let console = start().await.expect("a console");
    let url = console.url().to_owned();
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&format!("{url}&page=runs")).await;
    tab.shows("Nothing has run yet").await;
    drop(console);
    tab.shows("the console does not respond").await;
    let port = url.split(['/', '?']).nth(2).expect("an address");
    while tokio::net::TcpStream::connect(port).await.is_ok() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let form = crate::support::FormBody::new().file("in.input", "a.png", &picture());
    let visitor = site.open().await;
    let run = visitor.run("color-extraction", form).await;
    visitor.result(&run).await;
    let console = start().await.expect("a console");
    assert_eq!(console.url(), url);
    tab.shows("Color extraction").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_browser_without_the_token_gets_a_field_for_it() {
    let site = Site::start().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.scheme("light").await;
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
#[ignore = "needs Chromium; .ci/run has it"]
async fn a_photo_of_12_megapixels_takes_a_second_and_a_half_beside_its_model() {
    let site = Site::start().await;
    let wave = |x: u32, y: u32| Rgb([(x / 16) as u8, (y / 12) as u8, (x.wrapping_mul(y) % 31) as u8]);
    let mut bytes = Cursor::new(Vec::new());
    RgbImage::from_fn(4_000, 3_000, wave)
        .write_to(&mut bytes, ImageFormat::Jpeg)
        .expect("a picture can be written");
    let photo = bytes.into_inner();
    let stored =
        site.client.folder("samples").upload(inferstore::File::bytes("done.jpg", photo.clone())).await;
    let output = json!({"output_image": stored.expect("an upload").download_url});
    controls(&site).let_model("haze-removal", Script::succeed(output)).await.expect("a script");
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(&folder, "photo.jpg", &photo);
    let (_browser, tab) = at_model(&site, "haze-removal").await;
    let mut times = Vec::new();
    // On a busy machine one of the times may be late.
    while times.len() < 5 && times.iter().all(|time| *time > 1.5) {
        tab.open(&address(&site, "/models/haze-removal")).await;
        let start = std::time::Instant::now();
        tab.drop(".drop", &path).await;
        tab.click("form.run button.primary").await;
        tab.until("document.querySelector('.slides')").await;
        times.push(start.elapsed().as_secs_f64());
    }
    assert!(times.iter().any(|time| *time <= 1.5), "{times:?} s");
}
