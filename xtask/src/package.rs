//! `cargo xtask package`: what cargo does not check of the published crates. Their packages hold a README, both
//! licenses and no unit tests, and no dependency needs a newer Rust than the crate declares.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use inferstore_contract::tools::{absolute, cargo, must};

/// The packages that are published, and their folders.
pub(crate) const PUBLISHED: [(&str, &str); 2] =
    [("inferstore-api", "crates/api"), ("inferstore", "crates/client")];

const REQUIRED: [&str; 4] = ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"];

pub(crate) fn task(root: &Path) -> Result<String> {
    let metadata = metadata(root)?;
    let mut report = String::new();
    for (name, folder) in PUBLISHED {
        check_files(root, name, folder)?;
        report.push_str(&check_rust_versions(&metadata, name)?);
    }
    Ok(report)
}

/// What cargo knows of all packages, with every feature.
pub(crate) fn metadata(root: &Path) -> Result<Value> {
    read_metadata(root, &["metadata", "--format-version", "1", "--locked", "--all-features"])
}

pub(crate) fn read_metadata(root: &Path, arguments: &[&str]) -> Result<Value> {
    let metadata = cargo_prints(root, arguments)?;
    serde_json::from_str(&metadata).context("cannot read the metadata of cargo")
}

fn check_files(root: &Path, name: &str, folder: &str) -> Result<()> {
    let list = cargo_prints(root, &["package", "--package", name, "--locked", "--allow-dirty", "--list"])?;
    for required in REQUIRED {
        ensure!(list.lines().any(|file| file == required), "the package {name} has no {required}");
    }
    let test = list.lines().find(|file| file.split(['/', '.']).any(|part| part == "tests"));
    ensure!(test.is_none(), "the package {name} has the test file {}", test.unwrap_or_default());
    for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let text = |path| std::fs::read_to_string(path).with_context(|| format!("cannot read {license}"));
        let is_same = text(root.join(folder).join(license))? == text(root.join(license))?;
        ensure!(is_same, "{folder}/{license} differs from {license}");
    }
    Ok(())
}

/// Fails when a dependency, direct or not, of any feature and platform, declares a newer Rust than the package.
fn check_rust_versions(metadata: &Value, name: &str) -> Result<String> {
    let packages = index(&metadata["packages"]);
    let own = packages.values().find(|package| package["name"] == name && package["source"].is_null());
    let own = own.with_context(|| format!("there is no package {name}"))?;
    let oldest = rust_version(own).with_context(|| format!("{name} declares no rust-version"))?;
    let known = shipped(metadata, vec![own["id"].as_str().unwrap_or_default()]);
    let mut newer = String::new();
    let mut undeclared = BTreeSet::new();
    for package in known.iter().filter_map(|id| packages.get(id)) {
        match rust_version(package) {
            None => _ = undeclared.insert(package["name"].as_str().unwrap_or_default()),
            Some(version) if version > oldest => {
                let text = |key: &str| package[key].as_str().unwrap_or_default();
                write!(newer, "\n  {} {}: {}", text("name"), text("version"), text("rust_version"))?;
            }
            Some(_) => {}
        }
    }
    ensure!(
        newer.is_empty(),
        "{name} declares Rust {}.{}; these need a newer one:{newer}",
        oldest.0,
        oldest.1
    );
    Ok(format!(
        "{name}: of {} packages none declares a newer Rust than {}.{}, and {} declare none at all: {}\n",
        known.len(),
        oldest.0,
        oldest.1,
        undeclared.len(),
        undeclared.into_iter().collect::<Vec<_>>().join(", ")
    ))
}

/// The identifiers of packages and of all that users of them build, too.
pub(crate) fn shipped<'a>(metadata: &'a Value, packages: Vec<&'a str>) -> BTreeSet<&'a str> {
    let nodes = index(&metadata["resolve"]["nodes"]);
    let mut known = BTreeSet::new();
    let mut pending = packages;
    while let Some(id) = pending.pop() {
        if known.insert(id) {
            let dependencies = nodes.get(id).map(|node| list(&node["deps"])).unwrap_or_default();
            pending.extend(dependencies.iter().filter(|d| is_shipped(d)).filter_map(|d| d["pkg"].as_str()));
        }
    }
    known
}

/// Whether users of the package build this dependency, too. Those of tests and examples they do not.
fn is_shipped(dependency: &Value) -> bool {
    list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev")
}

fn rust_version(package: &Value) -> Option<(u32, u32)> {
    let mut numbers = package["rust_version"].as_str()?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn index(items: &Value) -> BTreeMap<&str, &Value> {
    list(items).iter().filter_map(|item| Some((item["id"].as_str()?, item))).collect()
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn cargo_prints(root: &Path, arguments: &[&str]) -> Result<String> {
    let output = must("cargo", cargo().args(arguments).current_dir(absolute(&root.join("."))?))?;
    String::from_utf8(output.stdout).context("cargo prints text that is not UTF-8")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    #[expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]
    fn a_dependency_of_a_dependency_may_not_need_a_newer_rust_but_one_of_tests_may() {
        let package = |name: &str, rust: &str| json!({ "id": name, "name": name, "version": "1.0.0", "rust_version": rust });
        let uses = |name: &str, kind: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let mut metadata = json!({
            "packages": [package("ours", "1.88"), package("a", "1.60.0"), package("b", "1.88"), package("c", "1.95")],
            "resolve": { "nodes": [
                { "id": "ours", "deps": [uses("a", None), uses("c", Some("dev"))] },
                { "id": "a", "deps": [uses("b", Some("build"))] },
                { "id": "b", "deps": [] },
                { "id": "c", "deps": [] },
            ] },
        });
        let report = check_rust_versions(&metadata, "ours").expect("only a test needs a newer Rust");
        assert_eq!(
            report,
            "ours: of 3 packages none declares a newer Rust than 1.88, and 0 declare none at all: \n"
        );
        metadata["packages"][2]["rust_version"] = json!("1.89");
        let error = check_rust_versions(&metadata, "ours").expect_err("b needs a newer Rust").to_string();
        assert_eq!(error, "ours declares Rust 1.88; these need a newer one:\n  b 1.0.0: 1.89");
    }
}
