//! The rules of the repository: each fires on a planted break, and none on a tree that keeps them.

use crate::support::{Folder, Said, replaced};

fn clean_tree(name: &str) -> Folder {
    let folder = Folder::new(name);
    let manifest = |name: &str, dependencies: &str| {
        format!("[package]\nname = \"{name}\"\n\n[dependencies]\n{dependencies}")
    };
    folder.write(
        "Cargo.toml",
        "[workspace]\nmembers = [\"crates/*\"]\n\n[workspace.dependencies]\nserde = \"1\"\n\
         inferstore = { path = \"crates/client\" }\ninferstore-api = { path = \"crates/api\" }\n",
    );
    folder.write("crates/api/src/generated.rs", &format!("// @generated\n{}", "mod a {}\n".repeat(700)));
    folder.write("crates/api/Cargo.toml", &manifest("inferstore-api", "serde.workspace = true\n"));
    folder.write("crates/api/src/lib.rs", &format!("//! The raw client.\n{}", "mod a {}\n".repeat(399)));
    folder.write("crates/client/Cargo.toml", &manifest("inferstore", "inferstore-api.workspace = true\n"));
    folder.write("crates/client/src/lib.rs", "//! The client.\nmod files;\n");
    folder.write("crates/service/Cargo.toml", &manifest("inferstore-service", ""));
    folder.write("crates/service/src/lib.rs", "//! The service.\nmod database;\n");
    folder.write("crates/service/src/jobs.rs", "//! Jobs.\nuse crate::{Error, database};\n");
    folder.write("crates/client/src/files/upload.rs", "//! Uploads.\nuse crate::transport::Error;\n");
    folder.write("tests/it/main.rs", "//! Tests.\nmod wire;\n");
    folder.write(
        "tests/it/wire.rs",
        "//! Requests on the wire.\nfn get_task() {}\n// \"a_snapshot\", format!(\"terminal_{columns}\")\n",
    );
    folder.write("tests/it/snapshots/it__wire__get_task.snap", "");
    folder.write("tests/it/snapshots/it__wire__a_snapshot.snap", "");
    folder.write("tests/it/snapshots/it__wire__terminal_80.snap", "");
    folder.write(
        "README.md",
        "# Inferstore\n\n[Tests](docs/tests.md#the-first-one), [below](#inferstore), [all](tests/)\n",
    );
    folder.write(
        "docs/tests.md",
        "# Tests\n\n## The `first` one\n\n[Up](../README.md), `[code](nowhere.md)`\n",
    );
    folder.write(".gitignore", "/target\n");
    folder.write("target/ignored.rs", "fn ignored() {}\n");
    folder.git(&["init", "--quiet"]);
    folder
}

fn tidy(folder: &Folder) -> Said {
    Said::by(folder.xtask(&folder.path("xtask")).arg("tidy"))
}

fn assert_broken(folder: &Folder, place: &str, rule: &str) {
    let expected = format!("error: rules of the repository are broken\n  {place}\n    rule: {rule}\n");
    assert_eq!(tidy(folder).failed(), expected);
}

#[test]
fn a_tree_that_keeps_the_rules_passes() {
    let report = tidy(&clean_tree("tidy_clean")).succeeded();
    assert_eq!(report, "18 files keep 10 rules\n");
}

#[test]
fn what_is_staged_counts_like_what_is_not() {
    let folder = clean_tree("tidy_staged");
    folder.write("xtask/src/main.rs", "fn main() {}\n");
    folder.git(&["add", "xtask"]);
    let rule = "a Rust file begins with a line that says what it is for";
    assert_broken(&folder, "xtask/src/main.rs:1", rule);
}

#[test]
fn a_long_file_is_reported() {
    let folder = clean_tree("tidy_long");
    folder.write("crates/api/src/lib.rs", &format!("//! The raw client.\n{}", "mod a {}\n".repeat(600)));
    let rule = "a hand-written Rust file has at most 600 lines";
    assert_broken(&folder, "crates/api/src/lib.rs has 601 lines", rule);
}

#[test]
fn a_long_page_is_reported() {
    let folder = clean_tree("tidy_long_page");
    folder.write("docs/cli.md", &"A line.\n".repeat(401));
    folder.write("docs/long.md", &"A line.\n".repeat(401));
    assert_broken(&folder, "docs/long.md has 401 lines", "a hand-written page has at most 400 lines");
}

#[test]
fn a_doc_comment_that_begins_with_a_clause_is_reported() {
    let folder = clean_tree("tidy_doc_comment");
    let constants = "/// Number of retries,\n/// When they are due.\nconst A: u8 = 1;\n/// How often it runs.\nconst B: u8 = 1;\n";
    folder.write("crates/api/src/new.rs", &format!("//! A file.\n\n{constants}"));
    assert_broken(&folder, "crates/api/src/new.rs:6", "a doc comment begins with a verb or a noun");
}

#[test]
fn a_link_that_leads_nowhere_is_reported() {
    let rule = "a link between pages leads to a file and a heading";
    let targets = ["nowhere.md", "tests.md#the-second-one", "#below", "../../README.md"];
    for (index, target) in targets.iter().enumerate() {
        let folder = clean_tree(&format!("tidy_link_{index}"));
        let (line, before) = if index % 2 == 0 { (3, "See ") } else { (4, "See\n") };
        folder.write("docs/new.md", &format!("# New\n\n{before}[this]({target}).\n"));
        assert_broken(&folder, &format!("docs/new.md:{line} links to {target}"), rule);
    }
}

#[test]
fn a_file_that_does_not_say_what_it_is_for_is_reported() {
    let rule = "a Rust file begins with a line that says what it is for";
    for (index, text) in
        ["", "fn main() {}\n", "\n//! Too late.\n", "// A mere comment.\n"].iter().enumerate()
    {
        let folder = clean_tree(&format!("tidy_silent_{index}"));
        folder.write("crates/api/examples/call.rs", text);
        assert_broken(&folder, "crates/api/examples/call.rs:1", rule);
    }
}

#[test]
fn a_crate_that_uses_one_it_may_not_is_reported_however_it_spells_it() {
    let rule = "crates use each other only in the agreed directions";
    let spellings = [
        "inferstore.workspace = true\n",
        "inferstore = { workspace = true, features = [\"tls\"] }\n",
        "inferstore.workspace=true\n",
        "inferstore={workspace=true}\n",
        "inferstore = { path = \"../client\" }\n",
        "raw = { package = \"inferstore\", path = \"../client\" }\n",
        "[dependencies.inferstore]\nworkspace = true\n",
        "[target.'cfg(unix)'.dev-dependencies.inferstore]\nworkspace = true\n",
    ];
    for (index, spelling) in spellings.iter().enumerate() {
        let folder = clean_tree(&format!("tidy_direction_{index}"));
        let manifest = folder.read("crates/api/Cargo.toml");
        folder.write("crates/api/Cargo.toml", &replaced(&manifest, "serde.workspace = true\n", spelling));
        assert_broken(&folder, "crates/api/Cargo.toml uses inferstore", rule);
    }
}

#[test]
fn a_crate_that_is_not_listed_may_use_none() {
    let folder = clean_tree("tidy_newcomer");
    let text = "[package]\nname = \"newcomer\"\n\n[dependencies]\ninferstore-api.workspace = true\n";
    folder.write("crates/newcomer/Cargo.toml", text);
    folder.write("crates/newcomer/src/lib.rs", "//! New.\n");
    let rule = "crates use each other only in the agreed directions";
    assert_broken(&folder, "crates/newcomer/Cargo.toml uses inferstore-api", rule);
}

#[test]
fn a_long_name_of_a_function_is_reported() {
    let folder = clean_tree("tidy_long_name");
    let name = "a".repeat(71);
    folder.write(
        "tests/it/long.rs",
        &format!("//! Tests.\nfn {}() {{}}\n    async fn {name}() {{}}\n", &name[1..]),
    );
    let rule = "the name of a function has at most 70 characters";
    assert_broken(&folder, &format!("tests/it/long.rs:3 {name}"), rule);
}

#[test]
fn a_layer_that_imports_one_above_it_is_reported() {
    let rule = "a layer of a crate imports only those below it";
    for (index, (file, import)) in [
        ("crates/client/src/files/upload.rs", "use crate::run::Run;\n"),
        ("crates/client/src/memory.rs", "fn f(_: crate::transport::Retry) {}\n"),
        ("crates/service/src/database/mod.rs", "use crate::api::Caller;\n"),
        ("crates/service/src/nodes/mod.rs", "use crate::{lifecycle::Service, Error};\n"),
    ]
    .iter()
    .enumerate()
    {
        let folder = clean_tree(&format!("tidy_layer_{index}"));
        folder.write(file, &format!("//! A layer.\n{import}"));
        let module = import.split("::").nth(1).expect("it imports a module").trim_start_matches('{');
        assert_broken(&folder, &format!("{file}:2 imports {module}"), rule);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_reported_and_one_that_is_no_text_is_not() {
    let folder = clean_tree("tidy_unreadable");
    std::fs::write(folder.path("picture.png"), [0xff, 0xd8]).expect("a file can be written");
    tidy(&folder).succeeded();
    std::os::unix::fs::symlink("loop", folder.path("loop")).expect("a link can be made");
    let message = tidy(&folder).failed();
    assert!(message.starts_with("error: cannot read loop: "), "{message}");
}

#[test]
fn a_snapshot_that_no_test_names_is_reported() {
    let rule = "every snapshot belongs to a test";
    for (index, snapshot) in [
        "it__wire__get_tas.snap",
        "it__wire__sent.snap",
        "it__wire__a_snapshot_7.snap",
        "it__gone__get_task.snap",
        "get_task.snap",
    ]
    .iter()
    .enumerate()
    {
        let folder = clean_tree(&format!("tidy_snapshot_{index}"));
        let place = format!("tests/it/snapshots/{snapshot}");
        folder.write(&place, "");
        assert_broken(&folder, &place, rule);
    }
}

#[test]
fn a_path_of_one_machine_is_reported_with_its_line() {
    let rule = "nothing names a path of one machine";
    // In two pieces, so that this file keeps the rule.
    for (index, home) in [["/ho", "me/ada"], ["/ro", "ot/.cargo"], ["/Use", "rs/ada"]].iter().enumerate() {
        let folder = clean_tree(&format!("tidy_machine_{index}"));
        folder.write("README.md", &format!("# Inferstore\n\nIt lives in {}.\n", home.concat()));
        assert_broken(&folder, "README.md:3", rule);
    }
}

#[test]
fn every_break_is_reported_at_once() {
    let folder = clean_tree("tidy_many");
    folder.write("README.md", &["/ho", "me/ada\n"].concat());
    folder.write("crates/api/src/lib.rs", "");
    let message = tidy(&folder).failed();
    assert_eq!(message.matches("    rule: ").count(), 2, "{message}");
}

#[test]
fn a_folder_that_is_no_repository_is_reported() {
    let folder = Folder::new("tidy_no_repository");
    let mut command = folder.xtask(&folder.path("xtask"));
    // Otherwise git would find the repository that this one stands in.
    command.env("GIT_CEILING_DIRECTORIES", env!("CARGO_TARGET_TMPDIR"));
    let message = Said::by(command.arg("tidy")).failed();
    assert!(message.starts_with("error: git cannot list the files: "), "{message}");
}
