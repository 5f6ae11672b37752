//! Queries of the audit that do not depend on the engine, beyond the comparison of purses with movements.

/// Names of tables and columns in an engine.
pub(super) struct Names {
    /// Table of the accounts' counters, and its account column.
    pub(super) accounts: &'static str,
    pub(super) account: &'static str,
    /// Column of tasks that movements refer to.
    pub(super) task: &'static str,
    /// Query of the reserved amounts, as account and amount by purse.
    pub(super) held: &'static str,
}

pub(super) fn fault((what, kept, computed): &(String, String, String), sentence: &str) -> String {
    format!("{what}: {sentence}; {kept} is kept, {computed} was computed")
}

/// Returns the sum of a column, even if damage makes the sum larger than an integer: SQLite's `sum` would fail, whereas
/// this expression is only inexact.
fn sum(column: &str) -> String {
    format!("(sum({column} >> 32) * 4294967296 + sum({column} & 4294967295))")
}

/// Returns queries with the sentence for their findings. Each row is an inconsistency: what, stored, computed.
pub(super) fn audits(names: &Names) -> [(String, &'static str); 7] {
    let Names { accounts, account, task, held } = names;
    let held_free = sum("held_free");
    let held_balance = sum("held_balance");
    let amount = sum("amount");
    let size = sum("size");
    [
        (
            format!(
                "WITH holds AS ( \
                   SELECT account, {held_free} + {held_balance} AS amount FROM tasks \
                   WHERE status IN ('in_queue', 'computing') GROUP BY account) \
                 SELECT format('account %s', coalesce(p.account, h.account)), \
                        CAST(coalesce(p.amount, 0) AS TEXT), CAST(coalesce(h.amount, 0) AS TEXT) \
                 FROM ({held}) p FULL JOIN holds h ON p.account = h.account \
                 WHERE coalesce(p.amount, 0) <> coalesce(h.amount, 0)"
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
                "WITH charges AS ( \
                   SELECT task, {amount} AS amount, count(*) AS times FROM movements \
                   WHERE reason = 'charge' GROUP BY task) \
                 SELECT format('task %s', coalesce(t.{task}, c.task)), CAST(coalesce(t.price, 0) AS TEXT), \
                        CAST(coalesce(c.amount, 0) AS TEXT) \
                 FROM (SELECT {task}, price FROM tasks WHERE status = 'success' AND price > 0) t \
                 FULL JOIN charges c ON c.task = t.{task} \
                 WHERE coalesce(t.price, 0) <> coalesce(c.amount, 0) OR c.times > 1"
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
                "WITH listed AS ( \
                   SELECT owner, folder, category, count(*) AS files, {size} AS bytes FROM objects \
                   WHERE owner IS NOT NULL GROUP BY owner, folder, category) \
                 SELECT format('%s/%s of account %s', folder, category, owner), \
                        CAST(coalesce(u.bytes, 0) AS TEXT), CAST(coalesce(l.bytes, 0) AS TEXT) \
                 FROM folder_usage u FULL JOIN listed l USING (owner, folder, category) \
                 WHERE coalesce(u.bytes, 0) <> coalesce(l.bytes, 0) \
                    OR coalesce(u.files, 0) <> coalesce(l.files, 0)"
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
