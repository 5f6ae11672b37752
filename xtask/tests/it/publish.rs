//! Publications: the files that other teams receive, and the mistakes that prevent a publication.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::support::{Folder, Said, real_document, real_version, replaced, repository_file};

const SOURCES: [&str; 21] = [
    "docs/controls.md",
    "docs/safe-creates.md",
    "docs/testing.md",
    "sdk/python/README.md",
    "sdk/typescript/README.md",
    "openapi/README.md",
    "openapi/examples/judge.py",
    "openapi/examples/run.cs",
    "openapi/examples/run.go",
    "openapi/examples/run.java",
    "openapi/examples/run.kt",
    "openapi/examples/run.php",
    "openapi/examples/run.rb",
    "openapi/examples/run.sh",
    "tests/contract/schemathesis.toml",
    "openapi/generators.md",
    "tests/contract/typescript/consumer.yaml",
    "openapi/redocly.yaml",
    "openapi/spectral.yaml",
    "openapi/flows.arazzo.yaml",
    "openapi/upload-and-run.arazzo.yaml",
];

/// A small repository with this document, and with the tools of the real one, which are installed once.
fn repository(name: &str, document: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("openapi/inferstore.yaml", document);
    let version = real_version();
    let dates = format!(
        "### The document 2.9.0 (2026-12-01)\n\n### The document {version} (2026-11-21)\n\nA <new> & `old`.\n"
    );
    folder.write("CHANGELOG.md", &dates);
    for file in SOURCES {
        folder.write(file, &repository_file(file));
    }
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools");
    fs::create_dir_all(&tools).expect("the folder of the tools can be made");
    fs::create_dir_all(folder.path("target")).expect("a folder can be made");
    symlink(&tools, folder.path("target/tools")).expect("the tools can be shared");
    folder
}

/// The first one installs the tools; no two may do so at once.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn publish(folder: &Folder, options: &[&str]) -> Said {
    let _turn = ONE_AT_A_TIME.lock();
    Said::by(folder.xtask(&folder.path("xtask")).arg("publish").args(options))
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).expect("a folder can be read") {
            let path = entry.expect("a folder can be read").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("it is below").to_owned();
                found.insert(name, fs::read(path).expect("a file can be read"));
            }
        }
    }
    found
}

fn schema(folder: &Folder, name: &str) -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(&folder.read(&format!("target/publish/schemas/{name}.json")))
        .expect("a schema is JSON");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    jsonschema::validator_for(&schema).expect("a schema needs no other file")
}

#[test]
fn a_publication_is_reproducible_byte_for_byte() {
    let one = repository("publish_one", &real_document());
    publish(&one, &[]).succeeded();
    let first = files(&one.path("target/publish"));
    let other = repository("publish_other_place", &real_document());
    other.write("target/publish/index.html", "the last publication");
    other.write("target/publish/gone.html", "no page of this version");
    publish(&other, &[]).succeeded();
    let elsewhere = files(&other.path("target/publish"));
    let differing: Vec<_> =
        first.iter().filter(|(name, bytes)| elsewhere.get(*name) != Some(bytes)).collect();
    assert!(differing.is_empty() && first.len() == elsewhere.len(), "{:?}", differing.first());
    let sums = String::from_utf8(first[Path::new("SHA256SUMS")].clone()).expect("it is text");
    assert_eq!(sums.lines().count(), first.len() - 1, "every other file has a checksum");
    assert_eq!(first[Path::new("inferstore.yaml")], real_document().into_bytes(), "the document as it is");

    schemas_tell_what_fits(&one);
    the_view_in_3_1_has_nothing_of_3_0(&one);
}

fn schemas_tell_what_fits(folder: &Folder) {
    let kinds: Value = serde_json::from_str(&folder.read("target/publish/kinds.json")).expect("it is JSON");
    assert_eq!(kinds.as_object().map(serde_json::Map::len), Some(15), "all kinds of the catalog");
    assert_eq!(kinds["color-harmonization"]["output"], "schemas/ColorHarmonizationOutput.json");
    let input = schema(folder, "ColorHarmonizationInput");
    let good = json!({"input_image": "https://storage.inferstore.example/a.png", "template": "v_shape", "angle": "30"});
    assert!(input.is_valid(&good));
    for (field, value) in [
        ("angle", json!(30)),
        ("angle", json!("91")),
        ("template", json!("round")),
        ("input_image", json!(null)),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        assert!(!input.is_valid(&bad), "{bad}");
    }
    let page = schema(folder, "TaskPage");
    assert!(page.is_valid(&json!({"records": null, "total": 0})));
    assert!(!page.is_valid(&json!({"records": [{"status": "success"}]})), "a task has an identifier");
}

fn the_view_in_3_1_has_nothing_of_3_0(folder: &Folder) {
    let view = folder.read("target/publish/inferstore-3.1.json");
    assert!(!view.contains("\"nullable\""), "3.1 has no such word");
    let view: Value = serde_json::from_str(&view).expect("it is JSON");
    let cost = &view["components"]["schemas"]["TaskDetail"]["properties"]["cost"]["type"];
    assert_eq!((&view["openapi"], cost), (&json!("3.1.1"), &json!(["number", "null"])));
}

#[test]
fn a_linter_an_example_or_the_version_can_stop_a_publication() {
    let real = real_document();
    let breaking = replaced(&real, "operationId: getBalance", "operationId: readBalance");
    for (document, reason) in [
        (replaced(&real, "      summary: Read the balance\n", ""), "does not pass"),
        (replaced(&real, "          example: 100\n", "          example: 1000\n"), "1000"),
        (breaking, "needs at least 3.0.0"),
    ] {
        let folder = repository("publish_refused", &document);
        folder.write(&published(), &real);
        folder.write("target/publish/index.html", "the last publication");
        let message = publish(&folder, &[]).failed();
        assert!(message.contains(reason), "{reason}: {message}");
        assert_eq!(folder.read("target/publish/index.html"), "the last publication");
    }
}

fn entries(folder: &Folder) -> Vec<Vec<String>> {
    const READ: &str = "import json, sys, xml.etree.ElementTree as t
atom = '{http://www.w3.org/2005/Atom}'
feed = t.parse(sys.argv[1]).getroot()
assert feed.findtext(atom + 'updated') == feed.findtext(f'{atom}entry/{atom}updated')
names = ['id', 'title', 'updated', 'content']
print(json.dumps([[entry.findtext(atom + name) for name in names] for entry in feed.iter(atom + 'entry')]))";
    let mut python = Command::new("python3");
    let read = Said::by(python.args(["-c", READ]).arg(folder.path("target/publish/feed.xml"))).succeeded();
    serde_json::from_str(&read).expect("it is JSON")
}

#[test]
fn a_version_without_a_day_is_not_published() {
    let folder = repository("publish_no_day", &real_document());
    folder.write("CHANGELOG.md", &format!("### The document {}\n", real_version()));
    let message = publish(&folder, &[]).failed();
    assert!(
        message.contains(&format!("no heading `### The document {} (YYYY-MM-DD)`", real_version())),
        "{message}"
    );
}

fn published() -> String {
    format!("openapi/published/{}.yaml", real_version())
}

#[test]
fn a_release_is_kept_and_reported_by_the_changelog_of_the_next_one() {
    let real = real_document();
    let folder = repository("publish_release", &real);
    let report = publish(&folder, &["--release"]).succeeded();
    assert!(report.ends_with(&format!("{} written; commit it\n", published())), "{report}");
    assert_eq!(folder.read(&published()), real);
    let before = entries(&folder);
    assert_eq!(before.len(), 1);
    assert!(before[0][3].contains("<p>A <new> &amp; <code>old</code>.</p>"), "{before:?}");

    let next = replaced(&real, "enum: [avatars,", "enum: [icons, avatars,");
    folder.write(
        "openapi/inferstore.yaml",
        &replaced(&next, &format!("version: {}", real_version()), "version: 2.9.0"),
    );
    publish(&folder, &["--release"]).succeeded();
    let changelog = folder.read("target/publish/changelog.md");
    let reported = format!(
        "## 2.9.0\n\n2026-12-01. Since {}: compatible.\n\n### createPresignedUpload\n\n- **compatible** \
        `#/components/schemas/UploadFolder/enum`: the word `icons` is accepted too\n",
        real_version()
    );
    assert!(changelog.contains(&reported), "{changelog}");
    let first =
        format!("## {}\n\n2026-11-21. The first published version.\n\nA <new> & `old`.\n", real_version());
    assert!(changelog.ends_with(&first), "{changelog}");
    let [first, second] = entries(&folder).try_into().expect("two versions");
    assert_eq!(
        (first[1].as_str(), first[2].as_str()),
        ("2.9.0", "2026-12-01T00:00:00Z"),
        "the last one is first"
    );
    assert_eq!(second, before[0], "a version stays as it is");
}
