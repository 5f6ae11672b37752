//! Programs for tasks: npm and PyPI packages, installed on first use into `target/tools`, at fixed versions.

use std::env;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};

/// Packages that are installed together, of exact versions; the manager resolves their dependencies.
pub struct Set<'a> {
    /// Name of the folder.
    pub name: &'a str,
    /// npm packages with versions.
    pub npm: &'a [&'a str],
    /// PyPI packages with versions.
    pub pypi: &'a [&'a str],
}

/// Linters of the document; Redocly also renders the pages and runs the flows. The last two check a publication.
pub const LINTERS: Set<'static> = Set {
    name: "linters",
    npm: &[
        "@redocly/cli@2.77.0",
        "@stoplight/spectral-cli@6.16.3",
        "ajv@8.20.0",
        "@apidevtools/swagger-parser@13.0.0",
    ],
    pypi: &["openapi-spec-validator==0.9.0"],
};

/// Environment variables that disable telemetry and update notices.
pub const QUIET: [(&str, &str); 7] = [
    ("DO_NOT_TRACK", "1"),
    ("GOTELEMETRY", "off"),
    ("HEY_API_TELEMETRY", "off"),
    ("NO_UPDATE_NOTIFIER", "1"),
    ("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true"),
    ("REDOCLY_TELEMETRY", "off"),
    ("SCARF_ANALYTICS", "false"),
];

/// Installed set of packages.
pub struct Tools<'a> {
    root: &'a Path,
    folder: PathBuf,
}

impl<'a> Tools<'a> {
    /// Installs missing packages. The stamp has the versions, so a new version reinstalls.
    pub fn install(root: &'a Path, set: &Set<'_>) -> Result<Self> {
        let tools = Self { root, folder: root.join("target/tools").join(set.name) };
        let stamp = tools.folder.join("installed");
        let versions = [set.npm, set.pypi].concat().join("\n");
        if fs::read_to_string(&stamp).is_ok_and(|text| text == versions) {
            return Ok(tools);
        }
        fs::create_dir_all(tools.node_folder())
            .with_context(|| format!("cannot create {}", tools.folder.display()))?;
        if !set.npm.is_empty() {
            let npm = ["install", "--no-audit", "--no-fund", "--no-save", "--prefix"];
            must(
                "Node.js",
                tools.command("npm").args(npm).arg(absolute(&tools.node_folder())?).args(set.npm),
            )?;
        }
        if !set.pypi.is_empty() {
            let environment = absolute(&tools.folder.join("python"))?;
            must("Python", tools.command("python3").args(["-m", "venv"]).arg(environment))?;
            must("pip", tools.python("pip")?.args(["install", "--quiet"]).args(set.pypi))?;
        }
        fs::write(stamp, versions).with_context(|| format!("cannot write to {}", tools.folder.display()))?;
        Ok(tools)
    }

    /// Returns the folder of the set; its Python environment is in `python`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folder of the npm packages, with `node_modules`.
    pub fn node_folder(&self) -> PathBuf {
        self.folder.join("node")
    }

    /// Returns a program of an npm package.
    pub fn node(&self, name: &str) -> Result<Command> {
        Ok(self.command(absolute(&self.node_folder().join("node_modules/.bin").join(name))?))
    }

    /// Returns a program of a Python package.
    pub fn python(&self, name: &str) -> Result<Command> {
        Ok(self.command(absolute(&self.folder.join("python/bin").join(name))?))
    }

    /// Returns a program, run in the root of the repository.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.envs(QUIET);
        if self.root != Path::new("") {
            command.current_dir(self.root);
        }
        command
    }
}

/// Returns Cargo without the variables that `cargo xtask` sets about this package: build scripts that read
/// them would run again, with all dependents.
pub fn cargo() -> Command {
    let mut cargo = Command::new("cargo");
    let own = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| own.iter().any(|prefix| name.starts_with(prefix))) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Runs the command; an error has its output. `product` provides the program.
pub fn must(product: &str, command: &mut Command) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(output) => {
            ensure!(output.status.success(), "{program} failed:\n{}", output_of(&output));
            Ok(output)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("this needs {product}, and there is no `{program}` here; install {product} and try again")
        }
        Err(error) => Err(error).with_context(|| format!("cannot run {program}")),
    }
}

/// Writes a progress line.
pub fn progress(line: &str) -> Result<()> {
    writeln!(io::stderr(), "{line}").context("cannot write to standard error")
}

/// Returns true if a program is in a folder of `PATH`.
pub fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Checks that cargo has a subcommand.
pub fn need_subcommand(name: &str) -> Result<()> {
    let install = format!("`cargo install --locked cargo-{name}`");
    ensure!(cargo_has(name), "there is no cargo-{name} here; {install} and try again");
    Ok(())
}

/// Returns true if cargo has a subcommand.
pub fn cargo_has(subcommand: &str) -> bool {
    let asked = cargo().args([subcommand, "--version"]).output();
    asked.is_ok_and(|output| output.status.success())
}

/// Returns the whole output of a program.
pub fn output_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Returns the absolute path, so that the command may run anywhere.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot resolve {}", path.display()))
}
