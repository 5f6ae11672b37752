//! Operations, security, servers.

use serde_json::json;

use super::Verdict::{Breaking, Compatible, Docs, Nothing};
use super::assert_verdicts;
use super::edits::{add, both, drop_word, everywhere, remove, rename, set};

#[test]
#[rustfmt::skip]
fn operations_that_go_or_move_break_and_new_ones_do_not() {
    assert_verdicts(
        "diff_operations",
        vec![
            (Breaking, "an operation goes", remove("paths/~1api-key~1balance")),
            (Breaking, "a path is spelled otherwise", rename("paths/~1api-key~1balance", "/api-key/account/balance")),
            (Breaking, "a method differs", rename("paths/~1api-key~1balance/get", "post")),
            (Breaking, "an operationId differs", set("getBalance/operationId", json!("readBalance"))),
            (Breaking, "a tag differs", set("getBalance/tags", json!(["Money"]))),
            (Breaking, "another tag comes first", set("getBalance/tags", json!(["Money", "Account"]))),
            (Compatible, "a second tag", add("getBalance/tags", json!("Money"))),
            (Compatible, "an operation is deprecated", set("createTaskAlias/deprecated", json!(true))),
            (Compatible, "a new operation", set("paths/~1api-key~1balance/head", json!({"operationId": "peek", "responses": {}}))),
            (Docs, "a summary differs", set("getBalance/summary", json!("Look at the balance"))),
            (Docs, "a description differs", set("getBalance/description", json!("What is left."))),
            (Docs, "a sample of a call differs", set("getBalance/x-codeSamples", json!([]))),
            (Docs, "the description of a tag differs", set("tags/0/description", json!("Money."))),
            (Docs, "the title differs", set("info/title", json!("Inferstore"))),
            (Docs, "the licence differs", set("info/license/name", json!("MIT"))),
            (Nothing, "the version is raised", set("info/version", json!("1.0.1"))),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn who_is_let_in_and_where_may_widen_but_not_narrow() {
    assert_verdicts(
        "diff_security",
        vec![
            (Breaking, "the header of the key differs", set("securitySchemes/ApiKey/name", json!("authorization"))),
            (Breaking, "the key travels elsewhere", set("securitySchemes/ApiKey/in", json!("query"))),
            (Breaking, "the scheme has another name", everywhere("\"ApiKey\"", "\"Key\"")),
            (Breaking, "a second scheme is needed", both([set("securitySchemes/Basic", json!({"type": "http", "scheme": "basic"})), set("security", json!([{"ApiKey": [], "Basic": []}]))])),
            (Compatible, "a second scheme is enough", both([set("securitySchemes/Basic", json!({"type": "http", "scheme": "basic"})), set("security", json!([{"ApiKey": []}, {"Basic": []}]))])),
            (Compatible, "no key is needed for one operation", set("listModels/security", json!([]))),
            (Docs, "the description of the key differs", set("securitySchemes/ApiKey/description", json!("A key."))),
            (Breaking, "the root of the API differs", set("servers/0/url", json!("{origin}/api/v2"))),
            (Breaking, "the default origin differs", set("servers/0/variables/origin/default", json!("http://[::1]"))),
            (Compatible, "a second server", add("servers", json!({"url": "http://127.0.0.1:1/api/v1"}))),
            (Docs, "the description of a server differs", set("servers/0/description", json!("Any."))),
            (Breaking, "another OpenAPI version", set("openapi", json!("3.1.0"))),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn statuses_media_types_and_headers_of_answers_may_come_but_not_go() {
    let header = json!({"schema": {"type": "string"}});
    assert_verdicts(
        "diff_responses",
        vec![
            (Breaking, "an answer goes", remove("getBalance/responses/401")),
            (Breaking, "the success goes", remove("getBalance/responses/2XX")),
            (Breaking, "another success code", rename("getBalance/responses/2XX", "200")),
            (Compatible, "a further failure", set("getBalance/responses/404", json!({"$ref": "#/components/responses/Refused"}))),
            (Breaking, "a further failure unlike the others", set("getBalance/responses/404", json!({"content": {"application/json": {"schema": {"type": "string"}}}}))),
            (Breaking, "a media type goes", rename("getBalance/responses/2XX/content/JSON", "text/plain")),
            (Compatible, "a media type comes", set("getBalance/responses/2XX/content/text~1plain", json!({}))),
            (Compatible, "a header comes", set("getBalance/responses/2XX/headers", json!({"x-request-id": header}))),
            (Docs, "the description of an answer differs", set("responses/Refused/description", json!("No."))),
            (Docs, "an example differs", set("responses/Refused/content/JSON/examples/not_found/value/message", json!("no"))),
            (Docs, "an example goes", remove("getTask/responses/2XX/content/JSON/examples/failed")),
            (Docs, "another component of the same form", set("getBalance/responses/4XX", json!({"$ref": "#/components/responses/TaskRefused"}))),
        ],
    );
}

#[test]
fn a_word_less_in_the_tags_of_an_operation_breaks() {
    let edit = drop_word("getBalance/tags", "Account");
    assert_verdicts("diff_tag_gone", vec![(Breaking, "a tag goes", edit)]);
}
