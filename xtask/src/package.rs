//! `cargo xtask package`: what cargo does not check of the published crates. Their packages hold a README whose links
//! work everywhere, a changelog, both licenses and no unit tests; no dependency needs a newer Rust than the crate
//! declares; the default features change nothing for other crates of a program; and the packages, unpacked, build with the
//! lower bounds of their dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use inferstore_contract::tools::{absolute, cargo, must};

pub(crate) const PUBLISHED: [(&str, &str); 6] = [
    ("inferstore-drift", "crates/drift"),
    ("inferstore-api", "crates/api"),
    ("inferstore", "crates/client"),
    ("inferstore-batch", "crates/batch"),
    ("inferstore-profiles", "crates/profiles"),
    ("inferstore-testing", "crates/testing"),
];

const REQUIRED: [&str; 5] = ["Cargo.toml", "README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Without a provider of cryptography, a feature of reqwest that makes every client of a program panic.
const WITHOUT_PROVIDER: &str = "reqwest/rustls-no-provider";

const MINIMA: &str = "target/minima";

const NEWEST: &str = "target/newest";

/// Check the packages of the published crates: their files, the Rust that each dependency needs, and lower bounds.
#[derive(clap::Args)]
pub(crate) struct Job {
    /// Check only that the newest dependencies of today do not need a newer Rust. They change without a commit.
    #[arg(long)]
    newest: bool,
}

impl Job {
    pub(crate) fn run(self, root: &Path) -> Result<String> {
        let metadata = if self.newest { newest(root)? } else { metadata(root)? };
        let mut report = String::new();
        for (name, folder) in PUBLISHED {
            report.push_str(&check_rust_versions(&metadata, name)?);
            if !self.newest {
                check_files(root, name, folder)?;
                check_default_features(&metadata, name)?;
            }
        }
        if !self.newest {
            report.push_str(&check_minima(root, &metadata)?);
        }
        Ok(report)
    }
}

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
    let read =
        |path: &Path| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    if let Some(link) = relative_link(&read(&root.join(folder).join("README.md"))?) {
        bail!("{folder}/README.md links to {link}, which leads nowhere on a registry");
    }
    for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let text = |path: PathBuf| read(&path);
        let is_same = text(root.join(folder).join(license))? == text(root.join(license))?;
        ensure!(is_same, "{folder}/{license} differs from {license}");
    }
    Ok(())
}

fn relative_link(text: &str) -> Option<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets.into_iter().find(|target| !target.starts_with(['#']) && !target.contains("://"))
}

fn check_default_features(metadata: &Value, name: &str) -> Result<()> {
    let features = |package: &str| own_package(metadata, package).map(|package| &package["features"]);
    let mut pending = vec![(name.to_owned(), "default".to_owned())];
    while let Some((package, feature)) = pending.pop() {
        for enabled in list(&features(&package)?[feature.as_str()]).iter().filter_map(Value::as_str) {
            ensure!(enabled != WITHOUT_PROVIDER, "by default, {name} enables {WITHOUT_PROVIDER}");
            match enabled.split_once('/') {
                Some((other, feature)) if PUBLISHED.iter().any(|(published, _)| *published == other) => {
                    pending.push((other.to_owned(), feature.to_owned()));
                }
                Some(_) => {}
                None => pending.push((package.clone(), enabled.to_owned())),
            }
        }
    }
    Ok(())
}

/// Builds a program over the packages of the published crates that has exactly the lower bounds of their direct
/// dependencies.
fn check_minima(root: &Path, metadata: &Value) -> Result<String> {
    let mut minima = BTreeMap::new();
    for (name, _) in PUBLISHED {
        for dependency in list(&own_package(metadata, name)?["dependencies"]) {
            if dependency["kind"].is_null() && dependency["path"].is_null() {
                let text = |key: &str| dependency[key].as_str().unwrap_or_default().to_owned();
                minima.insert(text("name"), text("req").trim_start_matches('^').to_owned());
            }
        }
    }
    for (name, minimum) in &minima {
        let is_complete =
            minimum.split('.').count() == 3 && minimum.split('.').all(|part| part.parse::<u64>().is_ok());
        ensure!(is_complete, "the lower bound {minimum:?} of {name} is no complete version");
    }
    let pins = minima.iter().map(|(name, minimum)| {
        format!("{name} = {{ version = \"={minimum}\", default-features = false }}\n")
    });
    let packages = unpack(root, metadata)?;
    // Packages find each other by these replacements.
    let replacements =
        packages.iter().map(|(name, package)| format!("{name} = {{ path = {:?} }}\n", package.display()));
    let dependencies =
        format!("{}\n[patch.crates-io]\n{}", pins.collect::<String>(), replacements.collect::<String>());
    let program = write_program(root, MINIMA, &packages, &dependencies)?;
    // The rest is of the versions that the workspace is tested with.
    fs::copy(root.join("Cargo.lock"), program.join("Cargo.lock")).context("cannot copy Cargo.lock")?;
    must("cargo", cargo().args(["check", "--quiet", "--target-dir", "target"]).current_dir(&program))?;
    Ok(format!("the packages build with the lower bounds of {} dependencies\n", minima.len()))
}

/// Makes the packages of the published crates, and unpacks them; returns their folders.
fn unpack(root: &Path, metadata: &Value) -> Result<Vec<(&'static str, PathBuf)>> {
    let root = absolute(&root.join("."))?;
    let names = PUBLISHED.iter().flat_map(|(name, _)| ["--package", name]);
    let mut package = cargo();
    package.args([
        "package",
        "--quiet",
        "--no-verify",
        "--locked",
        "--allow-dirty",
        "--target-dir",
        "target",
    ]);
    must("cargo", package.args(names).current_dir(&root))?;
    let folder = root.join("target/package");
    let unpacked = PUBLISHED.iter().map(|(name, _)| {
        let version = own_package(metadata, name)?["version"].as_str().unwrap_or_default();
        let package = folder.join(format!("{name}-{version}"));
        if package.exists() {
            fs::remove_dir_all(&package).with_context(|| format!("cannot remove {}", package.display()))?;
        }
        // All files of a package have one time; cargo tells changed ones by their time.
        let archive = package.with_added_extension("crate");
        let mut tar = Command::new("tar");
        must("tar", tar.args(["-xzmf"]).arg(&archive).current_dir(&folder))?;
        Ok((*name, package))
    });
    unpacked.collect()
}

fn newest(root: &Path) -> Result<Value> {
    let crates = PUBLISHED.map(|(name, folder)| (name, Path::new("../..").join(folder)));
    let program = write_program(root, NEWEST, &crates, "")?;
    let lock = program.join("Cargo.lock");
    if lock.exists() {
        fs::remove_file(lock).context("cannot remove an old lock file")?;
    }
    let mut command = cargo();
    command.env("CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS", "allow");
    let output = must("cargo", command.args(["metadata", "--format-version", "1"]).current_dir(program))?;
    serde_json::from_slice(&output.stdout).context("cannot read the metadata of cargo")
}

/// Writes a program over these crates, each with the folder that holds it.
fn write_program(
    root: &Path,
    folder: &str,
    crates: &[(&str, PathBuf)],
    dependencies: &str,
) -> Result<PathBuf> {
    let program = absolute(&root.join(folder))?;
    fs::create_dir_all(program.join("src")).context("cannot make a folder for a program")?;
    let crates = crates.iter().map(|(name, folder)| {
        // The library of the operating system, and ring beside it, build in seconds.
        let features = if *name == "inferstore" { "\"native-tls\", \"rustls-ring\"" } else { "" };
        let path = folder.display();
        format!("{name} = {{ path = {path:?}, default-features = false, features = [{features}] }}\n")
    });
    let manifest = format!(
        "[package]\nname = \"a-user\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n{}{dependencies}",
        crates.collect::<String>()
    );
    fs::write(program.join("Cargo.toml"), manifest).context("cannot write a manifest")?;
    fs::write(program.join("src/main.rs"), "fn main() {}\n").context("cannot write a program")?;
    Ok(program)
}

fn own_package<'a>(metadata: &'a Value, name: &str) -> Result<&'a Value> {
    let own = |package: &&Value| package["name"] == name && package["source"].is_null();
    list(&metadata["packages"]).iter().find(own).with_context(|| format!("there is no package {name}"))
}

/// Fails when a dependency, direct or not, of any feature and platform, declares a newer Rust than the package.
fn check_rust_versions(metadata: &Value, name: &str) -> Result<String> {
    let packages = index(&metadata["packages"]);
    let own = own_package(metadata, name)?;
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

/// Returns true if users of the package build the dependency too. They do not build those of tests and examples.
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
    fn a_link_of_a_readme_is_a_url_or_a_place_in_it() {
        assert_eq!(relative_link("[a](https://a.example/b) [c](#d) `e(f)`"), None);
        assert_eq!(relative_link("[a](https://a.example)\n[b](src/b.md)"), Some("src/b.md"));
    }

    #[test]
    fn default_features_leave_the_provider_of_other_crates_alone() {
        let package = |name: &str, features: Value| json!({ "name": name, "features": features });
        let with = |enabled: &str| {
            json!({ "packages": [
                package("inferstore", json!({ "default": ["tls"], "tls": ["inferstore-api/tls"] })),
                package("inferstore-api", json!({ "tls": ["base", enabled], "base": [] })),
            ]})
        };
        assert!(check_default_features(&with("reqwest/rustls"), "inferstore").is_ok());
        let error =
            check_default_features(&with(WITHOUT_PROVIDER), "inferstore").map_err(|error| error.to_string());
        assert_eq!(error, Err("by default, inferstore enables reqwest/rustls-no-provider".to_owned()));
    }

    #[test]
    #[expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]
    fn only_tests_may_need_a_newer_rust_through_a_dependency() {
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
