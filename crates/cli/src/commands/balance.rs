//! `inferstore balance`.

use clap::Args;
use inferstore::{Decimal, with_payload};

use crate::failure::Result;
use crate::output::Report;
use crate::settings::Session;
use crate::table::Table;

/// Show the balance of the account
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {}

const EXAMPLES: &str = "\
Examples:
  inferstore balance
  inferstore balance --format quiet     the available balance alone";

pub(crate) async fn execute(_: &Arguments, session: &Session) -> Result {
    let client = session.client()?;
    let (balance, payload) = with_payload(client.account().balance()).await;
    let balance = balance?;
    let shown = |amount: &Option<Decimal>| amount.as_ref().map(ToString::to_string);
    let table = Table::of_fields([
        ("balance", shown(&balance.balance)),
        ("free credits", shown(&balance.free_balance)),
        ("debt", shown(&balance.debt)),
        ("earnings", shown(&balance.earnings)),
        ("wallet", balance.wallet_address.clone()),
    ]);
    session.output.report(&Report::of_one(table, payload, shown(&balance.balance).unwrap_or_default()))
}
