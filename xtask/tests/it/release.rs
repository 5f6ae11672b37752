//! The recipe of a release: what it refuses, and what it leaves when a step fails.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::{Folder, Said, repository_file};

const CHANGELOG: &str =
    "# Changelog\n\n## Unreleased\n\n- A change.\n\n## 0.1.0, 2026-01-01\n\n- The first one.\n";
const MANIFEST: &str = "[workspace.package]\nversion = \"0.1.0\"\n";
const PACKAGES: [&str; 7] = [
    "crates/api/Cargo.toml",
    "crates/batch/Cargo.toml",
    "crates/cli/Cargo.toml",
    "crates/client/Cargo.toml",
    "crates/drift/Cargo.toml",
    "crates/profiles/Cargo.toml",
    "crates/testing/Cargo.toml",
];
const PACKAGE: &str = "description = \"A crate\"\n";
const REPOSITORY: &str = "https://host.example/owner/name";

/// A repository with the recipe, programs that only say that they were called, and a cargo that does nothing, and fails
/// at the step of that name.
fn repository(name: &str, failing: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("Cargo.toml", MANIFEST);
    folder.write("CHANGELOG.md", CHANGELOG);
    folder.write("Cargo.lock", "");
    for package in PACKAGES {
        folder.write(package, PACKAGE);
    }
    folder.write("other.txt", "");
    folder.write(".gitignore", "/bin\n/target\n");
    folder.write(".ci/release", &repository_file(".ci/release"));
    folder.write(
        "bin/cargo",
        &format!("#!/bin/sh\n[ \"$1\" != {failing} ] || {{ echo edited > other.txt; exit 1; }}\n"),
    );
    for program in ["build", "try"] {
        folder.write(&format!("tools/release/{program}"), "#!/bin/sh\necho \"${0##*/} $*\" >> target/made\n");
    }
    folder.write("target/key", "");
    for program in [".ci/release", "bin/cargo", "tools/release/build", "tools/release/try"] {
        let permissions = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(program), permissions).expect("a program can be run");
    }
    folder.git(&["init", "--quiet"]);
    folder.git(&["config", "user.name", "Ada"]);
    folder.git(&["config", "user.email", "ada@inferstore.example"]);
    folder.git(&["add", "."]);
    folder.git(&["commit", "--quiet", "--message", "begin"]);
    folder
}

fn release(folder: &Folder, version: &str) -> Said {
    release_from(folder, version, REPOSITORY)
}

fn release_from(folder: &Folder, version: &str, repository: &str) -> Said {
    let path = env::var("PATH").expect("there is a path");
    let mut recipe = Command::new(folder.path(".ci/release"));
    recipe.arg(version).env("PATH", format!("{}:{path}", folder.path("bin").display()));
    recipe.env("INFERSTORE_REPOSITORY", repository).env("INFERSTORE_SIGNING_KEY", folder.path("target/key"));
    Said::by(&mut recipe)
}

#[test]
fn a_version_that_is_not_new_is_refused() {
    let folder = repository("release_again", "nothing");
    let said = release(&folder, "0.1.0");
    assert_eq!(
        (said.code, said.err.as_str()),
        (Some(1), "CHANGELOG.md lists the changes of 0.1.0 already\n")
    );
    let said = release(&folder, "0.0.9");
    assert_eq!((said.code, said.err.as_str()), (Some(1), "0.0.9 is below the current version 0.1.0\n"));
}

#[test]
fn a_release_without_the_url_of_its_repository_is_refused() {
    let said = release_from(&repository("release_nowhere", "nothing"), "0.2.0", "");
    assert_eq!(
        (said.code, said.err.as_str()),
        (Some(1), "INFERSTORE_REPOSITORY is no URL of the repository\n")
    );
}

#[test]
fn a_failed_recipe_step_reverts_its_own_writes_and_no_other_edit() {
    let folder = repository("release_fails", "package");
    let said = release(&folder, "0.2.0");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("+version = \"0.2.0\""), "{said:?}");
    assert_eq!(
        said.err,
        format!(
            "the release is not prepared; Cargo.toml Cargo.lock CHANGELOG.md {} are as they were\n",
            PACKAGES.join(" ")
        )
    );
    assert_eq!(
        (folder.read("Cargo.toml").as_str(), folder.read("CHANGELOG.md").as_str()),
        (MANIFEST, CHANGELOG)
    );
    for package in PACKAGES {
        assert_eq!(folder.read(package), PACKAGE);
    }
    assert_eq!(folder.read("other.txt"), "edited\n");
}

#[test]
fn a_release_is_a_commit_with_a_tag() {
    let folder = repository("release_done", "nothing");
    let said = release(&folder, "0.2.0");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(folder.read("target/made"), "build 0.2.0 target/release-0.2.0\ntry target/release-0.2.0\n");
    assert!(folder.read("CHANGELOG.md").contains("## Unreleased\n\n## 0.2.0, "));
    for package in PACKAGES {
        assert_eq!(folder.read(package), format!("{PACKAGE}repository = \"{REPOSITORY}\"\n"));
    }
    folder.git(&["diff", "--quiet", "v0.2.0", "HEAD"]);
    assert_eq!(release(&folder, "0.2.0").err, "v0.2.0 is a tag already\n");
}

#[test]
fn a_dry_run_of_a_release_makes_the_programs_and_changes_nothing() {
    let folder = repository("release_dry", "nothing");
    let mut recipe = Command::new(folder.path(".ci/release"));
    let path = env::var("PATH").expect("there is a path");
    recipe.args(["0.2.0", "--dry-run"]).env("PATH", format!("{}:{path}", folder.path("bin").display()));
    let said = Said::by(recipe.env_remove("INFERSTORE_REPOSITORY").env_remove("INFERSTORE_SIGNING_KEY"));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(folder.read("target/made"), "build 0.1.0 target/release-files\ntry target/release-files\n");
    folder.git(&["diff", "--quiet", "HEAD"]);
}
