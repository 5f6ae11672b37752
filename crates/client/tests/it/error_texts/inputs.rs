//! Errors of inputs: each kind of violation.

use inferstore::{Error, File, Inputs, InvalidInputs, Violation, ViolationKind};
use serde_json::json;

use super::{Report, failed};

#[tokio::test(start_paused = true)]
async fn violations() {
    let service = inferstore_testing::ScriptedService::new();
    let _ = service.model("m").declares(json!({
        "picture": {"type": "file", "required": true, "mime_type": ["image/png", "image/jpeg"], "position": 1},
        "angle": {"type": "int", "num_config": {"min": 1, "max": 90}, "position": 2},
        "strength": {"type": "float", "position": 3},
        "template": {"type": "options", "samples": ["v_shape", "i_shape"], "position": 4},
        "prompt": {"type": "string", "position": 5},
    }));
    let client = service.client().unwrap();
    let picture = || Inputs::new().set("picture", "https://host.example/a.png");
    let mut report = Report::default();
    for (title, inputs) in [
        ("missing", Inputs::new()),
        ("undeclared and near", picture().set("angel", 30)),
        ("undeclared", picture().set("seed", 7)),
        ("a list for a number", picture().set("angle", json!([1, 2]))),
        ("a word for a number", picture().set("strength", "strong")),
        ("a fraction for an integer", picture().set("angle", 1.5)),
        ("an object for text", picture().set("prompt", json!({"text": "a lake"}))),
        ("a file for a number", picture().file("angle", File::bytes("a.png", "pixels"))),
        ("a number for a file", Inputs::new().set("picture", 7)),
        ("out of range", picture().set("angle", 91)),
        ("not an option, and near", picture().set("template", "V_shape")),
        ("not an option", picture().set("template", "round")),
        ("not a URL", Inputs::new().set("picture", "photo.png")),
        ("another MIME type", Inputs::new().file("picture", File::bytes("a.gif", "GIF89a"))),
        ("several", Inputs::new().set("angle", 0).set("seed", 7)),
    ] {
        report.add(title, &failed(client.model("m").run(inputs).check().await));
    }
    let violation = |number| Violation::new("a", ViolationKind::Missing, format!("input {number}"));
    let invalid = InvalidInputs::new((0..25).map(violation).collect(), vec!["a".to_owned()]);
    report.add("many", &Error::Inputs(invalid));
    insta::assert_snapshot!(report.render());
}
