//! Forms: made from what a model declares, checked before anything is sent, and sent once.

use inferstore_api::operations;
use inferstore_service::{Fault, Script};
use reqwest::StatusCode;

use crate::support::{Form, Site, picture};

#[tokio::test]
async fn a_form_has_a_control_for_every_input_and_the_price() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let page = visitor.get("/models/color-harmonization").await;
    page.says("type=\"file\" id=\"in.input_image\"").says("accept=\"image/*\"");
    page.says("type=\"radio\"").says("value=\"y_branch\"");
    page.says("type=\"range\" min=\"1\" max=\"90\"").says("value=\"30\"");
    page.says("Costs <strong>0.05 ").says("name=\"max_cost\" value=\"0.05\"");
    visitor.get("/models/low-light-enhancement").await.says("<strong>Free</strong>");
    assert_eq!(visitor.get("/models/no-such-model").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_does_not_fit_is_shown_beside_its_input_and_nothing_is_sent() {
    let site = Site::start().await;
    let controls = site.service.controls().expect("controls");
    let visitor = site.open().await;
    let form = Form::new()
        .file("in.input_image", "notes.txt", b"no picture")
        .text("in.template", "z_shape")
        .text("in.angle", "91");
    let page = visitor.post("/models/color-harmonization", form).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.says("Nothing was sent: 3 inputs do")
        .says("got a file of type text/plain")
        .says("got &quot;z_shape&quot;");
    page.says("expected a whole number from 1 to 90, got &quot;91&quot;")
        .says("value=\"91\"")
        .says("notes.txt");
    assert_eq!(
        controls.seen(operations::CREATE_TASK) + controls.seen(operations::CREATE_PRESIGNED_UPLOAD),
        0
    );

    // The file that was sent is kept: the form needs only what was wrong.
    let form = Form::new()
        .file("in.input_image", "a.png", &picture())
        .text("in.template", "v_shape")
        .text("in.angle", "x");
    let page = visitor.post("/models/color-harmonization", form).await;
    let kept =
        page.body.split("name=\"kept.input_image\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    let kept = kept.expect("the file is kept").to_owned();
    let preview = visitor.get(&format!("/uploads/{kept}")).await;
    assert_eq!((preview.status, preview.header("content-type")), (StatusCode::OK, "image/png"));
    let form =
        Form::new().text("kept.input_image", &kept).text("in.template", "v_shape").text("in.angle", "30");
    let run = visitor.run("color-harmonization", form).await;
    visitor
        .result(&run)
        .await
        .says("inferstore run color-harmonization")
        .says("input_image=@a.png")
        .says("Client::from_env");
}

#[tokio::test]
async fn a_form_that_is_sent_twice_starts_one_run() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let form = || Form::new().text("form", "once").file("in.input", "a.png", &picture());
    let first = visitor.run("color-extraction", form()).await;
    let second = visitor.run("color-extraction", form()).await;
    assert_eq!(first, second);
    let other = visitor.run("color-extraction", form().text("form", "twice")).await;
    assert_ne!(first, other);
}

#[tokio::test]
async fn a_price_that_has_risen_since_it_was_shown_stops_the_run() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let form = Form::new().text("max_cost", "0.01").file("in.input", "a.png", &picture());
    let page = visitor.post("/models/color-extraction", form).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.says("The price has changed").says("0.05");
    assert_eq!(site.service.controls().expect("controls").seen(operations::CREATE_TASK), 0);
}

#[tokio::test]
async fn a_file_above_the_limit_is_refused_and_not_kept() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let large = vec![0; 100 * 1024 * 1024 + 1];
    let page =
        visitor.post("/models/color-extraction", Form::new().file("in.input", "large.png", &large)).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.says("the storage takes files of at most 100 MiB");
    assert!(!page.body.contains("kept."));
}

#[tokio::test]
async fn a_task_is_run_again_with_its_inputs() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let form = Form::new()
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
async fn a_lost_response_shows_what_the_client_found() {
    let site = Site::start().await;
    let controls = site.service.controls().expect("controls");
    let visitor = site.open().await;
    controls.add_fault(Fault::lose_response().on(operations::CREATE_TASK).once()).expect("a fault");
    let run = visitor.run("color-extraction", Form::new().file("in.input", "a.png", &picture())).await;
    visitor.result(&run).await.says("Success");
    assert_eq!(controls.seen(operations::CREATE_TASK), 1);

    // Two tasks with the same inputs may both be the one.
    controls.let_model("color-extraction", Script::stay_queued()).await.expect("a script");
    controls.add_fault(Fault::lose_response().on(operations::CREATE_TASK).once()).expect("a fault");
    controls.add_fault(Fault::status(500).on(operations::LIST_TASKS)).expect("a fault");
    let run = visitor.run("color-extraction", Form::new().file("in.input", "a.png", &picture())).await;
    visitor.result(&run).await.says("The response was lost").says("What to try: ");
}
