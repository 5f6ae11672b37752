//! `inferstore reference`, which writes the documentation of the command.

use std::path::PathBuf;

use clap::Args;

use crate::failure::{Failure, Result};
use crate::settings::Session;

/// Print the reference of all commands as Markdown, or write manual pages
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Write a manual page for each command into this folder
    #[arg(long, value_name = "DIR")]
    man: Option<PathBuf>,
}

pub(crate) fn execute(arguments: &Arguments, session: &Session) -> Result {
    let Some(folder) = &arguments.man else {
        return session.output.bytes(crate::reference().as_bytes());
    };
    let folder = session.environment.folder.join(folder);
    let failed = |error| Failure::local_failure(format!("{} cannot be written", folder.display()), error);
    std::fs::create_dir_all(&folder).map_err(failed)?;
    for (name, page) in crate::manual() {
        std::fs::write(folder.join(name), page).map_err(failed)?;
    }
    Ok(())
}
