//! From inputs to outputs in one call.

use inferstore::{File, Inputs, types};
use serde_json::json;

use super::{IMAGE, Quickly, client, inputs};
use crate::support::scripted::{DEFAULT_MODEL, Fault, Route, ScriptedService, TaskPlan};

#[tokio::test]
async fn a_number_goes_out_as_the_samples_show_it() {
    let service = ScriptedService::start().await;
    let outcome = client(&service).model(DEFAULT_MODEL).run(inputs()).quickly().await.expect("it runs");
    assert_eq!(
        service.created()[0].input_data,
        json!({"input_image": IMAGE, "template": "v_shape", "angle": "30"})
    );
    assert_eq!(outcome.cost, "0.05".parse().ok());
    let names: Vec<_> = outcome.urls().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["output_hue", "output_image"]);
}

#[tokio::test]
async fn a_model_kind_goes_in_typed_and_comes_out_typed() {
    let service = ScriptedService::start().await;
    let input = types::ColorHarmonizationInput {
        input_image: IMAGE.to_owned(),
        template: types::HarmonizationTemplate::VShape,
        angle: 30,
    };
    let outcome = client(&service).model(DEFAULT_MODEL).run_typed(input).quickly().await.expect("it runs");
    assert!(outcome.output.output_image.starts_with("http://"));
    assert_eq!(service.created()[0].input_data["angle"], "30");
}

#[tokio::test]
async fn an_output_of_another_shape_is_reported_and_not_lost() {
    let service = ScriptedService::start().await;
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().succeeds_with(json!({"unexpected": 1})));
    let input = types::ColorHarmonizationInput {
        input_image: IMAGE.to_owned(),
        template: types::HarmonizationTemplate::VShape,
        angle: 30,
    };
    let error = client(&service)
        .model(DEFAULT_MODEL)
        .run_typed(input)
        .quickly()
        .await
        .expect_err("it has no such fields");
    let inferstore::Error::OutputType(mismatch) = &error else { panic!("{error:?}") };
    assert_eq!(mismatch.output, json!({"unexpected": 1}));
    assert!(error.task_id().is_some());
}

#[tokio::test]
async fn anything_that_serializes_to_an_object_can_be_given() {
    let service = ScriptedService::start().await;
    let model = client(&service).model(DEFAULT_MODEL);
    let json = json!({"input_image": IMAGE, "template": "v_shape", "angle": "30"});
    model.run(Inputs::from_serialize(&json).expect("it is an object")).quickly().await.expect("it runs");
    Inputs::from_serialize(&"a word").expect_err("a word is no object");
    assert_eq!(service.created()[0].input_data, json);
}

#[tokio::test]
async fn files_are_uploaded_each_content_once_and_replaced_by_their_urls() {
    let service = ScriptedService::start().await;
    let image = |_| json!({"type": "file", "mime_type": ["image/*"], "required": true});
    let fields: serde_json::Map<_, _> =
        ["a", "b", "c"].map(|name| (name.to_owned(), image(name))).into_iter().collect();
    service.add_model(json!({"id": "three-images", "input_format": fields}));
    // All of one name, as files from different folders may be.
    let png = |last| File::bytes("photo.png", [b"\x89PNG\r\n\x1a\n".as_slice(), &[last]].concat());
    let inputs = || Inputs::new().file("a", png(1)).file("b", png(2)).file("c", png(1));
    let client = client(&service);
    client.model("three-images").run(inputs()).quickly().await.expect("it runs");
    let sent = &service.created()[0].input_data;
    assert_eq!(sent["a"], sent["c"], "the same content has one URL");
    assert_ne!(sent["a"], sent["b"]);
    assert_eq!(service.uploads().len(), 2);
    client.model("three-images").run(inputs()).quickly().await.expect("it runs again");
    assert_eq!(service.uploads().len(), 2, "what was uploaded once is used again");
}

#[tokio::test]
async fn a_file_that_is_missing_or_does_not_fit_is_named_with_its_field_before_anything_is_sent() {
    let service = ScriptedService::start().await;
    let client = client(&service);
    let error = client
        .model(DEFAULT_MODEL)
        .run(inputs().file("input_image", "no/such/photo.jpg"))
        .quickly()
        .await
        .expect_err("there is no such file");
    let text = error.to_string();
    assert!(text.contains("input_image") && text.contains("photo.jpg"), "{text}");
    let notes = File::bytes("notes.txt", "just words");
    let error = client.model(DEFAULT_MODEL).run(inputs().file("input_image", notes)).quickly().await;
    assert!(matches!(error, Err(inferstore::Error::Inputs(_))), "{error:?}");
    assert_eq!((service.uploads().len(), service.created().len()), (0, 0));
}

#[tokio::test]
async fn a_file_of_unknown_type_is_not_refused_for_its_type() {
    let service = ScriptedService::start().await;
    let client = client(&service);
    // A picture of a kind that neither its name nor its first bytes give away.
    for file in [File::bytes("picture", "?"), File::bytes("picture.bin", "?")] {
        let with_file = inputs().file("input_image", file);
        client.model(DEFAULT_MODEL).run(with_file).quickly().await.expect("it may be an image");
    }
    let film = File::bytes("picture", b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom".as_slice());
    let error = client.model(DEFAULT_MODEL).run(inputs().file("input_image", film)).quickly().await;
    assert!(matches!(error, Err(inferstore::Error::Inputs(_))), "a film is none: {error:?}");
}

#[tokio::test]
async fn a_failed_upload_names_the_field_and_creates_nothing() {
    let service = ScriptedService::start().await;
    service.fault(Route::StorageUpload, Fault::failure(400, "no").always()).await;
    let photo = File::bytes("photo.png", b"\x89PNG\r\n\x1a\n".as_slice());
    let error = client(&service)
        .model(DEFAULT_MODEL)
        .run(inputs().file("input_image", photo))
        .quickly()
        .await
        .expect_err("the store refuses it");
    assert!(error.to_string().contains("input_image") && error.to_string().contains("photo.png"), "{error}");
    assert_eq!(service.created().len(), 0);
}

#[tokio::test]
async fn inputs_can_be_sent_unchecked() {
    let service = ScriptedService::start().await;
    let inputs = Inputs::new().set("input_image", IMAGE).set("template", "v_shape").set("angle", "30");
    let run = client(&service).model(DEFAULT_MODEL).run(inputs).quickly().skip_validation(true);
    run.await.expect("it runs");
    assert_eq!(service.count(Route::GetModelVersioning), 0);
}
