//! What is answered.

use serde_json::json;

use super::Verdict::{Breaking, Compatible, Docs};
use super::edits::{Edit, add, both, drop_word, real_value, remove, rename, set};
use super::{assert_verdicts, compare};
use crate::support::Folder;

#[test]
#[rustfmt::skip]
fn answers_may_hold_more_but_not_less() {
    assert_verdicts(
        "diff_answers",
        vec![
            (Breaking, "a property of an answer goes", remove("schemas/Balance/properties/balance")),
            (Breaking, "a property of an answer is renamed", rename("schemas/Task/properties/cost", "price")),
            (Breaking, "a property of an inline object goes", remove("schemas/Model/properties/model_metadata/properties/license")),
            (Compatible, "a new property of an answer", set("schemas/Balance/properties/currency", json!({"type": "string"}))),
            (Breaking, "a property may be absent", drop_word("schemas/Task/required", "task_id")),
            (Compatible, "a property is always there", add("schemas/Task/required", json!("status"))),
            (Breaking, "a property may be null", set("schemas/PresignedUpload/properties/fields/nullable", json!(true))),
            (Compatible, "a property is never null", set("schemas/Task/properties/cost/nullable", json!(false))),
            (Breaking, "the type of a property differs", set("schemas/Task/properties/cost/type", json!("string"))),
            (Breaking, "the format of an amount differs", set("schemas/Balance/properties/debt/format", json!("double"))),
            (Breaking, "a timestamp is only a text", remove("schemas/Task/properties/created_at/format")),
            (Breaking, "the items of a list differ", set("schemas/TaskPage/properties/records/items", json!({"type": "string"}))),
            (Breaking, "anything may come", remove("schemas/Task/properties/cost/type")),
            (Compatible, "a result is always an object", set("schemas/Task/properties/result/properties/result/type", json!("object"))),
            (Breaking, "no further entries come", set("schemas/Task/properties/input_data/additionalProperties", json!(false))),
            (Compatible, "a smallest value of an answer", set("schemas/TaskPage/properties/total/minimum", json!(0))),
            (Breaking, "a failure has no message", remove("schemas/Failure/properties/message")),
            (Breaking, "an output of a model kind goes", remove("schemas/FaceMeshOutput/properties/multi_face_landmarks")),
            (Compatible, "a new output of a model kind", set("schemas/FaceMeshOutput/properties/count", json!({"type": "integer"}))),
            (Docs, "the description of a field differs", set("schemas/Balance/properties/debt/description", json!("Debt."))),
            (Docs, "the description of a resource differs", set("schemas/Balance/description", json!("Money."))),
            (Docs, "a field is marked as a secret", set("schemas/StorageFile/properties/download_url/x-secret", json!(true))),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn words_may_come_where_they_are_open_and_never_go() {
    assert_verdicts(
        "diff_words",
        vec![
            (Compatible, "a new word that is open", add("schemas/TaskStatus/enum", json!("paused"))),
            (Breaking, "a word goes", drop_word("schemas/TaskStatus/enum", "canceled")),
            (Breaking, "a word is renamed", both([drop_word("schemas/TaskStatus/enum", "in_queue"), add("schemas/TaskStatus/enum", json!("queued"))])),
            (Compatible, "the words are closed", remove("schemas/Visibility/x-open-enum")),
            (Breaking, "any word may come", remove("schemas/Visibility/enum")),
        ],
    );
}

#[test]
fn what_was_narrow_or_closed_must_not_widen() {
    let folder = Folder::new("diff_widened");
    let total = "schemas/TaskPage/properties/total/maximum";
    let format = "schemas/TaskPage/properties/total/format";
    let rows: [(&str, Edit, Edit); 3] = [
        ("words", remove("schemas/Visibility/x-open-enum"), add("schemas/Visibility/enum", json!("shared"))),
        ("an integer", set(format, json!("int32")), set(format, json!("int64"))),
        ("a limit", set(total, json!(9)), set(total, json!(10))),
    ];
    for (what, narrow, widen) in rows {
        let mut old = real_value();
        narrow(&mut old);
        let mut new = old.clone();
        widen(&mut new);
        assert_eq!(compare(&folder, &old, &new)["verdict"], "breaking", "{what}");
    }
}
