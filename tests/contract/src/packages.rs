//! Packages for other languages, in `sdk`: builds each in a copy, and runs its tests against the service.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::consumers::{WORK, link};
use crate::repository::files;
use crate::service::build_command;
use crate::tools::{QUIET, Set, Tools, absolute};
use crate::{BUILD_TIMEOUT, lines_of};

/// Page whose examples the tests of the packages run.
const PAGE: &str = "docs/testing.md";

pub(crate) struct Package {
    pub(crate) folder: &'static str,
    tools: Set<'static>,
    test: &'static str,
}

pub(crate) const PACKAGES: [Package; 2] = [
    Package {
        folder: "sdk/python",
        tools: Set {
            name: "sdk-python",
            npm: &["pyright@1.1.414"],
            pypi: &["httpx==0.28.1", "hatchling==1.33.0", "mypy==2.4.1", "pytest==9.2.0", "ruff==0.17.6"],
        },
        test: "ruff check --no-cache
            ruff format --no-cache --check
            python -m mypy
            python -m pip install --quiet --no-deps --no-build-isolation --force-reinstall .
            python -m pytest --quiet",
    },
    Package {
        folder: "sdk/typescript",
        tools: Set {
            name: "sdk-typescript",
            npm: &["typescript@5.9.3", "@types/node@20.19.9", "vitest@4.1.12"],
            pypi: &[],
        },
        test: "tsc
            node --test --test-concurrency=4 dist/test/*.test.js",
    },
];

impl Package {
    pub(crate) fn test(&self, root: &Path) -> Result<String> {
        let tools = Tools::install(root, &self.tools)?;
        let folder = absolute(&root.join(WORK).join(self.tools.name))?;
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        for (name, content) in files(root)? {
            let path = match Path::new(&name).strip_prefix(self.folder) {
                Ok(name) => folder.join(name),
                Err(_) if name == PAGE => folder.join(PAGE),
                Err(_) => continue,
            };
            fs::create_dir_all(path.parent().unwrap_or(&folder))
                .and_then(|()| fs::write(&path, content))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let modules = absolute(&tools.node_folder().join("node_modules"))?;
        link(&modules, &folder.join("node_modules"))?;
        let mut path = vec![absolute(&tools.folder().join("python/bin"))?, modules.join(".bin")];
        path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        let path = env::join_paths(path).context("a folder of PATH has a name that PATH cannot hold")?;
        let mut command = Command::new("bash");
        command.args(["-eu", "-c", self.test]).current_dir(&folder).env("PATH", path).envs(QUIET);
        command.env("INFERSTORE_COMMAND", build_command()?);
        let tested = lines_of(&command, BUILD_TIMEOUT)?;
        ensure!(tested.is_ok(), "{}: {}", self.folder, tested.err().unwrap_or_default());
        Ok(format!("{}: the package passes its tests\n", self.folder))
    }
}
