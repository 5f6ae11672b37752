//! `inferstore reference`, which writes the documentation of the command.

use clap::Args;

use crate::failure::Result;
use crate::settings::Session;

/// Print the reference of all commands as Markdown
#[derive(Debug, Args)]
pub(crate) struct Arguments {}

pub(crate) fn execute(_: &Arguments, session: &Session) -> Result {
    session.output.bytes(crate::reference().as_bytes())
}
