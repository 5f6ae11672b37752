//! Names that never travel, and that generated code is written against.

use serde_json::json;

use super::Verdict::{Breaking, Compatible, Docs};
use super::assert_verdicts;
use super::edits::{both, everywhere, remove, set};

#[test]
#[rustfmt::skip]
fn a_name_in_generated_code_may_come_but_not_go() {
    let cost = json!({"$ref": "#/components/schemas/TaskCost"});
    let run_status = json!({"$ref": "#/components/schemas/RunStatus"});
    let renamed_schema = || {
        both([
            everywhere("schemas/TaskRecord\"", "schemas/TaskSummary\""),
            everywhere("\"TaskRecord\"", "\"TaskSummary\""),
        ])
    };
    let renamed_alike = json!({
        "type": "string", "description": "Where a run stands.", "x-open-enum": true,
        "enum": ["in_queue", "computing", "success", "failed", "canceled"],
    });
    assert_verdicts(
        "diff_names",
        vec![
            (Breaking, "a schema is renamed", renamed_schema()),
            (Breaking, "the input of a model kind is renamed", everywhere("HazeRemovalInput", "DehazeInput")),
            (Breaking, "the output of a model kind is renamed", everywhere("HazeRemovalOutput", "DehazeOutput")),
            (Breaking, "a model kind is renamed", set("schemas/HazeRemovalInput/x-model-kind/name", json!("dehaze"))),
            (Breaking, "a model kind goes", both([remove("schemas/HazeRemovalInput"), remove("schemas/HazeRemovalOutput")])),
            (Breaking, "a shared answer is renamed", everywhere("TaskRefused", "TaskNotCreated")),
            (Breaking, "the title of an inline object differs", set("schemas/Task/properties/result/title", json!("Outcome"))),
            (Breaking, "the name of a word differs", set("schemas/FaceDetectionModel/x-enum-varnames/0", json!("Near"))),
            (Breaking, "a field has another type of the same form", both([set("schemas/RunStatus", renamed_alike), set("schemas/Task/properties/status", run_status)])),
            (Compatible, "a new schema", set("schemas/Quote", json!({"type": "object", "properties": {"cost": cost}}))),
            (Docs, "the title of a component differs", set("schemas/Task/title", json!("A task"))),
        ],
    );
}
