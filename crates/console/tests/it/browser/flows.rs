//! Nine flows of a first user: a photo of a telephone, a cut-out, a replacement, a failed task, a restart, many
//! pictures, two tries, a picture of last week, and the keyboard alone.

use std::collections::BTreeSet;
use std::time::Duration;

use inferstore_console::LOCAL_POLL;

use super::*;

fn upright_photo() -> Vec<u8> {
    let exif = b"\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let mut photo = photo();
    photo.splice(2..2, exif.iter().copied());
    photo
}

fn disc() -> Vec<u8> {
    let is_inside = |x: u32, y: u32| x.abs_diff(160).pow(2) + y.abs_diff(100).pow(2) < 60_u32.pow(2);
    let color = |x, y| if is_inside(x, y) { Rgb([220, 40, 40]) } else { Rgb([40, 80, 200]) };
    png(RgbImage::from_fn(320, 200, color))
}

async fn colors_at(tab: &Tab, share: u8) -> [[u8; 3]; 2] {
    tab.eval(&format!(
        "(slider => {{ slider.value = {share}; slider.dispatchEvent(new Event('input')) }})(document.querySelector('.compare input'))"
    ))
    .await;
    let (x, y) = tab.middle(".stage").await;
    let width = tab.eval("document.querySelector('.stage img').getBoundingClientRect().width").await;
    let left = x - 0.4 * width.as_f64().expect("a width");
    let shown = tab.pixels().await;
    [left, x].map(|x| shown.get_pixel(x as u32, y as u32).0)
}

fn is_red([red, green, blue]: [u8; 3]) -> bool {
    red > 150 && green < 100 && blue < 100
}

fn is_blue([red, _, blue]: [u8; 3]) -> bool {
    blue > 150 && red < 100
}

/// Presses Tab until the element has the focus. Every stop is visible.
async fn tab_to(tab: &Tab, selector: &str) {
    let state = format!(
        "(one => {{ const seen = one.matches('.options input') ? one.nextElementSibling : one; \
        return [one.matches({}), one === document.body || getComputedStyle(seen).outlineStyle !== 'none', one.outerHTML] }})\
        (document.activeElement)",
        json!(selector)
    );
    for _ in 0..150 {
        tab.key("Tab").await;
        let found = tab.eval(&state).await;
        assert_eq!(found[1], true, "no outline: {found}");
        if found[0] == true {
            return;
        }
    }
    panic!("the key does not lead to {selector}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_novice_runs_a_photo_of_a_telephone() {
    let site = Site::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let photo = file(&folder, "IMG_2041.jpg", &upright_photo());
    let (browser, tab) = at_start(&site).await;
    tab.telephone().await;
    tab.tap("input[type=search]").await;
    tab.text("remove fog from my photo").await;
    tab.key("Enter").await;
    tab.until("location.search.includes('fog') && document.querySelectorAll('.cards > li').length === 1")
        .await;
    fits(&tab, "search").await;
    tab.tap("a[href='/models/haze-removal']").await;
    tab.choose("input[type=file]", &photo).await;
    tab.until("document.querySelector('.preview img').naturalHeight === 4000").await;
    fits(&tab, "form").await;
    tab.tap("form.run button.primary").await;
    tab.until("document.querySelector('.latest .slides')").await;
    let sides = "[...document.querySelectorAll('.stage img')].map((image) => [image.naturalWidth, image.naturalHeight])";
    assert_eq!(tab.eval(sides).await, json!([[3000, 4000], [3000, 4000]]), "both are upright");
    tab.until("(({ top, bottom }) => top < innerHeight && bottom > 0)(document.querySelector('.stage').getBoundingClientRect())").await;
    fits(&tab, "result").await;
    is_accessible(&tab, "telephone").await;
    let name = "new URL(document.querySelector('.tools .save').href).searchParams.get('download')";
    assert_eq!(tab.eval(name).await, "IMG_2041-haze-removal.jpg");
    assert_eq!(controls(&site).seen(operations::CREATE_TASK), 1);
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_cut_out_is_shown_without_the_input_behind_it() {
    let site = Site::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (browser, tab) = at_model(&site, "background-removal").await;
    tab.drop(".drop", &file(&folder, "disc.png", &disc())).await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelector('.slides')").await;
    let [ground, subject] = colors_at(&tab, 100).await;
    assert!(is_blue(ground) && is_red(subject), "the input: {ground:?} {subject:?}");
    let told = tab.eval("document.querySelector('.compare input').getAttribute('aria-valuetext')").await;
    assert_eq!(told, "100 % input, 0 % output");
    let [ground, subject] = colors_at(&tab, 0).await;
    assert!(is_red(subject), "{subject:?}");
    assert!(ground.iter().all(|part| *part > 200), "the checkerboard, and no input: {ground:?}");
    is_accessible(&tab, "cut-out").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_replacement_tells_its_two_pictures_apart() {
    let site = Site::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let plain = file(&folder, "meadow.png", &png(RgbImage::from_pixel(320, 200, Rgb([60, 180, 60]))));
    let (browser, tab) = at_model(&site, "background-replacement").await;
    let choose_both = async |original: &Path, background: &Path| {
        let boxes = "[...document.querySelectorAll('.field')].map((field) => [field.querySelector('label').textContent, field.querySelector('input').id])";
        for pair in tab.eval(boxes).await.as_array().expect("fields") {
            let chosen = if pair[0] == "Original image" { original } else { background };
            tab.choose(&format!("[id='{}']", pair[1].as_str().expect("an id")), chosen).await;
        }
    };
    choose_both(&file(&folder, "disc.png", &disc()), &plain).await;
    tab.until("document.querySelectorAll('.preview img').length === 2").await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelector('.slides')").await;
    let [ground, subject] = colors_at(&tab, 100).await;
    assert!(is_blue(ground) && is_red(subject), "the original: {ground:?} {subject:?}");
    let [[red, green, blue], subject] = colors_at(&tab, 0).await;
    assert!(
        green > 130 && red < 100 && blue < 100 && is_red(subject),
        "{:?} {subject:?}",
        [red, green, blue]
    );
    is_accessible(&tab, "replacement").await;
    // The wrong way round, the message has the words of the form.
    choose_both(&plain, &folder.path().join("disc.png")).await;
    tab.click("form.run button.primary").await;
    tab.shows("The model failed").await;
    tab.shows("The input “Original image” cannot be used").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_failed_task_says_why_and_its_form_runs_again() {
    let site = Site::start().await;
    let (browser, tab) = at_model(&site, "haze-removal").await;
    let failure = Script::fail("the picture is upside down").once();
    controls(&site).let_model("haze-removal", failure).await.expect("a script");
    choose(&tab, &hazy()).await;
    tab.click("form.run button.primary").await;
    tab.shows("The model failed").await;
    tab.shows("he picture is upside down").await;
    tab.shows("It is not billed").await;
    tab.until("document.title.startsWith('Failed · Haze removal')").await;
    looks_right(&tab, "failed").await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelector('.latest .slides')").await;
    assert_eq!(controls(&site).seen(operations::CREATE_TASK), 2);
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_restart_brings_the_page_back_with_the_runs_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = Config::folder(folder.path());
    (config.api, config.storage) = (ANYWHERE, ANYWHERE);
    let Site { service, console, client, .. } = Site::start_with(config.clone()).await;
    drop(console);
    let port =
        |url: &str| url.split(['/', '?']).nth(2).and_then(|address| address.rsplit(':').next()?.parse().ok());
    config.api.set_port(port(service.base_url()).expect("a port"));
    config.storage.set_port(port(service.storage_url()).expect("a port"));
    let admission = folder.path().join("console");
    let start = async |service: &Service| {
        let console =
            Console::start_beside(service.server(), client.clone(), ANYWHERE, LOCAL_POLL, Some(&admission));
        console.await.expect("a console")
    };
    let console = start(&service).await;
    let url = console.url().to_owned();
    let visitor = crate::support::Visitor::open(&console).await;
    let form = crate::support::FormBody::new().file("in.input", "a.png", &crate::support::picture());
    visitor.result(&visitor.run("color-extraction", form).await).await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&format!("{url}&page=runs")).await;
    let is_there = "document.querySelector('.runs img')?.naturalWidth > 0 && document.body.innerText.includes('Color extraction')";
    tab.until(is_there).await;

    drop(console);
    service.shutdown().await;
    tab.shows("the console does not respond").await;
    let service = Service::start(config).await.expect("the service starts again");
    let console = start(&service).await;
    assert_eq!(console.url(), url);
    tab.until("!document.querySelector('.lost')").await;
    tab.until(is_there).await;
    service.shutdown().await;
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
    tab.shows("Costs 0.01 USD for each file, if it succeeds").await;
    tab.click("form.run button.primary").await;
    tab.shows("5 of 5 runs have ended, 5 with success.").await;
    tab.until("document.querySelector('.batch').getBoundingClientRect().top < innerHeight").await;
    assert_eq!(tab.eval("document.querySelectorAll('.batch li img').length").await, 5);
    assert_eq!(controls(&site).seen(operations::CREATE_TASK), 5);
    looks_right(&tab, "batch").await;

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

    controls(&site).let_model("haze-removal", Script::fail("it is too dark")).await.expect("a script");
    tab.eval(&pictures(2)).await;
    tab.click("form.run button.primary").await;
    tab.shows("2 of 2 runs have ended, 0 with success.").await;
    tab.shows("it is too dark").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn two_tries_are_compared_on_one_page() {
    let site = Site::start().await;
    let (browser, tab) = at_model(&site, "color-harmonization").await;
    choose(&tab, &hazy()).await;
    tab.click("form.run button.primary").await;
    tab.until("document.querySelector('.latest .slides')").await;
    let task = "document.querySelector('.latest a.task').pathname";
    let output = "document.querySelector('.stage figure:last-child img').src";
    let first = tab.eval(&format!("[{task}, {output}]")).await;
    tab.click("input[type=radio][value=t_shape] + span").await;
    tab.click("form.run button.primary").await;
    tab.until(&format!("document.querySelector('.latest .slides') && {task} !== {}", first[0])).await;
    assert_eq!(tab.eval("document.querySelector('.stage figcaption').textContent").await, "Input");
    tab.click(".earlier button").await;
    tab.until("document.querySelector('.stage figcaption').textContent === 'Try 1'").await;
    assert_eq!(tab.eval("document.querySelector('.stage img').src").await, first[1]);
    assert_ne!(tab.eval(output).await, first[1]);
    looks_right(&tab, "tries").await;
    tab.click(".earlier button").await;
    tab.until("document.querySelector('.stage figcaption').textContent === 'Input'").await;
    let names = "[...document.querySelectorAll('.result .save')].map(({ href }) => new URL(href).searchParams.get('download'))";
    let names: BTreeSet<String> = serde_json::from_value(tab.eval(names).await).expect("names");
    assert_eq!(names.len(), 2, "{names:?}");
    tab.click(".earlier a").await;
    tab.until(&format!("location.pathname === {} && document.querySelector('.result')", first[0])).await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn a_picture_of_last_week_is_found() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let run = async |model: &str, input: &str, name: &str| {
        let form = crate::support::FormBody::new().file(input, name, &crate::support::picture());
        visitor.result(&visitor.run(model, form).await).await;
    };
    run("haze-removal", "in.input_image", "holiday.png").await;
    let day = controls(&site).time()[..10].to_owned();
    controls(&site).advance_clock(Duration::from_hours(7 * 24)).await.expect("the clock");
    for number in 0..30 {
        run("color-extraction", "in.input", &format!("{number}.png")).await;
    }
    let (browser, tab) = at_start(&site).await;
    tab.click("nav a[href='/runs']").await;
    tab.shows("29.png").await;
    assert_ne!(tab.eval("document.body.innerText.includes('holiday.png')").await, true);
    run("color-extraction", "in.input", "now.png").await;
    tab.shows("now.png").await;
    tab.until("document.querySelectorAll('.runs .badge.success').length === 26").await;
    let first =
        "[...document.querySelectorAll('.runs .what .muted')].slice(0, 3).map((one) => one.textContent)";
    assert_eq!(tab.eval(first).await, json!(["now.png", "29.png", "28.png"]));
    // The first digit of a year that is typed makes a date already: the list waits for Filter.
    tab.eval(&format!(
        "(field => {{ for (const day of ['0002-01-01', '{day}']) {{ field.value = day; \
         field.dispatchEvent(new Event('change', {{bubbles: true}})) }} }})(document.querySelector('[type=date]'))"
    ))
    .await;
    tab.click("form.bar button").await;
    tab.shows("holiday.png").await;
    tab.until("document.querySelectorAll('.runs > li').length === 1 && document.querySelector('.runs img').naturalWidth > 0").await;
    is_accessible(&tab, "last-week").await;
    tab.click(".runs a").await;
    tab.until("document.querySelector('.result .slides')").await;
    tab.click("a.button[href*='?from=']").await;
    tab.until("document.querySelector('.preview img')?.naturalWidth > 0").await;
    tab.click("nav a[href='/files']").await;
    tab.click("input[type=search]").await;
    tab.text("holi").await;
    tab.key("Enter").await;
    tab.until("document.querySelectorAll('.files > li').length === 1 && document.querySelector('.files img').naturalWidth > 0").await;
    assert_eq!(tab.eval("document.querySelector('.files h2').textContent").await, "holiday.png");
    tab.click(".files input[type=checkbox]").await;
    tab.click(".files + details summary").await;
    tab.shows("Delete holiday.png? Nothing can bring back a deleted file.").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium and axe-core; .ci/run has them"]
async fn the_keyboard_alone_runs_a_model_and_compares_its_pictures() {
    let site = Site::start().await;
    let (browser, tab) = at_start(&site).await;
    tab_to(&tab, ".skip").await;
    tab_to(&tab, "input[type=search]").await;
    tab.text("fog").await;
    tab.key("Enter").await;
    tab.until("location.search.includes('fog') && document.querySelector('.cards')").await;
    tab_to(&tab, "a[href='/models/haze-removal']").await;
    tab.key("Enter").await;
    tab.until("document.querySelector('form.run')").await;
    tab_to(&tab, ".drop summary").await;
    tab.key("Enter").await;
    tab_to(&tab, ".example").await;
    tab.key("Enter").await;
    tab_to(&tab, "form.run .primary").await;
    tab.key("Enter").await;
    tab.until("document.querySelector('.latest .slides')").await;
    tab.until("document.querySelector('#notice').textContent === 'Success'").await;
    assert_eq!(tab.eval("document.activeElement.matches('form.run .primary')").await, true);
    tab_to(&tab, ".compare input").await;
    for _ in 0..10 {
        tab.key("ArrowLeft").await;
    }
    assert_eq!(
        tab.eval("document.activeElement.getAttribute('aria-valuetext')").await,
        "40 % input, 60 % output"
    );
    tab_to(&tab, ".tools .save").await;
    tab_to(&tab, ".zooming button:nth-child(2)").await;
    tab.key("Enter").await;
    tab.until("document.querySelector('.compare.zoomed')").await;
    tab_to(&tab, ".latest .copy").await;
    assert_eq!(browser.problems(), Vec::<String>::new());
}
