//! Helpers of the tests: a folder for their files, and the program, run in that folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder that cargo names to the program when it runs `cargo xtask`.
const XTASK: &str = env!("CARGO_MANIFEST_DIR");

pub(crate) fn repository_file(name: &str) -> String {
    let path = Path::new(XTASK).join("..").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{} can be read: {error}", path.display()))
}

pub(crate) fn real_document() -> String {
    repository_file("openapi/inferstore.yaml")
}

pub(crate) fn real_version() -> String {
    let document = real_document();
    let version = document.lines().find_map(|line| line.strip_prefix("  version: "));
    version.expect("the document has a version").to_owned()
}

pub(crate) fn replaced(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "the text to replace is no longer there: {old}");
    text.replacen(old, new, 1)
}

pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        if path.exists() {
            fs::remove_dir_all(&path).expect("what an earlier run left can be removed");
        }
        fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        let parent = path.parent().expect("a file stands in a folder");
        fs::create_dir_all(parent).and_then(|()| fs::write(&path, text)).expect("a file can be written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("the file was written")
    }

    pub(crate) fn generate(&self, options: &[&str]) -> Said {
        let mut command = self.xtask(Path::new(XTASK));
        command.arg("generate").args(options);
        command.arg("--document").arg(self.path("document.yaml"));
        command.arg("--output").arg(self.path("generated.rs"));
        Said::by(&mut command)
    }

    pub(crate) fn xtask(&self, manifest: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.current_dir(&self.0).env("CARGO_MANIFEST_DIR", manifest);
        command
    }

    pub(crate) fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        let said = Said::by(command.current_dir(&self.0).args(arguments));
        assert_eq!(said.code, Some(0), "git {}: {}", arguments.join(" "), said.err);
    }
}

#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// Runs the command. Whatever repository the tests are started from, git must look for the one in
    /// the folder.
    pub(crate) fn by(command: &mut Command) -> Self {
        for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(variable);
        }
        let output = command.output().expect("the program can be run");
        let text = |bytes| String::from_utf8(bytes).expect("it speaks UTF-8");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    pub(crate) fn succeeded(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// Returns the standard error of a failure, which writes nothing to the standard output, which others may read.
    pub(crate) fn failed(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (Some(1), ""), "{}", self.err);
        self.err
    }
}
