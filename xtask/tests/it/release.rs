//! The recipe of a release: what it refuses, and what it leaves when a step fails.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::{Folder, Said, repository_file};

const CHANGELOG: &str =
    "# Changelog\n\n## Unreleased\n\n- A change.\n\n## 0.1.0, 2026-01-01\n\n- The first one.\n";
const MANIFEST: &str = "[workspace.package]\nversion = \"0.1.0\"\n";

/// A repository with the recipe, and a cargo that does nothing, and fails at the step of that name.
fn repository(name: &str, failing: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("Cargo.toml", MANIFEST);
    folder.write("CHANGELOG.md", CHANGELOG);
    folder.write("Cargo.lock", "");
    folder.write("other.txt", "");
    folder.write(".gitignore", "/bin\n/target\n");
    folder.write(".ci/release", &repository_file(".ci/release"));
    folder.write(
        "bin/cargo",
        &format!("#!/bin/sh\n[ \"$1\" != {failing} ] || {{ echo edited > other.txt; exit 1; }}\n"),
    );
    for program in [".ci/release", "bin/cargo"] {
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
    let path = env::var("PATH").expect("there is a path");
    let mut recipe = Command::new(folder.path(".ci/release"));
    recipe.arg(version).env("PATH", format!("{}:{path}", folder.path("bin").display()));
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
fn a_step_that_fails_takes_back_what_the_recipe_wrote_and_no_edit_that_was_made_meanwhile() {
    let folder = repository("release_fails", "package");
    let said = release(&folder, "0.2.0");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("+version = \"0.2.0\""), "{said:?}");
    assert_eq!(
        said.err,
        "the release is not prepared; Cargo.toml Cargo.lock CHANGELOG.md are as they were\n"
    );
    assert_eq!(
        (folder.read("Cargo.toml").as_str(), folder.read("CHANGELOG.md").as_str()),
        (MANIFEST, CHANGELOG)
    );
    assert_eq!(folder.read("other.txt"), "edited\n");
}

#[test]
fn a_release_is_a_commit_with_a_tag() {
    let folder = repository("release_done", "nothing");
    for program in ["target/dist/inferstore", "target/dist/inferstore-node"] {
        folder.write(program, "");
    }
    for package in ["inferstore-api", "inferstore"] {
        folder.write(&format!("target/package/{package}-0.2.0.crate"), "");
    }
    assert_eq!(release(&folder, "0.2.0").code, Some(0));
    assert!(folder.read("CHANGELOG.md").contains("## Unreleased\n\n## 0.2.0, "));
    folder.git(&["diff", "--quiet", "v0.2.0", "HEAD"]);
    assert_eq!(release(&folder, "0.2.0").err, "v0.2.0 is a tag already\n");
}
