//! `cargo xtask dependencies`: licenses and second versions of the dependencies, by `.cargo/deny.toml` and without a
//! network. Second versions that only tests need cost users nothing. Advisories need cargo-deny, which takes minutes to build.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::package;

const CONFIG: &str = ".cargo/deny.toml";

#[derive(Default)]
struct Permitted {
    licenses: BTreeSet<String>,
    versions: BTreeSet<(String, String)>,
}

impl Permitted {
    /// Reads the layout that the file has: one license or one crate a line.
    fn read(text: &str) -> Self {
        let mut permitted = Self::default();
        for line in text.lines().map(str::trim) {
            let quoted: Vec<_> = line.split('"').skip(1).step_by(2).map(str::to_owned).collect();
            match &quoted[..] {
                [license] if line.starts_with('"') => _ = permitted.licenses.insert(license.clone()),
                [name, license] if line.contains("allow = ") => {
                    permitted.licenses.insert(format!("{name} {license}"));
                }
                [pinned, _reason] if line.starts_with("{ crate = ") => {
                    let (name, version) = pinned.split_once('@').unwrap_or((pinned, ""));
                    permitted.versions.insert((name.to_owned(), version.to_owned()));
                }
                _ => {}
            }
        }
        permitted
    }

    fn permits(&self, name: &str, license: &str) -> bool {
        self.licenses.contains(license) || self.licenses.contains(&format!("{name} {license}"))
    }
}

pub(crate) fn task(root: &Path) -> Result<String> {
    let text = fs::read_to_string(root.join(CONFIG)).with_context(|| format!("cannot read {CONFIG}"))?;
    let metadata = package::metadata(root)?;
    let mistakes = mistakes(&Permitted::read(&text), &metadata);
    ensure!(mistakes.is_empty(), "{CONFIG} does not permit\n  {}", mistakes.join("\n  "));
    let count = package::list(&metadata["packages"]).len();
    Ok(format!("{CONFIG} permits the licenses and the versions of {count} packages\n"))
}

fn mistakes(permitted: &Permitted, metadata: &Value) -> Vec<String> {
    let members = package::list(&metadata["workspace_members"]).iter().filter_map(Value::as_str).collect();
    let shipped = package::shipped(metadata, members);
    let mut mistakes = Vec::new();
    let mut versions = BTreeMap::<&str, Vec<&str>>::new();
    for package in package::list(&metadata["packages"]) {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let (name, version) = (text("name"), text("version"));
        if !is_permitted(text("license"), &|license| permitted.permits(name, license)) {
            mistakes.push(format!("the license of {name} {version}: {:?}", text("license")));
        }
        let is_skipped = permitted.versions.iter().any(|skip| is_version(skip, package));
        if !is_skipped && shipped.contains(text("id")) {
            versions.entry(name).or_default().push(version);
        }
    }
    let second = versions.iter().filter(|(_, versions)| versions.len() > 1);
    mistakes.extend(
        second.map(|(name, versions)| format!("more than one version of {name}: {}", versions.join(", "))),
    );
    mistakes
}

fn is_version((name, start): &(String, String), package: &Value) -> bool {
    let version = package["version"].as_str().unwrap_or_default();
    package["name"] == *name && format!("{version}.").starts_with(&format!("{start}."))
}

/// Returns true if permitted licenses satisfy an SPDX expression. Reads the expression as groups of alternatives (`OR`)
/// that are all needed (`AND`), which refuses some expressions that are permitted when `OR` stands beside `AND`, and
/// accepts none that is not permitted. An exception after `WITH` only permits more.
fn is_permitted(expression: &str, permits: &dyn Fn(&str) -> bool) -> bool {
    let expression = expression.replace(['(', ')'], "").replace('/', " OR ");
    let permits = |license: &str| permits(license.split(" WITH ").next().unwrap_or_default().trim());
    expression.split(" AND ").all(|needed| needed.split(" OR ").any(permits))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = r#"
allow = [
    "MIT",
    "Apache-2.0",
]
exceptions = [
    { crate = "b", allow = ["MPL-2.0"] },
]
skip = [
    { crate = "c@0.2", reason = "d" },
]"#;

    fn package(name: &str, version: &str, license: &str) -> Value {
        json!({ "id": format!("{name}@{version}"), "name": name, "version": version, "license": license })
    }

    #[test]
    fn licenses_and_versions_are_permitted_line_by_line() {
        let mut packages = vec![
            package("a", "1.0.0", "MIT/GPL-3.0"),
            package("b", "1.0.0", "MPL-2.0"),
            package("c", "0.2.1", "(MIT OR GPL-3.0) AND Apache-2.0 WITH LLVM-exception"),
            package("c", "0.3.0", "MIT"),
        ];
        let metadata = |packages: &[Value]| {
            let ids: Vec<_> = packages.iter().map(|package| package["id"].clone()).collect();
            json!({ "packages": packages, "workspace_members": ids })
        };
        let permitted = Permitted::read(TEXT);
        assert_eq!(mistakes(&permitted, &metadata(&packages)), Vec::<String>::new());
        packages.remove(2);
        packages.push(package("d", "1.0.0", "MPL-2.0"));
        packages.push(package("d", "2.0.0", "MIT AND GPL-3.0"));
        packages.push(package("e", "1.0.0", ""));
        let expected = [
            r#"the license of d 1.0.0: "MPL-2.0""#,
            r#"the license of d 2.0.0: "MIT AND GPL-3.0""#,
            r#"the license of e 1.0.0: """#,
            "more than one version of d: 1.0.0, 2.0.0",
        ];
        assert_eq!(mistakes(&permitted, &metadata(&packages)), expected);
        let mut of_tests = metadata(&packages);
        of_tests["workspace_members"] = json!(["d@1.0.0"]);
        let mistakes = mistakes(&permitted, &of_tests);
        assert!(!mistakes.iter().any(|mistake| mistake.contains("more than one")), "{mistakes:?}");
    }
}
