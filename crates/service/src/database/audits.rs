//! Queries of the audit that do not depend on the engine, beyond the comparison of purses with movements.

pub(super) struct AuditNames {
    pub(super) accounts: &'static str,
    pub(super) account: &'static str,
    pub(super) task: &'static str,
    /// Query of the reserved amounts, as account and amount by purse.
    pub(super) held: &'static str,
}

pub(super) fn fault((what, kept, computed): &(String, String, String), sentence: &str) -> String {
    format!("{what}: {sentence}; {kept} is kept, {computed} was computed")
}

/// Returns the sum of a column: inexact, if damage makes the sum so large that SQLite's `sum` would fail.
fn sum(column: &str) -> String {
    format!("(sum({column} >> 32) * 4294967296 + sum({column} & 4294967295))")
}

/// Returns queries with the sentence for their findings. Each row is an inconsistency: what, stored, computed. Rows of
/// two tables are grouped, not joined: SQLite has no index for a full join, and compares every pair of rows.
pub(super) fn audits(names: &AuditNames) -> [(String, &'static str); 7] {
    let AuditNames { accounts, account, task, held } = names;
    let held_free = sum("held_free");
    let held_balance = sum("held_balance");
    let amount = sum("amount");
    let size = sum("size");
    [
        (
            format!(
                "SELECT format('account %s', account), CAST(sum(kept) AS TEXT), CAST(sum(computed) AS TEXT) FROM ( \
                   SELECT account, amount AS kept, 0 AS computed FROM ({held}) AS held \
                   UNION ALL SELECT account, 0, {held_free} + {held_balance} FROM tasks \
                   WHERE status IN ('in_queue', 'computing') GROUP BY account) AS amounts \
                 GROUP BY account HAVING sum(kept) <> sum(computed)"
            ),
            "what is held is not the price of the tasks that have not ended",
        ),
        (
            format!(
                "WITH unended AS ( \
                   SELECT account, count(*) AS tasks FROM tasks \
                   WHERE status IN ('in_queue', 'computing') GROUP BY account) \
                 SELECT format('account %s', a.{account}), CAST(a.unfinished AS TEXT), \
                        CAST(coalesce(u.tasks, 0) AS TEXT) \
                 FROM {accounts} a LEFT JOIN unended u ON a.{account} = u.account \
                 WHERE a.unfinished <> coalesce(u.tasks, 0)"
            ),
            "the count of unfinished tasks is not that of the tasks that have not ended",
        ),
        (
            format!(
                "SELECT format('task %s', task), CAST(sum(price) AS TEXT), CAST({amount} AS TEXT) FROM ( \
                   SELECT {task} AS task, price, 0 AS amount, 0 AS times FROM tasks \
                   WHERE status = 'success' AND price > 0 \
                   UNION ALL SELECT task, 0, amount, 1 FROM movements WHERE reason = 'charge') AS charges \
                 GROUP BY task HAVING sum(price) <> {amount} OR sum(times) > 1"
            ),
            "a task was not charged exactly once",
        ),
        (
            format!(
                "WITH refunds AS ( \
                   SELECT task, {amount} AS amount FROM movements WHERE reason = 'refund' GROUP BY task) \
                 SELECT format('task %s', r.task), CAST(coalesce(t.price, 0) AS TEXT), CAST(r.amount AS TEXT) \
                 FROM refunds r LEFT JOIN tasks t ON t.{task} = r.task AND t.status = 'success' \
                 WHERE coalesce(t.price, 0) <> r.amount"
            ),
            "a refund is not what the task has cost",
        ),
        (
            format!(
                "WITH stored AS ( \
                   SELECT payer, {size} AS bytes FROM objects WHERE payer IS NOT NULL GROUP BY payer) \
                 SELECT format('bytes of account %s', a.{account}), CAST(a.stored_bytes AS TEXT), \
                        CAST(coalesce(s.bytes, 0) AS TEXT) \
                 FROM {accounts} a LEFT JOIN stored s ON s.payer = a.{account} \
                 WHERE a.stored_bytes <> coalesce(s.bytes, 0)"
            ),
            "the metered bytes are not those of the files that it pays for",
        ),
        (
            format!(
                "SELECT format('%s/%s of account %s', folder, category, owner), CAST(sum(kept) AS TEXT), \
                        CAST(sum(computed) AS TEXT) FROM ( \
                   SELECT owner, folder, category, bytes AS kept, 0 AS computed, files AS kept_files, \
                     0 AS computed_files FROM folder_usage \
                   UNION ALL SELECT owner, folder, category, 0, {size}, 0, count(*) FROM objects \
                   WHERE owner IS NOT NULL GROUP BY owner, folder, category) AS folders \
                 GROUP BY owner, folder, category \
                 HAVING sum(kept) <> sum(computed) OR sum(kept_files) <> sum(computed_files)"
            ),
            "the usage of a folder is not that of its files",
        ),
        (
            "SELECT format('account %s', t.account), '0', CAST(count(*) AS TEXT) FROM tasks t \
             WHERE status = 'in_queue' AND NOT EXISTS ( \
               SELECT 1 FROM turns WHERE turns.account = t.account AND turns.model = t.model) \
             GROUP BY t.account"
                .to_owned(),
            "queued tasks have no turn, so they are never claimed",
        ),
    ]
}
