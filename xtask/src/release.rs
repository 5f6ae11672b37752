//! `cargo xtask release`: version, changelog, packages, archive of the programs, checksums, commit and tag. It
//! publishes nothing: the last lines of its report are the commands that do.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use openapi_impact::Version;

use crate::document::Document;
use crate::package::PUBLISHED;
use crate::tools::{absolute, cargo, must};

const CHANGELOG: &str = "CHANGELOG.md";
const UNRELEASED: &str = "## Unreleased\n";

/// The programs of the archive, with their packages.
const PROGRAMS: [(&str, &str); 2] = [("inferstore", "inferstore-cli"), ("inferstore-node", "inferstore-node")];

/// Prepare a release: version, changelog, packages, archive, checksums, commit, tag.
#[derive(clap::Args)]
pub(crate) struct Job {
    /// The new version, such as 0.2.0.
    version: String,
    /// Check everything and print the steps; change nothing.
    #[arg(long)]
    dry_run: bool,
}

impl Job {
    pub(crate) fn run(&self, root: &Path) -> Result<String> {
        let root = &absolute(&root.join("."))?;
        let (version, tag) = (&self.version, format!("v{}", self.version));
        let manifest = read(root, "Cargo.toml")?;
        let current = manifest.lines().find_map(|line| line.strip_prefix("version = "));
        let current = current.context("Cargo.toml has no version")?.trim_matches('"');
        ensure!(
            Version::parse(version)? >= Version::parse(current)?,
            "{version} is below the current version {current}"
        );
        let is_tagged = !git(root, &["tag", "--list", &tag])?.is_empty();
        ensure!(!is_tagged, "{tag} is a tag already");
        let is_clean = git(root, &["status", "--porcelain"])?.is_empty();
        ensure!(is_clean || self.dry_run, "there are changes that are not committed");
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d");
        let changelog = released(&read(root, CHANGELOG)?, &format!("## {version}, {date}\n"))?;
        let manifest = manifest.replace(&format!("\"{current}\""), &format!("\"{version}\""));

        let folder = format!("target/release-{version}");
        let mut steps = Steps { root, dry_run: self.dry_run, report: String::new() };
        steps.write("Cargo.toml", &manifest)?;
        steps.write(CHANGELOG, &changelog)?;
        steps.cargo(&["update", "--workspace", "--offline"])?;
        // The public API must permit this version.
        steps.cargo(&["xtask", "api"])?;
        let published = PUBLISHED.map(|(package, _)| ["--package", package]).concat();
        let programs = PROGRAMS.map(|(_, package)| ["--package", package]).concat();
        steps.cargo(&[&["package", "--locked", "--allow-dirty"], &published[..]].concat())?;
        steps.cargo(&[&["build", "--locked", "--profile", "dist"], &programs[..]].concat())?;
        let archive = format!("{folder}/inferstore-{version}-{}-{}.tar.gz", std::env::consts::ARCH, std::env::consts::OS);
        let names = PROGRAMS.map(|(program, _)| program);
        steps.run("mkdir", &["-p", &folder])?;
        steps.run("tar", &[&["-czf", &archive, "-C", "target/dist"], &names[..]].concat())?;
        for (package, _) in PUBLISHED {
            steps.run("cp", &[&format!("target/package/{package}-{version}.crate"), &folder])?;
        }
        steps.checksums(&folder)?;
        steps.run("git", &["commit", "--quiet", "--all", "--message", &format!("release {version}")])?;
        steps.run("git", &["tag", "--annotate", &tag, "--message", &format!("Inferstore {version}")])?;
        Ok(format!(
            "{}then, by hand:\n  git push --follow-tags\n  cargo publish {}\n",
            steps.report,
            published.join(" ")
        ))
    }
}

/// Runs the steps, or only lists them.
struct Steps<'a> {
    root: &'a Path,
    dry_run: bool,
    report: String,
}

impl Steps<'_> {
    fn write(&mut self, name: &str, text: &str) -> Result<()> {
        let before = read(self.root, name)?;
        let diff = similar::TextDiff::from_lines(before.as_str(), text);
        let changes = diff.unified_diff().context_radius(0).to_string();
        let changed = changes.lines().filter(|line| !line.starts_with("@@"));
        self.report.push_str(&format!("{name}\n"));
        self.report.extend(changed.map(|line| format!("  {line}\n")));
        if self.dry_run {
            return Ok(());
        }
        fs::write(self.root.join(name), text).with_context(|| format!("cannot write {name}"))
    }

    fn cargo(&mut self, arguments: &[&str]) -> Result<()> {
        self.command(&mut cargo(), "cargo", arguments)
    }

    fn run(&mut self, program: &str, arguments: &[&str]) -> Result<()> {
        self.command(&mut Command::new(program), program, arguments)
    }

    fn command(&mut self, command: &mut Command, program: &str, arguments: &[&str]) -> Result<()> {
        self.report.push_str(&format!("{program} {}\n", arguments.join(" ")));
        if !self.dry_run {
            must(program, command.args(arguments).current_dir(self.root))?;
        }
        Ok(())
    }

    /// As `sha256sum --check` reads them.
    fn checksums(&mut self, folder: &str) -> Result<()> {
        self.report.push_str(&format!("{folder}/SHA256SUMS\n"));
        if self.dry_run {
            return Ok(());
        }
        let mut lines = Vec::new();
        for entry in fs::read_dir(self.root.join(folder)).with_context(|| format!("cannot read {folder}"))? {
            let entry = entry.with_context(|| format!("cannot read {folder}"))?;
            let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {folder}"))?;
            lines.push(format!("{}  {}\n", Document::hash(bytes), entry.file_name().to_string_lossy()));
        }
        lines.sort_by(|one, other| one.split("  ").nth(1).cmp(&other.split("  ").nth(1)));
        fs::write(self.root.join(folder).join("SHA256SUMS"), lines.concat())
            .with_context(|| format!("cannot write to {folder}"))
    }
}

/// The changelog with the unreleased changes under this heading, and an empty section above it.
fn released(changelog: &str, heading: &str) -> Result<String> {
    let (_, changes) = changelog.split_once(UNRELEASED).context("CHANGELOG.md has no section Unreleased")?;
    let changes = changes.split("\n## ").next().unwrap_or_default();
    ensure!(!changes.trim().is_empty(), "CHANGELOG.md lists no unreleased change");
    Ok(changelog.replacen(UNRELEASED, &format!("{UNRELEASED}\n{heading}"), 1))
}

fn read(root: &Path, name: &str) -> Result<String> {
    fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let output = must("git", Command::new("git").args(arguments).current_dir(root))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_takes_the_unreleased_changes_and_leaves_an_empty_section() -> Result<()> {
        let changelog = "# Changelog\n\n## Unreleased\n\n- One.\n\n## 0.1.0, 2026-01-01\n\n- First.\n";
        let after = released(changelog, "## 0.2.0, 2026-02-02\n")?;
        assert_eq!(
            after,
            "# Changelog\n\n## Unreleased\n\n## 0.2.0, 2026-02-02\n\n- One.\n\n## 0.1.0, 2026-01-01\n\n- First.\n"
        );
        assert!(released(&after, "## 0.3.0, 2026-03-03\n").is_err());
        assert!(released("# Changelog\n", "## 0.3.0, 2026-03-03\n").is_err());
        Ok(())
    }
}
