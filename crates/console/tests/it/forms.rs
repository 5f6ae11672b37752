//! Forms: generated from the declaration of a model, checked before anything is sent, and sent once.

use std::time::Duration;

use inferstore::types::TaskDetail;
use inferstore_api::operations;
use inferstore_service::{Fault, Operation, Script};
use reqwest::StatusCode;
use serde_json::json;

use crate::support::{FormBody, Seen, Site, TEMPORARY, picture, publish};

fn kept(page: &Seen, name: &str) -> String {
    let mark = format!("name=\"kept.{name}\" value=\"");
    let id = page.body.split(&mark).nth(1).and_then(|rest| rest.split('"').next());
    id.expect("the file is kept").to_owned()
}

#[tokio::test]
async fn a_form_has_a_control_for_every_input_and_the_price() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let page = visitor.get("/models/color-harmonization").await;
    page.says("type=\"file\" id=\"in.input_image\"")
        .says("accept=\"image/jpeg,image/png,image/webp,image/gif,image/bmp,image/tiff\"");
    page.says("type=\"radio\"").says("value=\"y_branch\"");
    page.says("type=\"range\" min=\"1\" max=\"90\"").says("value=\"1\"");
    page.says("Costs <strong>0.05 ").says("name=\"max_cost\" value=\"0.05\"");
    visitor.get("/models/low-light-enhancement").await.says("<strong>Free</strong>");
    assert_eq!(visitor.get("/models/no-such-model").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_form_says_what_each_input_means() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let page = visitor.get("/models/color-harmonization").await;
    page.says("By how many degrees the template is turned").says("One narrow sector");
    page.says("data-max-pixels=\"50000000\"").says("at most 50 megapixels");
    page.says("Hues").says("A picture of the hues before and after.");
    // The original comes before the new background, whatever their names.
    let page = visitor.get("/models/background-replacement").await;
    let place = |text: &str| page.body.find(text).expect(text);
    let order = [
        ">Original image<",
        "id=\"in.background_path\"",
        "The image whose background is replaced.",
        ">New background<",
        "id=\"in.input\"",
        "The image that becomes the new background.",
    ];
    assert!(order.map(place).is_sorted(), "{}", page.body);
    let example = page.body.split("data-url=\"").nth(1).and_then(|rest| rest.split('"').next());
    let example = example.expect("an example").to_owned();
    let picture = reqwest::get(&example).await.expect("a response");
    assert_eq!(
        (picture.status(), &picture.headers()["content-type"]),
        (StatusCode::OK, &"image/jpeg".parse().expect("a value"))
    );
    let run = visitor.run("haze-removal", FormBody::new().text("url.input_image", &example)).await;
    visitor.result(&run).await.says("inferstore run haze-removal");
}

#[tokio::test]
async fn a_picture_with_too_many_pixels_is_refused_before_it_is_uploaded() {
    let site = Site::start().await;
    let controls = site.service.controls().expect("controls");
    let visitor = site.open().await;
    // PNG header of 12000 x 9000 pixels.
    let mut photo = picture();
    photo.splice(16..24, [12_000_u32.to_be_bytes(), 9_000_u32.to_be_bytes()].concat());
    let page =
        visitor.post("/models/haze-removal", FormBody::new().file("in.input_image", "a.png", &photo)).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.says("This picture has 108 megapixels; this model takes at most 50. Make it smaller");
    assert_eq!(
        controls.seen(operations::CREATE_TASK) + controls.seen(operations::CREATE_PRESIGNED_UPLOAD),
        0
    );
}

#[tokio::test]
async fn what_does_not_fit_is_shown_beside_its_input_and_nothing_is_sent() {
    let site = Site::start().await;
    let controls = site.service.controls().expect("controls");
    let visitor = site.open().await;
    let form = FormBody::new()
        .file("in.input_image", "notes.txt", b"no picture")
        .text("in.template", "z_shape")
        .text("in.angle", "91");
    let page = visitor.post("/models/color-harmonization", form).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.says("nothing was sent: 3 inputs do")
        .says("got a file of type text/plain")
        .says("got &quot;z_shape&quot;");
    page.says("expected a whole number from 1 to 90, got &quot;91&quot;")
        .says("value=\"91\"")
        .says("notes.txt");
    assert_eq!(
        controls.seen(operations::CREATE_TASK) + controls.seen(operations::CREATE_PRESIGNED_UPLOAD),
        0
    );

    let form = FormBody::new()
        .file("in.input_image", "a.png", &picture())
        .text("in.template", "v_shape")
        .text("in.angle", "x");
    let page = visitor.post("/models/color-harmonization", form).await;
    let kept = kept(&page, "input_image");
    let preview = visitor.get(&format!("/uploads/{kept}")).await;
    assert_eq!((preview.status, preview.header("content-type")), (StatusCode::OK, "image/png"));
    let form =
        FormBody::new().text("kept.input_image", &kept).text("in.template", "v_shape").text("in.angle", "30");
    let run = visitor.run("color-harmonization", form).await;
    visitor
        .result(&run)
        .await
        .says("inferstore run color-harmonization")
        .says("input_image=@a.png")
        .says("Client::from_env");
}

async fn first_task(site: &Site) -> TaskDetail {
    for _ in 0..1_500 {
        if let Some(task) = site.client.tasks().page(1, 0).await.expect("a page").records.first() {
            return site.client.task(task.task_id.as_str()).get().await.expect("a task");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no task was created")
}

fn with_mistake(form: FormBody) -> FormBody {
    form.text("in.template", "v_shape").text("in.angle", "x")
}

#[tokio::test]
async fn the_latest_choice_of_a_file_is_the_one_that_runs() {
    let site = Site::start().await;
    let controls = site.service.controls().expect("controls");
    controls.let_model("color-harmonization", Script::stay_queued()).await.expect("a script");
    let visitor = site.open().await;
    let url = "https://files.example/b.png";
    let form = with_mistake(FormBody::new().file("in.input_image", "a.png", &picture()));
    let kept_a = kept(&visitor.post("/models/color-harmonization", form).await, "input_image");

    // A URL takes precedence over the kept file.
    let form = with_mistake(FormBody::new().text("kept.input_image", &kept_a).text("url.input_image", url));
    let page = visitor.post("/models/color-harmonization", form).await;
    assert!(!page.body.contains("kept."), "{}", page.body);
    let form = FormBody::new().text("kept.input_image", &kept_a).text("url.input_image", url);
    visitor.run("color-harmonization", form.text("in.template", "v_shape").text("in.angle", "30")).await;
    assert_eq!(first_task(&site).await.input_data.expect("inputs")["input_image"], url);

    // A new file takes precedence over both, and removes the URL.
    let form = FormBody::new().text("url.input_image", url).file("in.input_image", "c.png", &picture());
    let page = visitor.post("/models/color-harmonization", with_mistake(form)).await;
    kept(&page, "input_image");
    page.says("c.png");
    assert!(!page.body.contains(url), "{}", page.body);
}

#[tokio::test]
async fn a_file_and_a_url_together_are_refused_before_anything_is_sent() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let form = FormBody::new().file("in.input", "a.png", &picture());
    let form = form.text("url.input", "https://files.example/b.png");
    let page = visitor.post("/models/color-extraction", form).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.says("a file and a URL were given: Run uses the file, unless you remove it");
    kept(&page, "input");
    assert_eq!(site.service.controls().expect("controls").seen(operations::CREATE_TASK), 0);
}

#[tokio::test]
async fn a_picture_for_another_run_leaves_the_defaults_of_the_other_inputs() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let run = visitor
        .run(
            "color-harmonization",
            FormBody::new()
                .file("in.input_image", "a.png", &picture())
                .text("in.template", "x_cross")
                .text("in.angle", "44"),
        )
        .await;
    let result = visitor.result(&run).await;
    let id = result.body.split("?use=").nth(1).and_then(|rest| rest.split('"').next()).expect("a link");
    let page = visitor.get(&format!("/models/color-harmonization?use={id}")).await;
    page.says("<img src=\"/view/").says("id=\"in.angle\" name=\"in.angle\" value=\"1\"").says("checked");
}

#[tokio::test]
async fn a_script_gets_the_address_of_the_run_that_it_started() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let form = FormBody::new().text("script", "").file("in.input", "a.png", &picture());
    let page = visitor.post("/models/color-extraction", form).await;
    assert_eq!(page.status, StatusCode::CREATED);
    assert!(page.header("location").starts_with("/runs/"));
}

#[tokio::test]
async fn a_kept_file_is_removed_with_its_button() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let form = with_mistake(FormBody::new().file("in.input_image", "a.png", &picture()));
    let page = visitor.post("/models/color-harmonization", form).await;
    page.says("name=\"remove\" value=\"input_image\"");
    let form = FormBody::new().text("kept.input_image", &kept(&page, "input_image"));
    let page =
        visitor.post("/models/color-harmonization", with_mistake(form).text("remove", "input_image")).await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(!page.body.contains("kept.") && !page.body.contains("Nothing was sent"), "{}", page.body);
    page.says("value=\"x\"").says("value=\"v_shape\" checked");
}

#[tokio::test]
async fn a_mistyped_number_is_refused_and_stays_in_the_form() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let page = visitor.get("/models/color-harmonization").await;
    page.says("type=\"text\" inputmode=\"decimal\"");
    assert!(!page.body.contains("type=\"number\""), "{}", page.body);
    for typed in ["1-2", "0,5"] {
        let form = FormBody::new().file("in.input_image", "a.png", &picture()).text("in.template", "v_shape");
        let page = visitor.post("/models/color-harmonization", form.text("in.angle", typed)).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY, "{typed}");
        page.says(&format!("value=\"{typed}\""));
    }
}

#[tokio::test]
async fn a_text_keeps_its_lines_when_it_is_run_again() {
    let site = Site::start().await;
    let text = json!({"type": "string", "required": true, "position": 0});
    publish(&site, "echo", "", &text, &text).await;
    let visitor = site.open().await;
    visitor.run("echo", FormBody::new().text("in.text", "\r\none\r\ntwo")).await;
    let task = first_task(&site).await;
    assert_eq!(task.input_data.expect("inputs")["text"], "\none\ntwo");
    let id = task.task_id.as_str();
    let page = visitor.get(&format!("/models/echo?from={id}")).await;
    page.says("aria-describedby=\"in.text.help\">\n\none\ntwo</textarea>");
}

#[tokio::test]
async fn a_form_that_is_sent_twice_starts_one_run() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let form = || FormBody::new().text("form", "once").file("in.input", "a.png", &picture());
    let first = visitor.run("color-extraction", form()).await;
    let second = visitor.run("color-extraction", form()).await;
    assert_eq!(first, second);
    let other = visitor.run("color-extraction", form().text("form", "twice")).await;
    assert_ne!(first, other);
    // The file changed between two clicks, but not its name and size.
    let mut changed = picture();
    let end = changed.len() - 1;
    changed[end] ^= 1;
    let form = FormBody::new().text("form", "once").file("in.input", "a.png", &changed);
    assert_ne!(visitor.run("color-extraction", form).await, first);
}

#[tokio::test]
async fn a_file_that_fails_has_the_name_that_the_user_gave_it() {
    let site = Site::start().await;
    let visitor = site.open().await;
    for (name, bytes, reason) in
        [("empty.png", &b""[..], "it is empty"), ("notes.txt", b"text", "got a file of type text/plain")]
    {
        let page =
            visitor.post("/models/color-extraction", FormBody::new().file("in.input", name, bytes)).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY, "{name}");
        page.says(reason).says(name);
        assert!(!page.body.contains(TEMPORARY), "{}", page.body);
    }
    let controls = site.service.controls().expect("controls");
    for upload in [Operation::PUT_OBJECT, Operation::POST_OBJECT] {
        controls.add_fault(Fault::status(400).on(upload)).expect("a fault");
    }
    let run = visitor.run("color-extraction", FormBody::new().file("in.input", "a.png", &picture())).await;
    let page = visitor.result(&run).await;
    page.says("input: a.png: ");
    assert!(!page.body.contains(TEMPORARY), "{}", page.body);
}

#[tokio::test]
async fn a_quotation_mark_in_the_name_of_a_file_stays_one() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let form = FormBody::new().file("files", "my %22best%22 photo.png", &picture());
    assert_eq!(visitor.post("/files/samples", form).await.status, StatusCode::SEE_OTHER);
    visitor.get("/files/samples").await.says("my &quot;best&quot; photo.png");
}

#[tokio::test]
async fn a_price_that_has_risen_since_it_was_shown_stops_the_run() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let form = FormBody::new().text("max_cost", "0.01").file("in.input", "a.png", &picture());
    let page = visitor.post("/models/color-extraction", form).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.says("The price has changed").says("0.05").says("run it at the price that its page shows now");
    assert_eq!(site.service.controls().expect("controls").seen(operations::CREATE_TASK), 0);
}

#[tokio::test]
async fn a_file_above_the_limit_is_refused_and_not_kept() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let large = vec![0; 100 * 1024 * 1024 + 1];
    let page =
        visitor.post("/models/color-extraction", FormBody::new().file("in.input", "large.png", &large)).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.says("the storage takes files of at most 100 MiB");
    assert!(!page.body.contains("kept."));
}

#[tokio::test]
async fn texts_of_a_form_have_a_limit_together() {
    let site = Site::start().await;
    let text = json!({"type": "string", "required": true, "position": 0});
    publish(&site, "echo", "", &text, &text).await;
    let visitor = site.open().await;
    let half = "a".repeat(600 * 1024);
    let form = FormBody::new().text("in.other", &half).text("in.text", &half);
    let page = visitor.post("/models/echo", form).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.says("the texts of a form have at most 1 MiB together");
    assert!(page.body.len() < 100 * 1024, "{} bytes", page.body.len());
    assert_eq!(site.service.controls().expect("controls").seen(operations::CREATE_TASK), 0);
}

#[tokio::test]
async fn a_task_is_run_again_with_its_inputs() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let form = FormBody::new()
        .file("in.input_image", "a.png", &picture())
        .text("in.template", "x_cross")
        .text("in.angle", "44");
    let run = visitor.run("color-harmonization", form).await;
    let result = visitor.result(&run).await;
    let again = result
        .body
        .split("href=\"")
        .find(|link| link.contains("?from="))
        .and_then(|link| link.split('"').next());
    let page = visitor.get(again.expect("a link")).await;
    page.says("value=\"44\"").says("value=\"x_cross\" checked").says("<img src=\"/view/");
}

#[tokio::test]
async fn a_lost_create_is_resent_and_an_unconfirmed_one_says_what_to_try() {
    let site = Site::start().await;
    let controls = site.service.controls().expect("controls");
    let visitor = site.open().await;
    controls.add_fault(Fault::lose_response().on(operations::CREATE_TASK).once()).expect("a fault");
    let run = visitor.run("color-extraction", FormBody::new().file("in.input", "a.png", &picture())).await;
    visitor.result(&run).await.says("Success");
    assert_eq!(controls.seen(operations::CREATE_TASK), 2, "with the same idempotency key");
    let page = visitor.get("/runs").await;
    assert_eq!(page.body.matches("/tasks/").count(), 1, "{}", page.body);

    controls.let_model("color-extraction", Script::stay_queued()).await.expect("a script");
    controls.add_fault(Fault::lose_response().on(operations::CREATE_TASK)).expect("a fault");
    let run = visitor.run("color-extraction", FormBody::new().file("in.input", "a.png", &picture())).await;
    visitor.result(&run).await.says("The response was lost").says("What to try: ");
}
