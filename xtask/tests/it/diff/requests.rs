//! What is sent: parameters and bodies of requests.

use serde_json::json;

use super::Verdict::{Breaking, Compatible, Docs, Nothing};
use super::assert_verdicts;
use super::edits::{add, both, drop_word, everywhere, remove, rename, set};

#[test]
#[rustfmt::skip]
fn parameters_may_come_if_they_are_optional_and_never_go() {
    let parameter =
        |required: bool| json!({"name": "since", "in": "query", "required": required, "schema": {}});
    assert_verdicts(
        "diff_parameters",
        vec![
            (Breaking, "a parameter goes", remove("listTasks/parameters/1")),
            (Breaking, "a parameter is renamed", set("listFiles/parameters/2/name", json!("page_size"))),
            (Breaking, "a parameter travels elsewhere", set("listTasks/parameters/0/in", json!("header"))),
            (Breaking, "a new required parameter", add("listTasks/parameters", parameter(true))),
            (Compatible, "a new optional parameter", add("listTasks/parameters", parameter(false))),
            (Breaking, "a parameter becomes required", set("listTasks/parameters/0/required", json!(true))),
            (Breaking, "a path parameter is renamed", both([everywhere("/api-key/task/{id}/", "/api-key/task/{task_id}/"), set("parameters/TaskId/name", json!("task_id"))])),
            (Breaking, "a default differs", set("listTasks/parameters/0/schema/default", json!(20))),
            (Breaking, "a default goes", remove("listTasks/parameters/0/schema/default")),
            (Breaking, "a maximum is lower", set("listTasks/parameters/0/schema/maximum", json!(50))),
            (Compatible, "a maximum is higher", set("listTasks/parameters/0/schema/maximum", json!(500))),
            (Compatible, "a maximum goes", remove("listTasks/parameters/0/schema/maximum")),
            (Breaking, "a minimum is higher", set("listTasks/parameters/0/schema/minimum", json!(2))),
            (Breaking, "a minimum is excluded", set("listTasks/parameters/0/schema/exclusiveMinimum", json!(true))),
            (Breaking, "the type of a parameter differs", set("listTasks/parameters/0/schema/type", json!("string"))),
            (Breaking, "an identifier gets a pattern", set("schemas/TaskId/pattern", json!("^[0-9a-f]+$"))),
            (Breaking, "a list is spelled otherwise", set("listFiles/parameters/3/explode", json!(false))),
            (Compatible, "a wider integer is accepted", set("listTasks/parameters/0/schema/format", json!("int64"))),
            (Breaking, "only a narrower integer is accepted", set("listTasks/parameters/1/schema/format", json!("int32"))),
            (Docs, "the description of a parameter differs", set("parameters/TaskId/description", json!("Which."))),
            (Docs, "the example of a parameter differs", set("parameters/TaskId/example", json!("00"))),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn bodies_of_requests_may_accept_more_but_not_ask_for_more() {
    let text = json!({"type": "string"});
    assert_verdicts(
        "diff_requests",
        vec![
            (Breaking, "a new required property", both([set("schemas/PresignRequest/properties/sha256", text.clone()), add("schemas/PresignRequest/required", json!("sha256"))])),
            (Compatible, "a new optional property", set("schemas/PresignRequest/properties/sha256", text)),
            (Breaking, "a property of a request goes", remove("schemas/PresignRequest/properties/org_username")),
            (Breaking, "a property of a request is renamed", rename("schemas/ModelListRequest/properties/search", "query")),
            (Breaking, "a property becomes required", add("schemas/PresignRequest/required", json!("org_username"))),
            (Compatible, "a property becomes optional", drop_word("schemas/PresignRequest/required", "mime")),
            (Breaking, "a word is no longer accepted", drop_word("schemas/ModelSort/enum", "likes")),
            (Compatible, "another word is accepted", add("schemas/ModelSort/enum", json!("name"))),
            (Compatible, "null is accepted", set("schemas/PresignRequest/properties/org_username/nullable", json!(true))),
            (Breaking, "a largest size is lower", set("schemas/PresignRequest/properties/size/maximum", json!(1_048_576))),
            (Compatible, "a largest size is higher", set("schemas/PresignRequest/properties/size/maximum", json!(209_715_200))),
            (Breaking, "a length is limited", set("schemas/PresignRequest/properties/name/maxLength", json!(255))),
            (Nothing, "a shortest length that every text has", set("schemas/PresignRequest/properties/name/minLength", json!(0))),
            (Breaking, "the type of a property differs", set("schemas/PresignRequest/properties/size/type", json!("string"))),
            (Breaking, "nothing else may be sent", set("schemas/ModelListRequest/additionalProperties", json!(false))),
            (Breaking, "a body must be of another media type", rename("listModels/requestBody/content/JSON", "text/json")),
            (Compatible, "a body may be of another media type", set("listModels/requestBody/content/text~1json", json!({}))),
            (Compatible, "a body becomes optional", set("listModels/requestBody/required", json!(false))),
            (Breaking, "a body goes", remove("deleteFile/requestBody")),
            (Breaking, "a body is asked for", set("cancelTask/requestBody", json!({"required": true, "content": {}}))),
            (Compatible, "a default is told", set("schemas/ModelListRequest/properties/limit/default", json!(10))),
            (Compatible, "a property is deprecated", set("schemas/PresignRequest/properties/org_username/deprecated", json!(true))),
            (Breaking, "an input of a model kind goes", remove("schemas/FaceDetectionInput/properties/confidence")),
            (Breaking, "a range of a model kind is narrower", set("schemas/ColorHarmonizationInput/properties/angle/maximum", json!(45))),
            (Breaking, "a template of a model kind goes", drop_word("schemas/HarmonizationTemplate/enum", "x_cross")),
            (Compatible, "a template of a model kind comes", add("schemas/HarmonizationTemplate/enum", json!("full_circle"))),
            (Docs, "the description of a property differs", set("schemas/PresignRequest/properties/name/description", json!("A name."))),
            (Docs, "the description of a word differs", set("schemas/ModelSort/x-enumDescriptions/likes", json!("By likes."))),
        ],
    );
}
