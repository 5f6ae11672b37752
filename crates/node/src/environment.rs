//! The Python environment of a node: created once for its requirements, beside them.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::{Config, Error};

/// The folder of the environment, beside the requirements.
const FOLDER: &str = ".venv";
/// The file in it that says for which requirements it was completed.
const MARKER: &str = "inferstore-requirements.txt";

/// Creates the Python environment that the settings ask for, unless it is there, and puts its Python into the
/// commands. `python` is the program that creates it; `pip` finds packages as it is set up on this machine.
///
/// # Errors
/// When Python or a package is missing: with the last line of what `pip` said.
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
        // Last, so that an environment that was interrupted is created again.
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
