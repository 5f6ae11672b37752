//! How long a user of the client waits for the compiler, beside users of other clients: cold, and after
//! an edit. Every program is a package of its own outside the workspace, so that nothing here helps ours.

mod program;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::row::{Better, Row, median};
use program::{Kind, Program};

/// Where the programs, and a copy of our crates, come to be.
const WORK: &str = "target/bench/builds";

const ROUNDS: usize = 3;

/// How often the program is edited in a round; the median counts.
const EDITS: usize = 3;

const OURS: [Kind; 2] = [
    Kind {
        name: "inferstore",
        shown: "a program that runs a model",
        dependency: "inferstore = { path = \"../source/crates/client\" }",
        edit: Some(("crates/client/src/run/execution.rs", "the service states no price")),
    },
    Kind {
        name: "inferstore_api",
        shown: "a program over the raw client",
        dependency: "inferstore-api = { path = \"../source/crates/api\" }",
        edit: Some(("crates/api/src/client.rs", "the path {path:?}")),
    },
];

/// With default features, and what the same kind of call needs.
const PEERS: [Kind; 2] = [
    Kind {
        name: "async_openai",
        shown: "async-openai 0.43.0",
        dependency: "async-openai = { version = \"=0.43.0\", features = [\"chat-completion\"] }",
        edit: None,
    },
    Kind { name: "oxide", shown: "oxide 0.19.0", dependency: "oxide = \"=0.19.0\"", edit: None },
];

/// Said of an edit that takes us longer.
const WHY_BEHIND: &str = "what is generic in the client is compiled with the program that uses it, and the program \
                          over the raw client shows how much that is; less of it would be a quicker build";

/// What a program took, round by round.
#[derive(Default)]
struct Figures {
    cold: Vec<f64>,
    /// After an edit in the program.
    edited: Vec<f64>,
    /// After an edit in our crate below it.
    maintained: Vec<f64>,
    packages: usize,
    megabytes: f64,
}

pub(super) fn builds(root: &Path, rows: &mut Vec<Row>) -> Result<()> {
    let work = root.join(WORK);
    let source = copy_of_our_crates(root, &work)?;
    let mut programs = Vec::new();
    for kind in OURS.iter().chain(&PEERS) {
        programs.push((Program::prepare(root, &work, kind)?, Figures::default()));
    }
    for _ in 0..ROUNDS {
        for (program, figures) in &mut programs {
            figures.measure(program, &source)?;
        }
    }
    let (ours, peers) = programs.split_at(OURS.len());
    let pairs = ours.iter().flat_map(|ours| peers.iter().map(move |theirs| (ours, theirs)));
    rows.extend(pairs.flat_map(|((ours, figures), (peer, theirs))| beside(ours, figures, peer, theirs)));
    Ok(())
}

impl Figures {
    /// One round, from nothing to nothing.
    fn measure(&mut self, program: &mut Program, source: &Path) -> Result<()> {
        program.clean()?;
        let cold = program.build()?;
        self.cold.push(cold.seconds);
        (self.packages, self.megabytes) = (cold.packages, program.megabytes()?);
        let edits = (0..EDITS).map(|_| program.rebuild()).collect::<Result<Vec<_>>>()?;
        self.edited.push(median(&edits));
        if let Some(edit) = program.kind.edit {
            self.maintained.push(program.rebuild_over(source, edit)?);
        }
        program.clean()
    }
}

/// Both builds of one of our programs beside those of one peer.
fn beside(ours: &Program, figures: &Figures, peer: &Program, theirs: &Figures) -> [Row; 2] {
    let row = |what: &str, ours_took: &[f64], theirs_took: &[f64], note: String| Row {
        group: "build".to_owned(),
        what: format!("{what} {}", ours.kind.shown),
        against: peer.kind.shown.to_owned(),
        unit: "s".to_owned(),
        better: Better::Lower,
        ours: ours_took.to_vec(),
        theirs: theirs_took.to_vec(),
        bar: None,
        note: Some(note),
        command: "cargo xtask bench build".to_owned(),
    };
    let size = format!(
        "{} packages and {:.0} MB, beside {} packages and {:.0} MB",
        figures.packages, figures.megabytes, theirs.packages, theirs.megabytes
    );
    let maintained =
        format!("after an edit in {} itself it takes {:.1} s", ours.kind.name, median(&figures.maintained));
    let mut edited = row("build after an edit in", &figures.edited, &theirs.edited, maintained);
    if edited.is_behind() {
        edited.note = edited.note.map(|note| format!("{note}; {WHY_BEHIND}"));
    }
    [row("cold build of", &figures.cold, &theirs.cold, size), edited]
}

/// Our crates as a user gets them: without the rest of the workspace and its lockfile. What is edited is
/// the copy.
fn copy_of_our_crates(root: &Path, work: &Path) -> Result<PathBuf> {
    let source = work.join("source");
    if source.exists() {
        fs::remove_dir_all(&source).with_context(|| format!("cannot remove {}", source.display()))?;
    }
    for name in ["crates/api", "crates/client"] {
        copy(&root.join(name), &source.join(name))?;
    }
    // Only for what crates inherit; profiles are those of the program that is built.
    let manifest = root.join("Cargo.toml");
    fs::copy(&manifest, source.join("Cargo.toml")).context("cannot copy the manifest of the workspace")?;
    Ok(source)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry.context("cannot read a folder")?;
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to)?,
            false => {
                fs::copy(entry.path(), &to).with_context(|| format!("cannot write {}", to.display()))?;
            }
        }
    }
    Ok(())
}
