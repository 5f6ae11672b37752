//! `cargo xtask api`: the public API of each published crate as a text file, one item a line. The check
//! compares the file with the code, and the API with the last release by the rules of semantic versioning.
//!
//! The items come from the JSON of rustdoc, which is unstable: `RUSTC_BOOTSTRAP` unlocks it in a stable rustdoc.
//! Only rustdoc gets that variable. If cargo had it, every build script that reads it would run again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use public_api::PublicItem;
use serde_json::Value;

use crate::package::{PUBLISHED, list};
use inferstore_contract::repository::git;
use inferstore_contract::tools::{absolute, cargo, must};

const SNAPSHOT: &str = "public-api.txt";
/// The end of the line of a trait method that implementations may leave out.
const DEFAULT: &str = " { … }";
/// Set where cargo runs this program instead of rustdoc.
pub(crate) const AS_RUSTDOC: &str = "XTASK_AS_RUSTDOC";

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
            let api = Api::read(root, package, folder)?;
            if self.update {
                api.write(root)?;
            } else if api.kept != api.now {
                write!(outdated, "\n{}", api.changes())?;
            }
            let verdict = Changes::between(&api.kept, &api.now).verdict();
            writeln!(report, "{package}: {} public items; {verdict}", api.now.lines().count())?;
            if let Some(release) = &release {
                release.check(root, &api.file, &api.now)?;
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

pub(crate) fn update(root: &Path, package: &str) -> Result<String> {
    let (_, folder) = PUBLISHED.iter().find(|(known, _)| *known == package).context("it is not published")?;
    let api = Api::read(root, package, folder)?;
    api.write(root)?;
    Ok(api.changes())
}

struct Api {
    file: PathBuf,
    kept: String,
    now: String,
}

impl Api {
    fn read(root: &Path, package: &str, folder: &str) -> Result<Self> {
        let file = Path::new(folder).join(SNAPSHOT);
        let kept = fs::read_to_string(root.join(&file)).unwrap_or_default();
        Ok(Self { file, kept, now: public_api(root, package)? })
    }

    fn write(&self, root: &Path) -> Result<()> {
        let file = &self.file;
        fs::write(root.join(file), &self.now).with_context(|| format!("cannot write {}", file.display()))
    }

    fn changes(&self) -> String {
        let changes = Changes::between(&self.kept, &self.now);
        format!("{}: {}\n{}", self.file.display(), changes.verdict(), changes.lines())
    }
}

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
    let has_default = provided_methods(&json)?;
    let line = |(item, text): &(&PublicItem, String)| {
        let end = if has_default.contains(&item.id().0) { DEFAULT } else { "" };
        format!("{text}{end}\n")
    };
    Ok(items.iter().filter(|(item, text)| is_listed(text) && !is_repeated(item, text)).map(line).collect())
}

/// The identifiers of the methods of traits that have a default implementation, which public-api does not list.
fn provided_methods(json: &Path) -> Result<HashSet<u32>> {
    let text = fs::read_to_string(json).with_context(|| format!("cannot read {}", json.display()))?;
    let json: Value = serde_json::from_str(&text).context("rustdoc wrote no JSON")?;
    let traits = json["index"].as_object().into_iter().flatten();
    let items = traits.flat_map(|(_, item)| list(&item["inner"]["trait"]["items"])).filter_map(Value::as_u64);
    let has_body =
        |id: &u64| json["index"][id.to_string()]["inner"]["function"]["has_body"].as_bool() == Some(true);
    Ok(items.filter(has_body).filter_map(|id| u32::try_from(id).ok()).collect())
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

fn implemented_trait(item: &str) -> Option<&str> {
    let (name, _) = item.strip_prefix("impl")?.split_once(" for ")?;
    Some(name)
}

pub(crate) fn rustdoc() -> ExitCode {
    let status = Command::new("rustdoc").args(env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
    ExitCode::from(u8::from(!status.is_ok_and(|status| status.success())))
}

struct Changes<'a> {
    removed: Vec<&'a str>,
    added: Vec<&'a str>,
    is_breaking: bool,
}

impl<'a> Changes<'a> {
    fn between(old: &'a str, new: &'a str) -> Self {
        let holders = holders(old);
        let old: BTreeSet<&str> = old.lines().collect();
        let new: BTreeSet<&str> = new.lines().collect();
        let removed: Vec<_> = old.difference(&new).copied().collect();
        let added: Vec<_> = new.difference(&old).copied().collect();
        // What implements an auto trait again has lost the line that says it does not.
        let is_lost = |item: &&str| !implemented_trait(item).is_some_and(|name| name.contains('!'));
        let is_breaking =
            removed.iter().any(is_lost) || added.iter().any(|item| breaks_when_added(item, &holders));
        Self { removed, added, is_breaking }
    }

    fn verdict(&self) -> String {
        let (removed, added) = (self.removed.len(), self.added.len());
        match (removed + added, self.is_breaking) {
            (0, _) => "no change".to_owned(),
            (_, true) => format!("breaking, {removed} removed or changed, {added} added"),
            (_, false) => format!("compatible, {added} added"),
        }
    }

    fn lines(&self) -> String {
        let removed = self.removed.iter().map(|item| format!("- {item}\n"));
        removed.chain(self.added.iter().map(|item| format!("+ {item}\n"))).collect()
    }
}

/// Kinds of the items that hold others, by path, and whether users may rely on the list of those being complete.
type Holders = BTreeMap<String, (&'static str, bool)>;

/// The words in front of the path of an item. A field and a variant have only the first one.
const WORDS: [&str; 12] =
    ["pub", "const", "async", "unsafe", "auto", "struct", "enum", "union", "trait", "fn", "type", "static"];

fn holders(api: &str) -> Holders {
    let mut holders = Holders::new();
    for item in api.lines() {
        let Some((kind, path)) = declared(item) else { continue };
        let is_open = item.starts_with("#[non_exhaustive]");
        let parent = path.rsplit_once("::").and_then(|(parent, _)| holders.get_mut(parent));
        match (kind, parent) {
            // It is constructed and matched by its fields only when it has public ones.
            ("struct" | "union", _) if !is_open => _ = holders.insert(path, ("closed", false)),
            ("struct" | "union" | "enum" | "trait", _) => _ = holders.insert(path, (kind, !is_open)),
            ("pub", Some(("enum", _))) => _ = holders.insert(path, ("variant", !is_open)),
            ("pub", Some(("closed", is_exhaustive))) => *is_exhaustive = true,
            _ => {}
        }
    }
    holders
}

/// Returns true if code that uses the old API breaks when this item is added: a type loses an auto trait, a trait asks
/// for more, or a type that code may construct or match completely has another field or variant.
fn breaks_when_added(item: &str, old: &Holders) -> bool {
    if let Some(name) = implemented_trait(item) {
        let kind = item.split_once(" for ").map(|(_, kind)| path(kind));
        return name.contains('!') && kind.is_some_and(|kind| old.contains_key(&kind));
    }
    let Some((kind, path)) = declared(item) else { return false };
    match (path.rsplit_once("::").and_then(|(parent, _)| old.get(parent)), kind) {
        (Some(("trait", _)), _) => !item.ends_with(DEFAULT),
        (Some((_, is_exhaustive)), "pub") => *is_exhaustive,
        _ => false,
    }
}

fn declared(item: &str) -> Option<(&'static str, String)> {
    let mut rest = item;
    while let Some((_, after)) = rest.strip_prefix("#[").and_then(|rest| rest.split_once("] ")) {
        rest = after;
    }
    let mut kind = None;
    while let Some((word, after)) = rest.split_once(' ')
        && let Some(known) = WORDS.iter().find(|known| **known == word)
    {
        (kind, rest) = (Some(*known), after);
    }
    Some((kind?, path(rest)))
}

fn path(text: &str) -> String {
    let mut path = String::new();
    let mut depth = 0;
    for letter in text.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' | ' ' if depth == 0 => break,
            _ if depth == 0 => path.push(letter),
            _ => {}
        }
    }
    path.trim_end_matches(':').to_owned()
}

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

    fn check(&self, root: &Path, file: &Path, now: &str) -> Result<()> {
        let place = format!("{}:{}", self.tag, file.display());
        let old = git(root, &["show", &place])?.with_context(|| format!("there is no {place}"))?;
        let changes = Changes::between(&old, now);
        ensure!(
            !changes.is_breaking || !is_compatible(self.tag.trim_start_matches('v'), &self.current),
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

/// Returns true if the versions are compatible for cargo: their numbers agree up to the first one that is not zero.
fn is_compatible(old: &str, new: &str) -> bool {
    let leading = |version: &str| -> Vec<String> {
        let numbers = version.split(['.', '-', '+']).take(3);
        let zeros = numbers.clone().take_while(|number| *number == "0").count();
        numbers.take(zeros + 1).map(str::to_owned).collect()
    };
    leading(old) == leading(new)
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
    fn an_addition_breaks_where_users_implement_construct_or_match() {
        const OLD: &str = "\
            pub struct a::Open\npub fn a::Open::f(&self)\n\
            pub struct a::Plain<T>\npub a::Plain::x: T\n\
            #[non_exhaustive] pub struct a::Later\npub a::Later::x: u8\n\
            pub enum a::Closed\npub a::Closed::One(u8)\npub a::Closed::Two\n\
            #[non_exhaustive] pub enum a::Growing\npub a::Growing::One\npub a::Growing::One::x: u8\n\
            pub trait a::Tr<T>: core::marker::Send\n";
        for (added, is_breaking) in [
            ("impl !core::marker::Send for a::Open", true),
            ("impl<T> !core::marker::Sync for a::Plain<T>", true),
            ("impl !core::marker::Send for a::New", false),
            ("impl core::clone::Clone for a::Open", false),
            ("pub a::Open::x: u8", false),
            ("pub fn a::Plain<T>::g(&self)", false),
            ("pub a::Plain::y: alloc::vec::Vec<u8>", true),
            ("pub a::Later::y: u8", false),
            ("pub a::Closed::Three(u8)", true),
            ("pub a::Closed::Two::x: u8", true),
            ("pub a::Growing::Two", false),
            ("pub a::Growing::One::y: u8", true),
            ("pub async fn a::Tr<T>::f(&self) -> u8", true),
            ("pub fn a::Tr::f(&self) -> u8 { … }", false),
            ("pub const a::Tr::NAME: &'static str", true),
            ("pub enum a::Other", false),
            ("pub fn a::f()", false),
        ] {
            let new = format!("{OLD}{added}\n");
            let changes = Changes::between(OLD, &new);
            assert_eq!((changes.is_breaking, changes.removed.len()), (is_breaking, 0), "{added}");
            assert_eq!(changes.verdict().starts_with("breaking"), is_breaking, "{added}");
        }
        assert!(!Changes::between("impl !core::marker::Send for a::Open\n", "").is_breaking);
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
