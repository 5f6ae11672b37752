//! The audit: every balance is computed again from the movements, every hold from the tasks.

use deadpool_postgres::{Client, Transaction};
use tokio_postgres::IsolationLevel;

use super::failure::Outcome;
use super::statements::{all, column, one};
use super::values::unsigned;
use crate::ledger::Audit;

/// Queries that return a row (what, kept, computed) for everything that does not add up. Sums are numeric: those
/// of all credits that a purse ever got can be larger than an integer.
const AUDITS: &[(&str, &str)] = &[
    (
        "WITH kept AS ( \
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
         WHERE coalesce(k.amount, 0) <> coalesce(m.amount, 0)",
        "a purse is not the sum of its movements",
    ),
    (
        "WITH holds AS ( \
           SELECT account, sum(held_free + held_balance) AS amount, count(*) AS tasks FROM tasks \
           WHERE status IN ('in_queue', 'computing') GROUP BY account) \
         SELECT format('account %s', coalesce(p.account, h.account)), \
                coalesce(p.held, 0)::text, coalesce(h.amount, 0)::text \
         FROM purses p FULL JOIN holds h ON p.account = h.account \
         WHERE coalesce(p.held, 0) <> coalesce(h.amount, 0)",
        "what is held is not the price of the tasks that have not ended",
    ),
    (
        "WITH unended AS ( \
           SELECT account, count(*) AS tasks FROM tasks \
           WHERE status IN ('in_queue', 'computing') GROUP BY account) \
         SELECT format('account %s', p.account), p.unfinished::text, coalesce(u.tasks, 0)::text \
         FROM purses p LEFT JOIN unended u ON p.account = u.account \
         WHERE p.unfinished <> coalesce(u.tasks, 0)",
        "the count of unfinished tasks is not that of the tasks that have not ended",
    ),
    (
        "WITH charges AS ( \
           SELECT task, sum(amount) AS amount, count(*) AS times FROM movements \
           WHERE reason = 'charge' GROUP BY task) \
         SELECT format('task %s', coalesce(t.sequence, c.task)), coalesce(t.price, 0)::text, \
                coalesce(c.amount, 0)::text \
         FROM (SELECT sequence, price FROM tasks WHERE status = 'success' AND price > 0) t \
         FULL JOIN charges c ON c.task = t.sequence \
         WHERE coalesce(t.price, 0) <> coalesce(c.amount, 0) OR c.times > 1",
        "a task was not charged exactly once",
    ),
    (
        "WITH refunds AS ( \
           SELECT task, sum(amount) AS amount FROM movements WHERE reason = 'refund' GROUP BY task) \
         SELECT format('task %s', r.task), coalesce(t.price, 0)::text, r.amount::text \
         FROM refunds r LEFT JOIN tasks t ON t.sequence = r.task AND t.status = 'success' \
         WHERE coalesce(t.price, 0) <> r.amount",
        "a refund is not what the task has cost",
    ),
    (
        "WITH stored AS ( \
           SELECT payer, sum(size) AS bytes FROM objects WHERE payer IS NOT NULL GROUP BY payer) \
         SELECT format('bytes of account %s', p.account), p.stored_bytes::text, coalesce(s.bytes, 0)::text \
         FROM purses p LEFT JOIN stored s ON s.payer = p.account \
         WHERE p.stored_bytes <> coalesce(s.bytes, 0)",
        "the metered bytes are not those of the files that it pays for",
    ),
    (
        "WITH listed AS ( \
           SELECT owner, folder, category, count(*) AS files, sum(size) AS bytes FROM objects \
           WHERE owner IS NOT NULL GROUP BY owner, folder, category) \
         SELECT format('%s/%s of account %s', folder, category, owner), \
                coalesce(u.bytes, 0)::text, coalesce(l.bytes, 0)::text \
         FROM folder_usage u FULL JOIN listed l USING (owner, folder, category) \
         WHERE coalesce(u.bytes, 0) <> coalesce(l.bytes, 0) OR coalesce(u.files, 0) <> coalesce(l.files, 0)",
        "the usage of a folder is not that of its files",
    ),
    (
        "SELECT format('account %s', t.account), '0', count(*)::text FROM tasks t \
         WHERE status = 'in_queue' AND NOT EXISTS ( \
           SELECT 1 FROM turns WHERE turns.account = t.account AND turns.model = t.model) \
         GROUP BY t.account",
        "queued tasks have no turn, so they are never claimed",
    ),
];

/// Checks one snapshot: writes go on meanwhile, and are not seen.
pub(super) async fn audit(connection: &mut Client) -> Outcome<Audit> {
    let snapshot =
        connection.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    let snapshot = snapshot.start().await?;
    let faults = faults(&snapshot).await?;
    let movements: i64 = one(&snapshot, "SELECT count(*) FROM movements", &[], column).await?;
    Ok(Audit { movements: unsigned(movements), faults })
}

async fn faults(snapshot: &Transaction<'_>) -> Outcome<Vec<String>> {
    let mut faults = Vec::new();
    for (query, sentence) in AUDITS {
        let wrong: Vec<(String, String, String)> =
            all(snapshot, query, &[], |row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))).await?;
        let fault = |(what, kept, computed): (String, String, String)| {
            format!("{what}: {sentence}; {kept} is kept, {computed} was computed")
        };
        faults.extend(wrong.into_iter().map(fault));
    }
    Ok(faults)
}
