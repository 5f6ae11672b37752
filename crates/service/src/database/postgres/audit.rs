//! Audit: recomputes every balance from the movements, and every reserved amount from the tasks.

use deadpool_postgres::{Client, Transaction};
use tokio_postgres::IsolationLevel;

use super::failure::PostgresResult;
use super::statements::{all, one};
use crate::database::audits::{AuditNames, audits, fault};
use crate::database::records::{column, triple};
use crate::ledger::Audit;

const AUDIT_NAMES: AuditNames = AuditNames {
    accounts: "purses",
    account: "account",
    task: "sequence",
    held: "SELECT account, held AS amount FROM purses",
};

/// Selects (what, stored, computed) for each purse that differs from its movements, whose sum can exceed an integer.
const PURSES: &str = "WITH kept AS ( \
           SELECT account, purse, amount::numeric FROM purses CROSS JOIN LATERAL (VALUES \
             ('balance', balance), ('free', free), ('held', held), ('debt', debt), ('earnings', earnings), \
             ('revenue', revenue)) AS of_account (purse, amount) \
           UNION ALL SELECT account, purse, amount FROM purse_changes), \
         moved AS ( \
           SELECT to_account AS account, to_purse AS purse, amount::numeric FROM movements \
           WHERE to_account IS NOT NULL \
           UNION ALL SELECT from_account, from_purse, -amount FROM movements WHERE from_account IS NOT NULL), \
         kept_sums AS (SELECT account, purse, sum(amount) AS amount FROM kept GROUP BY account, purse), \
         moved_sums AS (SELECT account, purse, sum(amount) AS amount FROM moved GROUP BY account, purse) \
         SELECT format('%s of account %s', purse, account), coalesce(k.amount, 0)::text, \
                coalesce(m.amount, 0)::text \
         FROM kept_sums k FULL JOIN moved_sums m USING (account, purse) \
         WHERE coalesce(k.amount, 0) <> coalesce(m.amount, 0)";

pub(super) async fn audit(connection: &mut Client) -> PostgresResult<Audit> {
    let snapshot =
        connection.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    let snapshot = snapshot.start().await?;
    let faults = faults(&snapshot).await?;
    let movements = one(&snapshot, "SELECT count(*) FROM movements", &[], column).await?;
    Ok(Audit { movements, faults })
}

async fn faults(snapshot: &Transaction<'_>) -> PostgresResult<Vec<String>> {
    let purses = (PURSES.to_owned(), "a purse is not the sum of its movements");
    let mut faults = Vec::new();
    for (query, sentence) in [purses].into_iter().chain(audits(&AUDIT_NAMES)) {
        let wrong = all(snapshot, &query, &[], triple).await?;
        faults.extend(wrong.iter().map(|wrong| fault(wrong, sentence)));
    }
    Ok(faults)
}
