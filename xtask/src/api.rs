//! `cargo xtask api`: the public API of each published crate as a text file, one item a line. The check
//! compares the file with the code, and the API with the last release by the rules of semantic versioning.
//!
//! The items come from the JSON of rustdoc, which is unstable: `RUSTC_BOOTSTRAP` unlocks it in a stable rustdoc.
//! Only rustdoc gets that variable. If cargo had it, every build script that reads it would run again.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::package::PUBLISHED;
use crate::tools::{absolute, cargo, must};

const SNAPSHOT: &str = "public-api.txt";
/// Set where cargo runs this program in place of rustdoc.
pub(crate) const AS_RUSTDOC: &str = "XTASK_AS_RUSTDOC";

pub(crate) fn task(root: &Path, options: &[&str]) -> Result<String> {
    let update = match options {
        [] | ["--check"] => false,
        ["--update"] => true,
        other => bail!("api has no option {}", other.join(" ")),
    };
    let release = Release::last(root)?;
    let mut report = String::new();
    let mut outdated = String::new();
    for (package, folder) in PUBLISHED {
        let now = public_api(root, package)?;
        let file = Path::new(folder).join(SNAPSHOT);
        let kept = fs::read_to_string(root.join(&file)).unwrap_or_default();
        let changes = Changes::between(&kept, &now);
        if update {
            fs::write(root.join(&file), &now).with_context(|| format!("cannot write {}", file.display()))?;
        } else if kept != now {
            write!(outdated, "\n{}: {}", file.display(), changes.summary())?;
        }
        writeln!(
            report,
            "{package}: {} public items; {}",
            now.lines().count(),
            changes.summary().trim_end()
        )?;
        if let Some(release) = &release {
            release.check(root, &file, &now)?;
        }
    }
    ensure!(
        outdated.is_empty(),
        "the public API differs from its snapshot; review the change, then run `cargo xtask api --update`{outdated}"
    );
    match release {
        Some(release) => writeln!(report, "the version permits every change since {}", release.tag)?,
        None => report
            .push_str("no release is tagged, so no version is checked: only the snapshots are compared\n"),
    }
    Ok(report)
}

/// The public items of a package with its default features, sorted, one a line.
fn public_api(root: &Path, package: &str) -> Result<String> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut rustdoc = cargo();
    rustdoc.args(["rustdoc", "--quiet", "--locked", "--lib", "--package", package, "--"]);
    rustdoc.args(["-Zunstable-options", "--output-format", "json", "--cap-lints", "allow"]);
    rustdoc.env("RUSTDOC", env::current_exe().context("cannot find this program")?).env(AS_RUSTDOC, "1");
    rustdoc.current_dir(absolute(&root.join("."))?);
    must("cargo", &mut rustdoc)?;
    let json = target.join("doc").join(package.replace('-', "_")).with_extension("json");
    let api = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        .with_context(|| {
            format!("cannot read {}; public-api must be the version for this rustdoc", json.display())
        })?;
    Ok(api.items().map(|item| format!("{item}\n")).collect())
}

/// Runs rustdoc with its unstable options, for cargo.
pub(crate) fn rustdoc() -> ExitCode {
    let status = Command::new("rustdoc").args(env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
    ExitCode::from(u8::from(!status.is_ok_and(|status| status.success())))
}

/// How one text of an API differs from another. A changed item is removed and added.
struct Changes<'a> {
    removed: Vec<&'a str>,
    added: Vec<&'a str>,
}

impl<'a> Changes<'a> {
    fn between(old: &'a str, new: &'a str) -> Self {
        let old: BTreeSet<&str> = old.lines().collect();
        let new: BTreeSet<&str> = new.lines().collect();
        Self {
            removed: old.difference(&new).copied().collect(),
            added: new.difference(&old).copied().collect(),
        }
    }

    fn summary(&self) -> String {
        let mut text = match (self.removed.len(), self.added.len()) {
            (0, 0) => "no change\n".to_owned(),
            (0, added) => format!("compatible, {added} added\n"),
            (removed, added) => format!("breaking, {removed} removed or changed, {added} added\n"),
        };
        for item in &self.removed {
            text.push_str(&format!("- {item}\n"));
        }
        for item in &self.added {
            text.push_str(&format!("+ {item}\n"));
        }
        text
    }
}

/// The last tagged version.
struct Release {
    tag: String,
    current: String,
}

impl Release {
    fn last(root: &Path) -> Result<Option<Self>> {
        let Some(tag) = git(root, &["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"])? else {
            return Ok(None);
        };
        let manifest = fs::read_to_string(root.join("Cargo.toml")).context("cannot read Cargo.toml")?;
        let current = manifest.lines().find_map(|line| line.strip_prefix("version = "));
        let current = current.context("Cargo.toml has no version")?.trim_matches('"').to_owned();
        Ok(Some(Self { tag: tag.trim().to_owned(), current }))
    }

    /// Fails when an item of the release is gone or changed, and the version is still compatible with it.
    fn check(&self, root: &Path, file: &Path, now: &str) -> Result<()> {
        let place = format!("{}:{}", self.tag, file.display());
        let old = git(root, &["show", &place])?.with_context(|| format!("there is no {place}"))?;
        let changes = Changes::between(&old, now);
        ensure!(
            changes.removed.is_empty() || !is_compatible(self.tag.trim_start_matches('v'), &self.current),
            "{} is a breaking version after {}, and version {} is not: {}",
            file.display(),
            self.tag,
            self.current,
            changes.summary()
        );
        Ok(())
    }
}

/// Whether cargo accepts `new` where `old` is required: the first number that is not zero is the same.
fn is_compatible(old: &str, new: &str) -> bool {
    let leading = |version: &str| -> Vec<String> {
        let numbers = version.split(['.', '-', '+']).take(3);
        let zeros = numbers.clone().take_while(|number| *number == "0").count();
        numbers.take(zeros + 1).map(str::to_owned).collect()
    };
    leading(old) == leading(new)
}

/// What git prints, or nothing when it fails.
fn git(root: &Path, arguments: &[&str]) -> Result<Option<String>> {
    let mut git = Command::new("git");
    let output =
        git.args(arguments).current_dir(absolute(&root.join("."))?).output().context("cannot run git")?;
    Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_added_item_is_compatible_and_a_changed_one_is_breaking() {
        assert_eq!(Changes::between("a\n", "a\nb\n").summary(), "compatible, 1 added\n+ b\n");
        let changed = Changes::between("pub fn f()\n", "pub fn f(u8)\n").summary();
        assert_eq!(changed, "breaking, 1 removed or changed, 1 added\n- pub fn f()\n+ pub fn f(u8)\n");
    }

    #[test]
    fn versions_are_compatible_as_cargo_reads_them() {
        for (old, new, compatible) in [
            ("1.2.3", "1.9.0", true),
            ("1.2.3", "2.0.0", false),
            ("0.1.0", "0.1.7", true),
            ("0.1.9", "0.2.0", false),
            ("0.0.1", "0.0.2", false),
            ("0.9.0", "1.0.0", false),
        ] {
            assert_eq!(is_compatible(old, new), compatible, "{old} {new}");
        }
    }
}
