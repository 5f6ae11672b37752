//! `inferstore version`.

use clap::Args;

use crate::failure::Result;
use crate::output::Report;
use crate::settings::Session;
use crate::table::Table;

/// Print the version
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {}

const EXAMPLES: &str = "\
Examples:
  inferstore version
  inferstore version --format json";

pub(crate) fn execute(_: &Arguments, session: &Session) -> Result {
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    let table = Table::of_fields([("inferstore", Some(VERSION.to_owned()))]);
    session.output.report(&Report::of_one(table, serde_json::json!({"version": VERSION}), VERSION))
}
