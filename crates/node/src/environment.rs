//! Python environment of a node: created once per requirements file, beside it.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::{Config, Error};

const FOLDER: &str = ".venv";
const MARKER: &str = "inferstore-requirements.txt";

/// Creates the Python environment that the settings need, unless it exists, and sets its Python in the
/// commands. `python` creates the environment; `pip` uses the package index configured on this machine.
///
/// # Errors
/// Python or a package is missing; the error has the last line of `pip`.
pub async fn prepare(config: &mut Config, python: &Path) -> Result<(), Error> {
    if let Some(requirements) = config.requirements.clone() {
        create(config, &requirements, python).await?;
    }
    config.check_programs()
}

async fn create(config: &mut Config, requirements: &Path, python: &Path) -> Result<(), Error> {
    let doing = || format!("creating the Python environment of {}", requirements.display());
    let wanted = tokio::fs::read_to_string(requirements).await.map_err(|cause| Error::new(doing(), cause))?;
    let folder = std::path::absolute(requirements.with_file_name(FOLDER))
        .map_err(|cause| Error::new(doing(), cause))?;
    let own = folder.join("bin").join("python");
    let marker = folder.join(MARKER);
    if tokio::fs::read_to_string(&marker).await.ok().as_ref() != Some(&wanted) {
        tracing::info!(folder = %folder.display(), "creating the Python environment");
        run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&folder), &doing).await?;
        let mut install = Command::new(&own);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
        run(install.arg(requirements).args(&config.pip), &doing).await?;
        // Written last, so that an interrupted environment is created again.
        tokio::fs::write(&marker, &wanted).await.map_err(|cause| Error::new(doing(), cause))?;
    }
    config.set_python(&own);
    Ok(())
}

async fn run(command: &mut Command, doing: &(impl Fn() -> String + Sync)) -> Result<(), Error> {
    let ran = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let program = Path::new(command.as_std().get_program());
    let ran = ran.map_err(|cause| Error::new(doing(), format!("{}: {cause}", program.display())))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it gave no reason");
    Err(Error::new(doing(), last.to_owned()))
}
