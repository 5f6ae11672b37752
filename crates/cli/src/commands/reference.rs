//! `inferstore reference`, which writes the documentation of the command.

use std::path::PathBuf;

use clap::Args;

use crate::failure::{Failure, Result};
use crate::markdown;
use crate::settings::Session;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Write a manual page for each command into this folder
    #[arg(long, value_name = "DIR")]
    man: Option<PathBuf>,
}

pub(crate) fn execute(arguments: &Arguments, root: &clap::Command, session: &Session) -> Result {
    let Some(folder) = &arguments.man else {
        return session.output.bytes(markdown::reference(root).as_bytes());
    };
    let folder = session.here(folder);
    let failed = Failure::of_path(&folder, "cannot be written");
    std::fs::create_dir_all(&folder).map_err(&failed)?;
    for (name, page) in manual(root) {
        std::fs::write(folder.join(name), page).map_err(&failed)?;
    }
    Ok(())
}

pub(crate) fn manual(root: &clap::Command) -> Vec<(String, Vec<u8>)> {
    fn pages(command: &clap::Command, name: &str, all: &mut Vec<(String, Vec<u8>)>) {
        let own = command.clone().name(name.to_owned()).disable_help_subcommand(true);
        let mut page = Vec::new();
        // Writing into memory cannot fail.
        let _ = clap_mangen::Man::new(own).date("").render(&mut page);
        all.push((format!("{name}.1"), page));
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            pages(below, &format!("{name}-{}", below.get_name()), all);
        }
    }
    let mut root = root.clone();
    root.build();
    let mut all = Vec::new();
    pages(&root, "inferstore", &mut all);
    all
}
