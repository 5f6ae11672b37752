//! `inferstore balance`.

use inferstore::{Decimal, types};

use crate::failure::Result;
use crate::output::Report;
use crate::recorded::with_json;
use crate::settings::Session;
use crate::table::Table;

pub(crate) const EXAMPLES: &str = "\
Examples:
  inferstore balance
  inferstore balance --format quiet   # the available balance alone";

pub(crate) async fn execute(session: &Session) -> Result {
    let (balance, json) = with_json(session.client()?.balance()).await?;
    let shown = |amount: &Option<Decimal>| amount.as_ref().map(ToString::to_string);
    let table = Table::of_fields([
        ("balance", shown(&balance.balance)),
        ("free credits", shown(&balance.free_balance)),
        ("debt", shown(&balance.debt)),
        ("earnings", shown(&balance.earnings)),
        ("wallet", balance.wallet_address.clone()),
    ]);
    let report = Report::of_one(table, json, shown(&balance.balance).unwrap_or_default());
    session.output.report(&report.of_type::<types::AccountBalance>())
}
