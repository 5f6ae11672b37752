//! The code blocks of all pages: a test runs each as printed, parses it, or names what runs it or why nothing can.
//!
//! The shell blocks of a page run in their order in one shell, in a folder of their own. Ports, folders of the system
//! and placeholders such as `…` are replaced; every other character is that of the page.

mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::table::{BLOCKS, Check};
use crate::docs::{check, words_of_line};
use crate::support::PICTURE;

const PHOTO: &[u8] = include_bytes!("../../../../models/samples/small.jpg");

/// Folders without pages of ours.
const SKIPPED: [&str; 6] = ["target", "node_modules", "fuzz", "tmp", "dist", "published"];

/// A fenced block of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    page: String,
    language: String,
    text: String,
}

impl Block {
    fn first_line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// The row of the table for the block.
    fn check(&self) -> Option<&'static Check> {
        let is_this = |row: &&(&str, &str, Check)| row.0 == self.page && self.first_line().starts_with(row.1);
        BLOCKS.iter().find(is_this).map(|(.., check)| check)
    }

    /// Returns true if rustdoc compiles and runs the block: Rust in a page that a crate includes in its documentation.
    fn is_doctest(&self) -> bool {
        let Some((name, file)) = self.page.strip_prefix("crates/").and_then(|path| path.split_once('/'))
        else {
            return false;
        };
        let is_rust = matches!(&*self.language, "rust" | "rust,no_run" | "no_run")
            || (self.language.is_empty() && file.starts_with("src/"));
        let library =
            fs::read_to_string(root().join(format!("crates/{name}/src/lib.rs"))).unwrap_or_default();
        let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
        let is_of_cookbook = file.starts_with("src/cookbook/")
            && library.lines().any(|line| line.contains("pages!(") && line.contains(&*stem));
        is_rust && (is_of_cookbook || library.contains(&format!("include_str!(\"../{file}\")")))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn find_pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("it is a folder") {
        let path = entry.expect("it can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&&*name) {
            find_pages(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// Every block of every page, in the order of the pages.
fn blocks() -> Vec<Block> {
    let mut pages = Vec::new();
    find_pages(&root(), &mut pages);
    pages.sort();
    let mut blocks = Vec::new();
    for path in pages {
        let page = path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
        let mut open: Option<Block> = None;
        for line in fs::read_to_string(&path).expect("it is text").lines() {
            match (&mut open, line.trim_start().strip_prefix("```")) {
                (None, Some(language)) => {
                    let language = language.to_owned();
                    open = Some(Block { page: page.clone(), language, text: String::new() });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(block), None) => block.text.push_str(&format!("{line}\n")),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{page}: a block does not end");
    }
    blocks
}

#[test]
fn every_block_of_a_page_runs_is_parsed_or_has_a_reason() {
    let mut unknown = Vec::new();
    let mut unused: Vec<_> = BLOCKS.iter().map(|(page, line, _)| (*page, *line)).collect();
    for block in blocks() {
        if let Some(index) =
            unused.iter().position(|(page, line)| *page == block.page && block.first_line().starts_with(line))
        {
            unused.remove(index);
        }
        let is_checked = match &*block.language {
            // Output and drawings.
            "text" | "mermaid" => true,
            "json" => {
                let values = serde_json::Deserializer::from_str(&block.text).into_iter::<serde_json::Value>();
                values.count() > 0 && is_json(&block.text)
            }
            _ => block.is_doctest() || block.check().is_some(),
        };
        if !is_checked {
            unknown.push(format!("{}: ```{}: {}", block.page, block.language, block.first_line()));
        }
    }
    assert!(
        unknown.is_empty(),
        "no test runs these blocks; crates/cli/tests/it/pages has the table: {unknown:#?}"
    );
    assert!(unused.is_empty(), "rows without a block: {unused:#?}");
    for (page, line, check) in BLOCKS {
        match check {
            Check::By(test) => assert!(root().join(test).exists(), "{page}: {line}: there is no {test}"),
            Check::Not(reason) => assert!(reason.contains(' '), "{page}: {line}"),
            Check::Run(_) => {}
        }
    }
}

fn is_json(text: &str) -> bool {
    serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>().all(|value| value.is_ok())
}

#[test]
fn every_example_of_the_reference_is_valid() {
    let mut count = 0;
    for block in blocks().into_iter().filter(|block| block.page == "docs/cli.md" && block.language == "sh") {
        for line in block.text.replace("\\\n", " ").lines() {
            if let Some(words) = words_of_line(line) {
                check("docs/cli.md", line, &words, &[]);
                count += 1;
            }
        }
    }
    assert!(count > 100, "{count}");
}

/// Runs the blocks of a page that the table says to run.
fn run(page: &str) {
    let folder = tempfile::Builder::new().prefix("page-").tempdir().expect("a folder can be made");
    let write = |name: &str, content: &[u8]| {
        fs::write(folder.path().join(name), content).expect("a file can be written");
    };
    for (name, content) in [("street.jpg", PHOTO), ("hazy.png", PICTURE)] {
        write(name, content);
    }
    // A browser that is opened without a person.
    fs::create_dir(folder.path().join("bin")).expect("a folder can be made");
    write("bin/xdg-open", b"#!/bin/sh\n");
    let made = Command::new("chmod").args(["755", "bin/xdg-open"]).current_dir(folder.path()).status();
    assert!(made.expect("chmod runs").success());
    let mut script = include_str!("shell.sh").to_owned();
    let mut count = 0;
    for block in blocks().into_iter().filter(|block| block.page == page) {
        if let Some(Check::Run(before)) = block.check() {
            count += 1;
            script.push_str(&format!(
                "\n{before}\nblock <<'END-OF-THE-BLOCK'\n{}END-OF-THE-BLOCK\n",
                block.text
            ));
        }
    }
    assert!(count > 0, "{page} has no block to run");
    let program = Path::new(env!("CARGO_BIN_EXE_inferstore"));
    let programs = program.parent().expect("it is in a folder").display();
    let path = format!(
        "{}:{programs}:{}",
        folder.path().join("bin").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut shell = Command::new("bash");
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("INFERSTORE_") || name.starts_with("AWS_"))
    {
        shell.env_remove(name);
    }
    shell
        .env("REPOSITORY", root())
        .env("PATH", path)
        .env("HOME", folder.path())
        .env("INFERSTORE_CONFIG", folder.path().join("profiles.json"));
    let ended = shell.args(["-c", &script]).current_dir(folder.path()).output().expect("bash runs");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    let printed = fs::read_to_string(folder.path().join("printed")).unwrap_or_default();
    assert!(ended.status.success(), "{page}: {}\n{stderr}\nprinted: {printed}", ended.status);
}

macro_rules! pages {
    ($($name:ident: $page:literal)*) => {
        $(#[test] fn $name() { run($page); })*

        #[test]
        fn every_page_with_blocks_to_run_is_run() {
            let pages = [$($page),*];
            let missing = BLOCKS.iter().find(|row| matches!(row.2, Check::Run(_)) && !pages.contains(&row.0));
            assert!(missing.is_none(), "{:?}", missing.map(|row| row.0));
        }
    };
}

pages! {
    readme_runs: "README.md"
    admin_runs: "docs/admin.md"
    admin_http_runs: "docs/admin-http.md"
    bucket_runs: "docs/bucket.md"
    console_runs: "docs/console.md"
    controls_run: "docs/controls.md"
    mcp_runs: "docs/mcp.md"
    monitoring_runs: "docs/monitoring.md"
    node_protocol_runs: "docs/node-protocol.md"
    nodes_run: "docs/nodes.md"
    own_model_runs: "docs/own-model.md"
    pictures_run: "docs/pictures.md"
    troubleshooting_runs: "docs/troubleshooting.md"
    document_runs: "openapi/README.md"
}
