//! Dialect of PostgreSQL.

use crate::database::dialect::Dialect;

pub(super) const POSTGRES: Dialect = Dialect {
    for_update: " FOR UPDATE",
    for_no_key_update: " FOR NO KEY UPDATE",
    in_list: ["= ANY (", ")"],
    not_in_list: ["<> ALL (", ")"],
    items: ["unnest(", "::text[]) AS items (item)"],
    greatest: "greatest",
    position: "strpos",
    json_of_models: "coalesce(json_agg(model ORDER BY model), '[]')::text",
    is_active: "is_active",
    unused: "NOT is_used AND NOT is_void",
    meters: "purses",
    meter_account: "account",
    metered_accounts: "accounts JOIN purses ON account = id",
    task: "sequence",
    add_account: "WITH added AS ( \
           INSERT INTO accounts (username, scope, wallet_address, bucket, created_at) \
           VALUES ($1, $2, $3, $4, $5) ON CONFLICT (username) DO NOTHING RETURNING id) \
         INSERT INTO purses (account, metered_at) SELECT id, $5 FROM added",
    accounts: "SELECT id, username, scope, wallet_address, bucket, state, balance, free, held, debt, \
         least(earnings + coalesce(more_earnings, 0), 9223372036854775807)::bigint, \
         least(revenue + coalesce(more_revenue, 0), 9223372036854775807)::bigint \
         FROM accounts JOIN purses ON purses.account = accounts.id LEFT JOIN ( \
           SELECT account, sum(amount) FILTER (WHERE purse = 'earnings') AS more_earnings, \
             sum(amount) FILTER (WHERE purse = 'revenue') AS more_revenue \
           FROM purse_changes GROUP BY account) AS changes ON changes.account = accounts.id ORDER BY id",
    storing: "SELECT account FROM purses \
         WHERE stored_bytes > 0 OR byte_seconds > 0 OR gib_seconds > 0 OR debt < 0",
    charges_at_once: 8,
    model_number: ["", ""],
    count_object: [
        "WITH stored AS (",
        " RETURNING owner, folder, category, size) \
         INSERT INTO folder_usage (owner, folder, category, files, bytes) \
         SELECT owner, folder, category, 1, size FROM stored WHERE owner IS NOT NULL \
         ON CONFLICT (owner, folder, category) DO UPDATE \
         SET files = folder_usage.files + 1, bytes = folder_usage.bytes + excluded.bytes",
    ],
    remove_object: "WITH removed AS ( \
           DELETE FROM objects WHERE bucket = $1 AND key = $2 AND ($3::bigint IS NULL OR payer = $3) \
           RETURNING owner, folder, category, payer, size, blob), \
         counted AS ( \
           UPDATE folder_usage SET files = files - 1, bytes = bytes - removed.size FROM removed \
           WHERE folder_usage.owner = removed.owner AND folder_usage.folder = removed.folder \
             AND folder_usage.category = removed.category) \
         SELECT payer, size, blob FROM removed",
};
