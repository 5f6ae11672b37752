//! Dialect of SQLite. Triggers count objects and unfinished tasks, and no row needs a lock.

use super::group_commit::MAX_BATCH;
use crate::database::dialect::Dialect;

pub(super) const SQLITE: Dialect = Dialect {
    for_update: "",
    for_no_key_update: "",
    in_list: ["IN (SELECT value FROM json_each(", "))"],
    not_in_list: ["NOT IN (SELECT value FROM json_each(", "))"],
    items: ["(SELECT value AS item FROM json_each(", "))"],
    greatest: "max",
    position: "instr",
    json_of_models: "json_group_array(model)",
    is_active: "is_active = 1",
    unused: "is_used = 0 AND is_void = 0",
    meters: "accounts",
    meter_account: "id",
    metered_accounts: "accounts",
    task: "id",
    add_account: "INSERT INTO accounts (username, scope, wallet_address, bucket, created_at, metered_at) \
         VALUES ($1, $2, $3, $4, $5, $5) ON CONFLICT (username) DO NOTHING",
    accounts: "SELECT id, username, scope, wallet_address, bucket, state, \
           coalesce(max(amount) FILTER (WHERE purse = 'balance'), 0), \
           coalesce(max(amount) FILTER (WHERE purse = 'free'), 0), \
           coalesce(max(amount) FILTER (WHERE purse = 'held'), 0), \
           coalesce(max(amount) FILTER (WHERE purse = 'debt'), 0), \
           coalesce(max(amount) FILTER (WHERE purse = 'earnings'), 0), \
           coalesce(max(amount) FILTER (WHERE purse = 'revenue'), 0) \
         FROM accounts LEFT JOIN purses ON account = id GROUP BY id ORDER BY id",
    storing: "SELECT id FROM accounts WHERE stored_bytes > 0 OR byte_seconds > 0 OR gib_seconds > 0 \
         OR id IN (SELECT account FROM purses WHERE purse = 'debt' AND amount < 0)",
    charges_at_once: MAX_BATCH,
    model_number: ["sequence, ", "(SELECT coalesce(max(sequence), 0) + 1 FROM models), "],
    count_object: ["", ""],
    remove_object: "DELETE FROM objects WHERE bucket = $1 AND key = $2 AND ($3 IS NULL OR payer = $3) \
         RETURNING payer, size, blob",
};
