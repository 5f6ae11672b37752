//! Properties of the generated code for changes of the document that it does not have today.

use crate::support::{Folder, real_document, replaced, repository_file};

fn generated_after(name: &str, old: &str, new: &str) -> String {
    let folder = Folder::new(name);
    folder.write("document.yaml", &replaced(&real_document(), old, new));
    folder.generate(&[]).succeeded();
    folder.read("generated.rs")
}

/// The lines in front of a field of a struct: its description and its attributes.
fn above<'a>(code: &'a str, item: &str, field: &str) -> Vec<&'a str> {
    let start = code.find(&format!("pub struct {item} {{")).expect("the struct is generated");
    let lines = code[start..].lines().skip(1).map(str::trim);
    let mut above = Vec::new();
    for line in lines {
        if line.starts_with(&format!("pub {field}:")) {
            return above;
        }
        if line.starts_with("pub ") {
            above.clear();
        } else {
            above.push(line);
        }
    }
    panic!("{item} has no field {field}");
}

#[test]
fn a_required_nullable_field_has_one_reader_and_no_default() {
    let code = generated_after("required_nullable", "required: [task_id]", "required: [task_id, message]");
    assert_eq!(
        above(&code, "TaskDetail", "message")[1..],
        ["#[serde(deserialize_with = \"lenient::optional\")]"]
    );
}

#[test]
fn a_field_with_a_default_keeps_it_and_is_read_leniently() {
    let code = generated_after(
        "property_default",
        "        total_files:\n          type: integer\n",
        "        total_files:\n          type: integer\n          default: 7\n",
    );
    let above = above(&code, "StorageStatistics", "total_files").join("\n");
    assert_eq!(above.matches("default = ").count(), 1, "{above}");
    assert_eq!(above.matches("deserialize_with = \"lenient::").count(), 1, "{above}");
}

#[test]
fn a_field_that_is_a_reference_takes_its_description_whatever_its_name() {
    let status = "        status:\n          $ref: \"#/components/schemas/TaskStatus\"\n";
    let renamed = status.replace("status:", "task_status:");
    let code = generated_after("renamed_reference", status, &renamed);
    let description = above(&code, "TaskDetail", "task_status")[0];
    assert!(description.starts_with("/// Status of a task."), "{description}");
}

#[test]
fn a_reference_inside_an_inline_object_is_described_too() {
    let properties = "          properties:\n            result:\n";
    let more = "          properties:\n            of:\n              $ref: \"#/components/schemas/TaskStatus\"\n            result:\n";
    let code = generated_after("inline_reference", properties, more);
    assert!(above(&code, "TaskResult", "of")[0].starts_with("/// Status of a task."));
}

#[test]
fn further_fields_are_described() {
    let code = generated_after(
        "further_fields",
        "      description: Declares a file that is to be uploaded.\n",
        "      description: Declares a file that is to be uploaded.\n      additionalProperties: {type: string}\n",
    );
    assert_eq!(above(&code, "PresignRequest", "extra")[0], "/// Further fields, by name.");
}

#[test]
fn a_request_has_the_headers_of_the_document() {
    for required in [true, false] {
        let code = generated_after(
            if required { "required_header" } else { "optional_header" },
            "      operationId: getBalance\n",
            &format!(
                "      operationId: getBalance\n      parameters:\n        - {{name: x-trace, in: header, \
                 required: {required}, description: Names the call., schema: {{type: string}}}}\n"
            ),
        );
        assert!(code.contains("x-trace"));
    }
}

#[test]
fn an_envelope_with_a_field_of_its_own_keeps_its_type() {
    let properties = "      description: The envelope around a balance.\n      additionalProperties: true\n      \
                      required: [status, data]\n      properties:\n";
    let more =
        format!("{properties}        trace: {{type: string, nullable: true, description: A trace.}}\n");
    let code = generated_after("wider_envelope", properties, &more);
    assert!(code.contains("pub struct BalanceResponse {"));
    assert!(!code.contains("pub struct TaskResponse {"));
}

#[test]
fn the_largest_number_of_a_request_is_a_constant() {
    let code = generated_after("maximum", "          maximum: 100\n", "          maximum: 70\n");
    assert!(code.contains("pub const MAX_LIST_TASKS_LIMIT: u32 = 70;"), "{code}");
    assert!(code.contains("pub const MAX_PRESIGN_REQUEST_SIZE: u64 = 104_857_600;"), "{code}");
}

#[test]
fn a_path_beside_a_parameter_reserves_its_name() {
    let code = generated_after(
        "reserved_name",
        "  /api-key/storage/upload/statistics:\n",
        "  /api-key/storage/upload/figures:\n",
    );
    let reserved = "pub const RESERVED_FOLDER_NAMES: &[&str] = &[\"create-presigned-url\", \"figures\"];";
    assert!(code.contains(reserved), "{code}");
}

#[test]
fn an_integer_of_32_bits_has_a_lenient_reader_too() {
    let total = "        total_files:\n          type: integer\n          format: int64\n";
    let code = generated_after("narrow_integer", total, &total.replace("int64", "int32"));
    assert!(code.contains("pub total_files: Option<i32>"), "{code}");
}

#[test]
fn a_comment_in_the_document_changes_nothing() {
    let code = generated_after("comment", "openapi: 3.0.3\n", "# A comment.\nopenapi: 3.0.3\n");
    assert_eq!(code, repository_file("crates/api/src/generated.rs"));
}

#[test]
fn descriptions_are_written_for_rustdoc() {
    let code = repository_file("crates/api/src/generated.rs");
    for text in ["Our decision", "†", "the tag ", "The tag "] {
        assert!(!code.contains(text), "{text}");
    }
    assert!(code.contains("/// One page of the files in a folder. Pages are counted from 1. Folders named"));
}

#[test]
fn what_is_only_received_may_grow_and_what_is_sent_stays_open() {
    let code = repository_file("crates/api/src/generated.rs");
    let is_closed = |item: &str| code.contains(&format!("    #[non_exhaustive]\n    pub {item} {{\n"));
    for received in ["struct TaskDetail", "struct NumConfig", "struct HazeRemovalOutput", "enum TaskStatus"] {
        assert!(is_closed(received), "{received}");
    }
    for sent in ["struct PresignRequest", "struct FileUrl", "struct HazeRemovalInput", "enum ModelSort"] {
        assert!(!is_closed(sent), "{sent}");
    }
}

#[test]
fn a_request_is_constructed_of_its_required_fields() {
    let code = repository_file("crates/api/src/generated.rs");
    for constructor in [
        "pub fn new(url: impl Into<String>) -> Self {",
        "pub fn new( folder: UploadFolder, mime: impl Into<String>, name: impl Into<String>, size: u64, ) -> Self {",
    ] {
        let words: Vec<&str> = code.split_whitespace().collect();
        assert!(words.join(" ").contains(constructor), "{constructor}");
    }
}

#[test]
fn a_named_text_is_an_opaque_identifier() {
    let folder = Folder::new("new_identifier");
    folder.write("document.yaml", &real_document().replace("FolderName", "NodeId"));
    folder.generate(&[]).succeeded();
    let code = folder.read("generated.rs");
    assert!(code.contains("pub struct NodeId(String);\n    crate::ids::opaque_id!(NodeId);"), "{code}");
}

#[test]
fn the_files_of_a_kind_are_of_any_type() {
    let code = repository_file("crates/api/src/generated.rs");
    assert!(code.contains("pub struct ImageBlendingInput<F = String> {"));
    assert!(code.contains("        pub mask_img: F,\n        /// Method of blending two images."));
}

#[test]
fn an_optional_file_of_a_kind_may_be_absent() {
    let code =
        generated_after("optional_file", "[bg_img, obj_img, mask_img, method]", "[bg_img, obj_img, method]");
    assert!(code.contains("pub mask_img: Option<F>,"), "{code}");
    assert!(
        above(&code, "ImageBlendingInput<F = String>", "mask_img").join("").contains("kinds::optional_file")
    );
    assert!(code.contains("mask_img: None,\n"), "{code}");
    assert!(code.contains("(\"mask_img\", self.mask_img)"), "{code}");
}

#[test]
fn a_kind_without_files_is_not_generic() {
    let image =
        "        input:\n          type: string\n          format: uri\n          description: The video.\n";
    let code = generated_after("kind_without_files", image, &image.replace("          format: uri\n", ""));
    assert!(code.contains("pub struct VideoEdgeMapInput {"), "{code}");
    assert!(code.contains("impl crate::ModelKind for types::VideoEdgeMapInput {"), "{code}");
}
