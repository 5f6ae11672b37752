//! Additions to the API: what `cargo xtask scaffold` writes into the document and into the code.

use crate::support::{Folder, Said, real_document, repository_file};

const DOCUMENT: &str = "openapi/inferstore.yaml";

const FILES: [&str; 13] = [
    "crates/client/src/client.rs",
    "crates/client/src/resources/mod.rs",
    "crates/client/src/resources/model.rs",
    "crates/client/src/run/task.rs",
    "crates/service/src/api/account.rs",
    "crates/service/src/api/models.rs",
    "crates/service/src/api/storage.rs",
    "crates/service/src/api/tasks.rs",
    "crates/service/src/catalog/built_in.rs",
    "crates/service/src/catalog/models/color-extraction.json",
    "crates/testing/src/lib.rs",
    "tests/it/client/on_the_service/operations.rs",
    "crates/api/tests/wire/main.rs",
];

const PROBES: &str = "tests/it/stress/authorization/probe.rs";

fn copy(name: &str) -> Folder {
    let folder = Folder::new(name);
    for file in FILES.iter().chain([&PROBES, &".rustfmt.toml"]) {
        folder.write(file, &repository_file(file));
    }
    folder.write(DOCUMENT, &real_document());
    folder
}

fn scaffold(folder: &Folder, arguments: &[&str]) -> Said {
    Said::by(folder.xtask(&folder.path("xtask")).arg("scaffold").args(arguments))
}

fn assert_valid(folder: &Folder) {
    folder.write("document.yaml", &folder.read(DOCUMENT));
    folder.generate(&[]).succeeded();
}

#[test]
fn an_operation_is_written_into_each_of_its_places() {
    let folder = copy("scaffold_operation");
    let arguments = [
        "operation",
        "getTaskTrial",
        "--like=getTask",
        "--path=/api-key/task/{id}/trial",
        "--summary=Read the trial of a task",
    ];
    let report = scaffold(&folder, &arguments).succeeded();
    assert_eq!(report.lines().count(), 8, "{report}");
    assert_valid(&folder);
    for (file, text) in [
        (
            DOCUMENT,
            "    TaskTrial:\n      type: object\n      description: |\n        † Read the trial of a task.\n",
        ),
        (DOCUMENT, "curl \"$BASE_URL/api-key/task/$TASK_ID/trial\""),
        (
            "crates/service/src/api/tasks.rs",
            ".route(\"/api-key/task/{id}/trial\", axum::routing::get(get_task_trial))",
        ),
        ("crates/service/src/api/tasks.rs", "NOT_IMPLEMENTED, \"getTaskTrial is not implemented\""),
        ("crates/client/src/run/task.rs", "pub fn get_task_trial(&self)"),
        ("crates/testing/src/lib.rs", "\"getTaskTrial\" => Some("),
        (
            "tests/it/client/on_the_service/operations.rs",
            "client.task(first.id()).get_task_trial().await.expect(\"getTaskTrial\")",
        ),
        ("crates/api/tests/wire/main.rs", "client.get_task_trial(&task(\"t-1\")).await"),
        (PROBES, "\"getTaskTrial\" => vec![probe(&owns.ended, None)]"),
    ] {
        assert!(folder.read(file).contains(text), "{file} lacks {text}");
    }
    let calls = folder.read("tests/it/client/on_the_service/operations.rs");
    assert_eq!(calls.matches("let first = ").count(), 1, "the name means the task, wherever a call stands");
    let before = FILES.map(|file| folder.read(file));
    let again = scaffold(&folder, &["operation", "getTaskTrial"]).succeeded();
    assert_eq!(again, "openapi/inferstore.yaml written\nnext: cargo xtask sync\n");
    assert_eq!(FILES.map(|file| folder.read(file)), before, "what is there is not written again");
    let twice = scaffold(&folder, &arguments).failed();
    assert_eq!(twice, "error: getTaskTrial is there already\n");
}

#[test]
fn a_place_that_is_not_found_changes_no_file() {
    let folder = copy("scaffold_shape");
    folder.write(PROBES, "fn probes() {}\n");
    let before = FILES.map(|file| folder.read(file));
    let arguments =
        ["operation", "endTrial", "--like=revokeKey", "--path=/api-key/trial/{key}", "--summary=End"];
    let message = scaffold(&folder, &arguments).failed();
    assert!(message.contains(&format!("{PROBES} has another shape than expected")), "{message}");
    assert_eq!(folder.read(DOCUMENT), real_document());
    assert_eq!(FILES.map(|file| folder.read(file)), before);
}

#[test]
fn arguments_of_an_operation_reach_the_method_and_its_tests() {
    let folder = copy("scaffold_arguments");
    let arguments =
        ["operation", "searchTrials", "--like=listModels", "--path=/api-key/trial/list", "--summary=Search"];
    scaffold(&folder, &arguments).succeeded();
    assert_valid(&folder);
    let client = folder.read("crates/client/src/client.rs");
    assert!(client.contains("api.search_trials(&body)"), "{client}");
    assert!(folder.read("crates/api/tests/wire/main.rs").contains("&request(\"searchTrials\")"));
    assert!(folder.read(PROBES).contains("\"searchTrials\" => vec![probe(\"\", Some(json!({})))]"));
}

#[test]
fn a_method_needs_no_import_and_a_required_argument_has_a_value() {
    let folder = copy("scaffold_value");
    let arguments =
        ["operation", "endTrial", "--like=revokeKey", "--path=/api-key/trial/{key}", "--summary=End"];
    scaffold(&folder, &arguments).succeeded();
    assert!(
        folder.read("crates/client/src/client.rs").contains("futures_util::FutureExt::boxed(async move {")
    );
    let value = "\"1\".parse().expect(\"a value\")";
    for (file, call) in [
        ("tests/it/client/on_the_service/operations.rs", format!("client.end_trial({value}).await")),
        ("crates/api/tests/wire/main.rs", format!("client.end_trial(&{value}).await")),
    ] {
        assert!(folder.read(file).contains(&call), "{file} lacks {call}");
    }
}

#[test]
fn a_neighbor_has_the_same_parameters() {
    let folder = copy("scaffold_neighbor");
    let arguments = ["operation", "getX", "--like=getTask", "--path=/api-key/x", "--summary=Read"];
    let message = scaffold(&folder, &arguments).failed();
    assert_eq!(
        message,
        "error: /api-key/x has other parameters than /api-key/task/{id}/detail, the path of getTask\n"
    );
    assert_eq!(folder.read(DOCUMENT), real_document(), "a mistake changes nothing");
    let message = scaffold(&folder, &["operation", "getX"]).failed();
    assert!(message.contains("getX is no operation of the document"), "{message}");
}

#[test]
fn a_field_is_the_last_one_and_may_be_null_in_a_response_alone() {
    let folder = copy("scaffold_field");
    for (schema, end) in
        [("TaskDetail", "nullable: true\n          description"), ("ModelListRequest", "description")]
    {
        let arguments = ["field", schema, "rank", "--type=integer", "--description=A rank"];
        scaffold(&folder, &arguments).succeeded();
        let text = format!(
            "        rank:\n          type: integer\n          format: int64\n          {end}: |\n            † A rank.\n    "
        );
        assert!(folder.read(DOCUMENT).contains(&text), "{schema}");
    }
    assert_valid(&folder);
    let message = scaffold(&folder, &["field", "TaskDetail", "rank", "--description=A rank"]).failed();
    assert_eq!(message, "error: TaskDetail has rank already\n");
    let message = scaffold(&folder, &["field", "Nothing", "rank", "--description=A rank"]).failed();
    assert_eq!(message, "error: there is no schema Nothing in the document\n");
    let before = folder.read(DOCUMENT);
    let message = scaffold(&folder, &["field", "TaskDetail", "class", "--description=A class"]).failed();
    assert!(message.contains("class is a keyword of Python"), "{message}");
    assert_eq!(folder.read(DOCUMENT), before, "a mistake changes nothing");
}

#[test]
fn a_terminal_word_says_so_in_each_of_its_places() {
    let folder = copy("scaffold_word");
    scaffold(&folder, &["word", "TaskStatus", "abandoned", "--meaning=Waited too long", "--terminal"])
        .succeeded();
    let document = folder.read(DOCUMENT);
    assert_eq!(document.matches(", abandoned]\n").count(), 2, "x-extensible-enum and x-terminal");
    assert!(document.contains("- `abandoned`: † Waited too long. Terminal.\n"));
    assert_valid(&folder);
    assert!(folder.read("generated.rs").contains("Self::Abandoned].contains(self)"));
}

#[test]
fn a_kind_has_schemas_and_a_model() {
    let folder = copy("scaffold_kind");
    scaffold(
        &folder,
        &["kind", "trial-removal", "--like=color-extraction", "--description=Keeps the ground"],
    )
    .succeeded();
    assert_valid(&folder);
    let document = folder.read(DOCUMENT);
    assert!(document.contains("Trial removal. † Keeps the ground.\n"), "{document}");
    assert!(document.contains("x-model-kind: {name: trial-removal, output: TrialRemovalOutput}"));
    assert!(folder.read("crates/service/src/catalog/built_in.rs").contains("\"trial-removal\"\n};"));
    let model = folder.read("crates/service/src/catalog/models/trial-removal.json");
    assert!(
        model.contains("\"id\": \"trial-removal\"") && model.contains("\"name\": \"trial_removal\""),
        "{model}"
    );
}
