//! The rules of the repository as a program.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::document::Document;
use crate::generate::HASH_LABEL;

/// A longer file has more than one topic.
const MAX_LINES: usize = 600;

const GENERATED: &str = "crates/api/src/generated.rs";

/// Which crates of the workspace a crate may use. A crate that is not listed may use none.
const DIRECTIONS: &[(&str, &[&str])] = &[
    ("crates/client", &["inferstore-api"]),
    (
        "crates/cli",
        &["inferstore", "inferstore-console", "inferstore-measure", "inferstore-node", "inferstore-service"],
    ),
    ("crates/console", &["inferstore", "inferstore-api", "inferstore-service"]),
    // The table of operations of the API crate is for the controls of testers alone, and the node crate for the
    // processes of the built-in models.
    (
        "crates/service",
        &["inferstore-api", "inferstore-fetch", "inferstore-measure", "inferstore-models", "inferstore-node"],
    ),
    ("crates/node", &["inferstore-fetch"]),
    (
        "tests",
        &[
            "inferstore",
            "inferstore-api",
            "inferstore-cli",
            "inferstore-fetch",
            "inferstore-fuzz",
            "inferstore-measure",
            "inferstore-models",
            "inferstore-node",
            "inferstore-service",
        ],
    ),
    ("tests/fuzz", &["inferstore", "inferstore-api", "inferstore-models", "inferstore-service"]),
    ("crates/models", &["inferstore-measure"]),
    ("crates/openapi-impact", &[]),
    ("tests/contract", &["openapi-impact"]),
    ("xtask", &["inferstore-contract", "inferstore-measure", "openapi-impact"]),
    // These use none.
    ("crates/api", &[]),
    ("crates/fetch", &[]),
    ("crates/measure", &[]),
];

/// Marks of the machine that something was written on.
const MACHINE_PATHS: [&str; 3] = ["/home/", "/root/", "/Users/"];

/// A rule, and what finds the places that break it.
type Rule = (&'static str, fn(&Files) -> Vec<String>);

pub(crate) fn tidy(root: &Path) -> Result<String> {
    let files = Files::read(root)?;
    let rules: [Rule; 6] = [
        ("a hand-written Rust file has at most 600 lines", files_are_short),
        ("a Rust file begins with a line that says what it is for", files_say_what_they_are_for),
        ("crates use each other only in the agreed directions", crates_keep_their_directions),
        ("every snapshot belongs to a test", snapshots_belong_to_tests),
        ("the generated file carries the hash of the document", generated_file_fits_the_document),
        ("nothing names a path of one machine", no_machine_paths),
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

/// The texts of the repository, by path: what git tracks or would track.
struct Files {
    texts: BTreeMap<String, String>,
}

impl Files {
    fn read(root: &Path) -> Result<Self> {
        let mut git = Command::new("git");
        git.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
        if root != Path::new("") {
            git.current_dir(root);
        }
        let output = git.output().context("cannot run git, which knows the files of the repository")?;
        ensure!(
            output.status.success(),
            "git cannot list the files: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let names = String::from_utf8(output.stdout).context("git lists a file whose name is not UTF-8")?;
        // What cannot be read as text is a picture, or deleted and not yet committed.
        let texts = names
            .split_terminator('\0')
            .filter_map(|name| Some((name.to_owned(), fs::read_to_string(root.join(name)).ok()?)));
        Ok(Self { texts: texts.collect() })
    }

    fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ending(".rs").filter(|(name, _)| *name != GENERATED)
    }

    fn ending(&self, end: &'static str) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .filter(move |(name, _)| name.ends_with(end))
            .map(|(name, text)| (name.as_str(), text.as_str()))
    }
}

fn files_are_short(files: &Files) -> Vec<String> {
    files
        .rust()
        .map(|(name, text)| (name, text.lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(name, lines)| format!("{name} has {lines} lines"))
        .collect()
}

fn files_say_what_they_are_for(files: &Files) -> Vec<String> {
    files.rust().filter(|(_, text)| !text.starts_with("//! ")).map(|(name, _)| format!("{name}:1")).collect()
}

fn crates_keep_their_directions(files: &Files) -> Vec<String> {
    let workspace: Vec<&str> =
        files.ending("Cargo.toml").filter_map(|(_, text)| package_name(text)).collect();
    let mut broken = Vec::new();
    for (name, text) in files.ending("/Cargo.toml") {
        let folder = name.trim_end_matches("/Cargo.toml");
        let allowed =
            DIRECTIONS.iter().find(|(known, _)| *known == folder).map_or(&[][..], |(_, allowed)| allowed);
        for (number, line) in text.lines().enumerate() {
            if let Some(used) = dependency(line)
                && workspace.contains(&used)
                && !allowed.contains(&used)
            {
                broken.push(format!("{name}:{} uses {used}", number + 1));
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

/// The dependency that the line of a manifest declares: `name.workspace = true`,
/// `name = { path = "…" }` or `[dependencies.name]`.
fn dependency(line: &str) -> Option<&str> {
    if let Some((_, name)) = line.trim_end_matches(']').split_once("dependencies.") {
        return Some(name);
    }
    let declares = line.contains("workspace = true") || line.contains("path =");
    line.split(['.', ' ', '=']).next().filter(|_| declares)
}

fn package_name(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.strip_prefix("name = ")).map(|name| name.trim_matches('"'))
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
            // A test with a snapshot for each of some numbers names what stands before them.
            let snapshot = snapshot.trim_end_matches(|last: char| last.is_ascii_digit());
            !modules.iter().chain(&["main", "lib", "mod"]).any(|module| {
                files.texts.get(&format!("{folder}/{module}.rs")).is_some_and(|text| names(text, snapshot))
            })
        })
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn names(text: &str, snapshot: &str) -> bool {
    let mut words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.any(|word| word.trim_end_matches(|last: char| last.is_ascii_digit()) == snapshot)
}

fn generated_file_fits_the_document(files: &Files) -> Vec<String> {
    let stamped = files
        .texts
        .get(GENERATED)
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix(HASH_LABEL)));
    let document = files.texts.get("openapi/inferstore.yaml").and_then(|text| Document::hash_of(text));
    match (stamped, document) {
        (Some(stamped), Some(document)) if stamped == document => Vec::new(),
        _ => vec![format!("{GENERATED}:2")],
    }
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
