//! `cargo xtask api`: the public API of each published crate as a text file, one item a line. The check
//! compares the file with the code, and the API with the last release by the rules of semantic versioning.
//!
//! The items come from the JSON of rustdoc, which is unstable: `RUSTC_BOOTSTRAP` unlocks it in a stable rustdoc.
//! Only rustdoc gets that variable. If cargo had it, every build script that reads it would run again.

use std::collections::{BTreeSet, HashSet};
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use public_api::PublicItem;

use crate::package::PUBLISHED;
use inferstore_contract::tools::{absolute, cargo, must};

const SNAPSHOT: &str = "public-api.txt";
/// Set where cargo runs this program in place of rustdoc.
pub(crate) const AS_RUSTDOC: &str = "XTASK_AS_RUSTDOC";

/// Compare the public API of the published crates with their public-api.txt, and with the last release.
#[derive(clap::Args)]
pub(crate) struct Job {
    /// Write those files instead.
    #[arg(long)]
    update: bool,
}

impl Job {
    pub(crate) fn run(&self, root: &Path) -> Result<String> {
        let release = Release::last(root)?;
        let mut report = String::new();
        let mut outdated = String::new();
        for (package, folder) in PUBLISHED {
            let now = public_api(root, package)?;
            let file = Path::new(folder).join(SNAPSHOT);
            let kept = fs::read_to_string(root.join(&file)).unwrap_or_default();
            let changes = Changes::between(&kept, &now);
            if self.update {
                fs::write(root.join(&file), &now)
                    .with_context(|| format!("cannot write {}", file.display()))?;
            } else if kept != now {
                write!(outdated, "\n{}: {}\n{}", file.display(), changes.verdict(), changes.lines())?;
            }
            writeln!(report, "{package}: {} public items; {}", now.lines().count(), changes.verdict())?;
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
            None => report.push_str(
                "no release is tagged, so no version is checked: only the snapshots are compared\n",
            ),
        }
        Ok(report)
    }
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
    let api = public_api::Builder::from_rustdoc_json(&json).omit_blanket_impls(true).build().with_context(
        || format!("cannot read {}; public-api must be the version for this rustdoc", json.display()),
    )?;
    let items: Vec<(&PublicItem, String)> = api.items().map(|item| (item, item.to_string())).collect();
    // The methods of a trait are not listed again for each type that implements it.
    let implementations: HashSet<_> = items
        .iter()
        .filter(|(_, text)| implemented_trait(text).is_some())
        .map(|(item, _)| item.id())
        .collect();
    let is_repeated = |item: &PublicItem, text: &str| {
        text.starts_with("pub fn ") && item.parent_id().is_some_and(|id| implementations.contains(&id))
    };
    let listed = items.iter().filter(|(item, text)| is_listed(text) && !is_repeated(item, text));
    Ok(listed.map(|(_, text)| format!("{text}\n")).collect())
}

/// The compiler implements auto traits: only the lack of one of the usual three is listed.
fn is_listed(item: &str) -> bool {
    let Some(name) = implemented_trait(item) else { return true };
    match name.rsplit("::").next() {
        Some("Send" | "Sync" | "Unpin") => name.contains('!'),
        Some("Freeze" | "RefUnwindSafe" | "StructuralPartialEq" | "UnsafeUnpin" | "UnwindSafe") => false,
        _ => true,
    }
}

/// The trait of an implementation, after its generics and with its `!`.
fn implemented_trait(item: &str) -> Option<&str> {
    let (name, _) = item.strip_prefix("impl")?.split_once(" for ")?;
    Some(name)
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

    fn verdict(&self) -> String {
        match (self.removed.len(), self.added.len()) {
            (0, 0) => "no change".to_owned(),
            (0, added) => format!("compatible, {added} added"),
            (removed, added) => format!("breaking, {removed} removed or changed, {added} added"),
        }
    }

    fn lines(&self) -> String {
        let removed = self.removed.iter().map(|item| format!("- {item}\n"));
        removed.chain(self.added.iter().map(|item| format!("+ {item}\n"))).collect()
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
            "{} has changed since {}: {}; version {} does not permit that\n{}",
            file.display(),
            self.tag,
            changes.verdict(),
            self.current,
            changes.lines()
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
        assert_eq!(Changes::between("a\n", "a\nb\n").verdict(), "compatible, 1 added");
        let changed = Changes::between("pub fn f()\n", "pub fn f(u8)\n");
        assert_eq!(changed.verdict(), "breaking, 1 removed or changed, 1 added");
        assert_eq!(changed.lines(), "- pub fn f()\n+ pub fn f(u8)\n");
    }

    #[test]
    fn only_the_lack_of_an_auto_trait_is_listed() {
        assert!(is_listed("impl !core::marker::Send for a::B"));
        assert!(is_listed("impl<T> core::clone::Clone for a::B<T> where T: for<'a> C<'a>"));
        assert!(is_listed("impl a::B"));
        assert!(!is_listed("impl<T> core::marker::Send for a::B<T> where T: core::marker::Send"));
        assert!(!is_listed("impl !core::panic::unwind_safe::UnwindSafe for a::B"));
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
