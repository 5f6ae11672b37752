//! The rules of the repository as a program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};
use inferstore_contract::repository::files;
use serde_json::Value;

use crate::links;
use crate::package::{self, list};

/// A longer file has more than one topic.
const MAX_LINES: usize = 600;

const MAX_PAGE_LINES: usize = 400;

/// Written by `inferstore reference` and by `cargo xtask bench --publish`.
const GENERATED_PAGES: [&str; 2] = ["docs/cli.md", "docs/scoreboard.md"];

const GENERATED: &str = "crates/api/src/generated.rs";

/// Crates of the workspace that each crate may use. A crate that is not listed may use none.
const DIRECTIONS: [(&str, &str); 17] = [
    ("crates/api", "inferstore-document inferstore-drift inferstore-wire"),
    // The test kit and the wire are for tests alone.
    ("crates/client", "inferstore-api inferstore-testing inferstore-wire"),
    ("crates/batch", "inferstore inferstore-testing"),
    ("crates/profiles", "inferstore inferstore-wire"),
    ("crates/testing", "inferstore inferstore-api"),
    (
        "crates/cli",
        "inferstore inferstore-batch inferstore-console inferstore-drift inferstore-measure inferstore-node \
         inferstore-profiles inferstore-service inferstore-wire",
    ),
    (
        "crates/console",
        "inferstore inferstore-api inferstore-fetch inferstore-server inferstore-service inferstore-wire",
    ),
    // The table of operations of the API crate is for the controls of testers alone, and the node crate for the
    // processes of the built-in models.
    (
        "crates/service",
        "inferstore-api inferstore-fetch inferstore-measure inferstore-models inferstore-node inferstore-server \
         inferstore-wire",
    ),
    ("crates/fetch", "inferstore-wire"),
    ("crates/node", "inferstore-fetch inferstore-wire"),
    (
        "tests",
        "inferstore inferstore-api inferstore-batch inferstore-cli inferstore-document inferstore-fetch inferstore-fuzz \
         inferstore-measure inferstore-models inferstore-node inferstore-service inferstore-testing inferstore-wire",
    ),
    ("tests/document", "inferstore-api"),
    ("tests/fuzz", "inferstore-document inferstore inferstore-api inferstore-models inferstore-service"),
    ("crates/models", "inferstore-measure"),
    ("tests/contract", "openapi-impact"),
    ("tools/mutants", "inferstore-contract"),
    ("xtask", "inferstore-contract inferstore-drift inferstore-measure inferstore-wire openapi-impact"),
];

/// The layers of crates, from the bottom: a module imports only those before it.
const LAYERS: [(&str, &str); 3] = [
    ("crates/client/src/", "memory transport files inputs run resources"),
    ("crates/console/src/", "text assets parts failure cache guard runs state files form shown call pages"),
    (
        "crates/service/src/",
        "error hex ids string_enum clock random ledger accounts catalog queue files registry operator metrics telemetry \
         config database http folder marker models policies totals shared_clock shared_files background object_storage \
         nodes transfer jobs api admin operations controls lifecycle",
    ),
];

const WHOLE_SERVICES: &str = "crates/service/src/database/postgres/tests/";

const MAX_NAME: usize = 70;

const MACHINE_PATHS: [&str; 3] = ["/home/", "/root/", "/Users/"];

/// Beginnings of clauses without a noun. A doc comment begins with a verb or a noun instead.
const RIDDLES: [&str; 10] =
    ["What ", "When ", "How ", "Whatever ", "Whether ", "Which ", "Where ", "Who ", "Those ", "One that "];

type Rule = (&'static str, fn(&Files) -> Vec<String>);

pub(crate) fn tidy(root: &Path) -> Result<String> {
    let files = Files::read(root)?;
    let rules: [Rule; 10] = [
        ("a hand-written Rust file has at most 600 lines", |files| longer_than(MAX_LINES, files.rust())),
        ("the name of a function has at most 70 characters", names_are_short),
        ("a Rust file begins with a line that says what it is for", files_say_what_they_are_for),
        ("a doc comment begins with a verb or a noun", doc_comments_are_plain),
        ("crates use each other only in the agreed directions", crates_keep_their_directions),
        ("a layer of a crate imports only those below it", crates_keep_their_layers),
        ("every snapshot belongs to a test", snapshots_belong_to_tests),
        ("nothing names a path of one machine", no_machine_paths),
        ("a hand-written page has at most 400 lines", |files| longer_than(MAX_PAGE_LINES, files.pages())),
        ("a link between pages leads to a file and a heading", |files| links::broken(&files.texts)),
    ];
    let mut broken = Vec::new();
    for (rule, check) in rules {
        broken.extend(check(&files).into_iter().map(|place| format!("{place}\n    rule: {rule}")));
    }
    if !broken.is_empty() {
        bail!("rules of the repository are broken\n  {}", broken.join("\n  "));
    }
    Ok(format!("{} files keep {} rules\n", files.texts.len(), rules.len()))
}

struct Files {
    texts: BTreeMap<String, String>,
    metadata: Value,
}

/// The files of the repository, by path: what git tracks or would track.
impl Files {
    fn read(root: &Path) -> Result<Self> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let texts = files(root)?.into_iter().map(|(name, bytes)| (name, text(bytes))).collect();
        let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
        Ok(Self { texts, metadata: package::read_metadata(root, &arguments)? })
    }

    fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ending(".rs").filter(|(name, _)| *name != GENERATED)
    }

    fn pages(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ending(".md").filter(|(name, _)| !GENERATED_PAGES.contains(name))
    }

    fn ending(&self, end: &'static str) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .filter(move |(name, _)| name.ends_with(end))
            .map(|(name, text)| (name.as_str(), text.as_str()))
    }
}

fn longer_than<'a>(max: usize, files: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    files
        .map(|(name, text)| (name, text.lines().count()))
        .filter(|(_, lines)| *lines > max)
        .map(|(name, lines)| format!("{name} has {lines} lines"))
        .collect()
}

fn files_say_what_they_are_for(files: &Files) -> Vec<String> {
    files.rust().filter(|(_, text)| !text.starts_with("//! ")).map(|(name, _)| format!("{name}:1")).collect()
}

fn doc_comments_are_plain(files: &Files) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, text) in files.rust().filter(|(name, _)| !name.ends_with("/generated.rs")) {
        let mut is_inside = false;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            let first = comment.filter(|_| !is_inside).map(str::trim_start).unwrap_or_default();
            if RIDDLES.iter().any(|riddle| first.starts_with(riddle)) {
                broken.push(format!("{name}:{}", number + 1));
            }
            is_inside = comment.is_some();
        }
    }
    broken
}

fn crates_keep_their_directions(files: &Files) -> Vec<String> {
    let packages = list(&files.metadata["packages"]);
    let root = files.metadata["workspace_root"].as_str().unwrap_or_default();
    let mut broken = Vec::new();
    for package in packages {
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let manifest = manifest.trim_start_matches(root).trim_start_matches('/');
        let folder = manifest.trim_end_matches("/Cargo.toml");
        let allowed =
            DIRECTIONS.iter().find(|(known, _)| *known == folder).map_or("", |(_, allowed)| allowed);
        let used: BTreeSet<&str> = list(&package["dependencies"])
            .iter()
            .filter_map(|dependency| dependency["name"].as_str())
            .collect();
        let is_refused = |used: &&&str| {
            !allowed.split(' ').any(|name| name == **used)
                && packages.iter().any(|package| package["name"] == **used)
        };
        broken.extend(used.iter().filter(is_refused).map(|used| format!("{manifest} uses {used}")));
    }
    // Cargo reports the packages of the workspace alone.
    let is_reported =
        |name: &str| packages.iter().any(|package| package["manifest_path"] == format!("{root}/{name}"));
    for (name, text) in files.ending("/Cargo.toml").filter(|(name, _)| !is_reported(name)) {
        for (number, line) in text.lines().enumerate() {
            if line.replace(' ', "").contains("path=\"..") {
                broken.push(format!("{name}:{} uses a path out of its folder", number + 1));
            }
        }
    }
    // Two readings of the document that check each other: the service may not take the types of the other one.
    let shares = |(name, text): &(&str, &str)| {
        let is_service = name.starts_with("crates/service/src/");
        is_service && !name.starts_with("crates/service/src/controls/") && text.contains("inferstore_api")
    };
    broken.extend(files.rust().filter(shares).map(|(name, _)| format!("{name} uses inferstore-api")));
    broken
}

fn names_are_short(files: &Files) -> Vec<String> {
    let mut broken = Vec::new();
    for (path, text) in files.rust() {
        for (number, line) in text.lines().enumerate() {
            let code = line.trim_start();
            let function = code.strip_prefix("async fn ").or_else(|| code.strip_prefix("fn "));
            let name = function.and_then(|rest| rest.split('(').next()).unwrap_or_default();
            if name.len() > MAX_NAME {
                broken.push(format!("{path}:{} {name}", number + 1));
            }
        }
    }
    broken
}

fn crates_keep_their_layers(files: &Files) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, text) in files.rust().filter(|(name, _)| !name.starts_with(WHOLE_SERVICES)) {
        let Some((path, layers)) =
            LAYERS.iter().find_map(|(root, layers)| Some((name.strip_prefix(root)?, *layers)))
        else {
            continue;
        };
        let layers: Vec<&str> = layers.split(' ').collect();
        let layer = path.split(['/', '.']).next();
        let Some(own) = layers.iter().position(|known| Some(*known) == layer) else { continue };
        let above = imported_modules(text).filter(|(_, module)| layers[own + 1..].contains(module));
        broken.extend(above.map(|(line, module)| format!("{name}:{line} imports {module}")));
    }
    broken
}

/// Returns the modules after each `crate::`, also those in braces, with the lines of their imports.
fn imported_modules(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices("crate::").flat_map(|(at, prefix)| {
        let import = &text[at + prefix.len()..];
        let (list, count) = match import.strip_prefix('{') {
            Some(list) => (list.split('}').next().unwrap_or_default(), usize::MAX),
            None => (import, 1),
        };
        let line = text[..at].lines().count().max(1);
        list.split(',').take(count).filter_map(move |item| {
            let module = item.trim_start().split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            Some((line, module.into_iter().next()?))
        })
    })
}

/// insta names a snapshot file `<binary>__<modules>__<snapshot>.snap`, in a folder beside the file of
/// the test that owns it; and that file names the snapshot.
fn snapshots_belong_to_tests(files: &Files) -> Vec<String> {
    files
        .ending(".snap")
        .filter(|(name, _)| {
            let Some((folder, file)) = name.rsplit_once("/snapshots/") else { return true };
            let parts: Vec<&str> = file.trim_end_matches(".snap").split("__").collect();
            let [_, modules @ .., snapshot] = &parts[..] else { return true };
            !modules.iter().chain(&["main", "lib", "mod"]).any(|module| {
                files.texts.get(&format!("{folder}/{module}.rs")).is_some_and(|text| names(text, snapshot))
            })
        })
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Returns true if the text has the name of the snapshot as a literal, as a function, as the test that a macro makes
/// or, for a snapshot whose name ends with a number, as a format.
fn names(text: &str, snapshot: &str) -> bool {
    let format = snapshot.trim_end_matches(|last: char| last.is_ascii_digit());
    let forms = [format!("\"{snapshot}\""), format!("fn {snapshot}("), format!("!({snapshot},")];
    forms.iter().any(|form| text.contains(form))
        || format != snapshot && text.contains(&format!("\"{format}{{"))
}

fn no_machine_paths(files: &Files) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, text) in files.texts.iter().filter(|(name, _)| *name != "xtask/src/tidy.rs") {
        for (number, line) in text.lines().enumerate() {
            if MACHINE_PATHS.iter().any(|path| line.contains(path)) {
                broken.push(format!("{name}:{}", number + 1));
            }
        }
    }
    broken
}
