//! From inputs to outputs in one call.

use inferstore::{Error, File, Inputs, types};
use inferstore_api::operations;
use inferstore_service::{Fault, Operation, Script};
use serde_json::{Value, json};

use super::on_the_service::{MODEL, start, success, tasks};
use super::{IMAGE, Quickly, inputs};
use crate::support::scripted::Scripted;

async fn sent(client: &inferstore::Client) -> Value {
    let history = client.tasks().list().try_collect().await.expect("they are listed");
    let newest = history.last().expect("one was created");
    let task = client.task(&newest.task_id).get().await.expect("it is there");
    json!(task.input_data)
}

fn typed() -> types::ColorHarmonizationInput {
    types::ColorHarmonizationInput {
        input_image: IMAGE.to_owned(),
        template: types::HarmonizationTemplate::VShape,
        angle: 30,
    }
}

#[tokio::test]
async fn a_number_goes_out_as_the_samples_show_it() {
    let (_service, controls, client) = start().await;
    controls.let_model(MODEL, success()).await.expect("it succeeds");
    let outcome = client.model(MODEL).run(inputs()).quickly().await.expect("it runs");
    let expected = json!({"input_image": IMAGE, "template": "v_shape", "angle": "30"});
    assert_eq!(sent(&client).await, expected);
    assert_eq!(outcome.cost, "0.05".parse().ok());
    let names: Vec<_> = outcome.urls().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["output_hue", "output_image"]);
}

#[tokio::test]
async fn a_model_kind_goes_in_typed_and_comes_out_typed() {
    let (_service, controls, client) = start().await;
    controls.let_model(MODEL, success()).await.expect("it succeeds");
    let outcome = client.model(MODEL).run_typed(typed()).quickly().await.expect("it runs");
    assert_eq!(outcome.output.output_image, "https://files.example/harmonized.png");
    assert_eq!(sent(&client).await["angle"], "30");
}

#[tokio::test]
async fn an_output_of_another_shape_is_reported_and_not_lost() {
    let (_service, controls, client) = start().await;
    controls.let_model(MODEL, Script::succeed(json!({"unexpected": 1}))).await.expect("it succeeds");
    let error = client.model(MODEL).run_typed(typed()).quickly().await.expect_err("it has no such fields");
    let Error::OutputType(mismatch) = &error else { panic!("{error:?}") };
    assert_eq!(mismatch.output, json!({"unexpected": 1}));
    assert!(error.task_id().is_some());
}

#[tokio::test]
async fn anything_that_serializes_to_an_object_can_be_given() {
    let (_service, controls, client) = start().await;
    controls.let_model(MODEL, success()).await.expect("it succeeds");
    let json = json!({"input_image": IMAGE, "template": "v_shape", "angle": "30"});
    let inputs = Inputs::from_serialize(&json).expect("it is an object");
    client.model(MODEL).run(inputs).quickly().await.expect("it runs");
    Inputs::from_serialize(&"a word").expect_err("a word is no object");
    assert_eq!(sent(&client).await, json);
}

#[tokio::test(start_paused = true)]
async fn files_are_uploaded_each_content_once_and_replaced_by_their_urls() {
    let scripted = Scripted::new();
    scripted.service.model("three-images").succeeds(json!({}));
    let png = |last| File::bytes("photo.png", [b"\x89PNG\r\n\x1a\n".as_slice(), &[last]].concat());
    let inputs = Inputs::new().file("a", png(1)).file("b", png(2)).file("c", png(1));
    scripted.client().model("three-images").run(inputs).await.expect("it runs");
    let sent = &scripted.service.created()[0].inputs;
    assert_eq!(sent["a"], sent["c"], "the same content has one URL");
    assert_ne!(sent["a"], sent["b"]);
    assert_eq!(scripted.count("createPresignedUpload"), 2);
}

#[tokio::test]
async fn a_missing_or_unfit_file_is_named_by_field_before_anything_is_sent() {
    let (_service, controls, client) = start().await;
    let missing =
        client.model(MODEL).run(inputs().file("input_image", File::path("no/such/photo.jpg"))).quickly();
    let text = missing.await.expect_err("there is no such file").to_string();
    assert!(text.contains("input_image") && text.contains("photo.jpg"), "{text}");
    let notes = File::bytes("notes.txt", "just words");
    let error = client.model(MODEL).run(inputs().file("input_image", notes)).quickly().await;
    assert!(matches!(error, Err(Error::Inputs(_))), "{error:?}");
    assert_eq!((controls.seen(operations::CREATE_PRESIGNED_UPLOAD), tasks(&controls).await), (0, 0));
}

#[tokio::test]
async fn a_file_of_unknown_type_is_not_refused_for_its_type() {
    let (_service, controls, client) = start().await;
    controls.let_model(MODEL, success()).await.expect("it succeeds");
    for file in [File::bytes("picture", "?"), File::bytes("picture.bin", "?")] {
        let with_file = inputs().file("input_image", file);
        client.model(MODEL).run(with_file).quickly().await.expect("it may be an image");
    }
    let film = File::bytes("picture", b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom".as_slice());
    let error = client.model(MODEL).run(inputs().file("input_image", film)).quickly().await;
    assert!(matches!(error, Err(Error::Inputs(_))), "a film is none: {error:?}");
}

#[tokio::test]
async fn a_failed_upload_names_the_field_and_creates_nothing() {
    let (_service, controls, client) = start().await;
    controls.add_fault(Fault::status(400).on(Operation::POST_OBJECT)).expect("it is a fault");
    let photo = File::bytes("photo.png", b"\x89PNG\r\n\x1a\n".as_slice());
    let run = client.model(MODEL).run(inputs().file("input_image", photo)).quickly();
    let error = run.await.expect_err("the store refuses it");
    assert!(error.to_string().contains("input_image") && error.to_string().contains("photo.png"), "{error}");
    assert_eq!(tasks(&controls).await, 0);
}

#[tokio::test]
async fn inputs_can_be_sent_unchecked() {
    let (_service, controls, client) = start().await;
    controls.let_model(MODEL, success()).await.expect("it succeeds");
    let inputs = inputs().set("angle", "30");
    client
        .model(MODEL)
        .run(inputs)
        .quickly()
        .options(|options| options.skip_validation = true)
        .await
        .expect("it runs");
    assert_eq!(controls.seen(operations::GET_MODEL_VERSIONING), 0);
}
