//! Engine-independent SQL statements. SQLite takes `$1` for a name and numbers names by their first occurrence, so each
//! statement uses its parameters in order.

/// Inserts a node key $2 under the name $1, unless the name has a valid key.
pub(super) const ADD_NODE_KEY: &str = "INSERT INTO node_keys (name, id, hash, created_at, models) \
     VALUES ($1, $2, $3, $4, $5) \
     ON CONFLICT (name) DO UPDATE SET id = excluded.id, hash = excluded.hash, \
     created_at = excluded.created_at, models = excluded.models, revoked_at = NULL \
     WHERE node_keys.revoked_at IS NOT NULL";

pub(super) const NODE_KEY: &str =
    "SELECT id, hash, name, models FROM node_keys WHERE id = $1 AND revoked_at IS NULL";

/// Selects the models of the node $1 with the key $2, and the last heartbeat of each model and of the node.
pub(super) const KNOWN_NODE: &str = "SELECT model, coalesce(node_models.seen_at, nodes.seen_at), nodes.seen_at \
     FROM nodes JOIN node_models ON node_models.node = nodes.id WHERE nodes.id = $1 AND nodes.key = $2";

/// Selects the models that external nodes have served since $1.
pub(super) const OUTSIDE_MODELS: &str = "SELECT DISTINCT model FROM node_models \
     JOIN nodes ON nodes.id = node_models.node WHERE nodes.key IS NOT NULL \
     AND coalesce(node_models.seen_at, nodes.seen_at) >= $1";

pub(super) const KEY_MODELS: &str = "SELECT count(*) FROM node_models JOIN nodes ON nodes.id = node_models.node \
     WHERE nodes.key = $1";

/// Deletes the nodes of the key $1 without a heartbeat since $2.
pub(super) const FORGET_SILENT: &str = "DELETE FROM nodes WHERE key = $1 AND seen_at < $2";

/// Records at $1 that the node $2 is alive for all models of the slot that runs the task $3.
pub(super) const TOUCH_RUNNING: &str = "UPDATE node_models SET seen_at = $1 WHERE node = $2 AND slot = ( \
     SELECT own.slot FROM node_models AS own JOIN tasks ON tasks.model = own.model \
     WHERE own.node = $2 AND tasks.id = $3)";

/// Inserts or updates the node $1 with the heartbeat $2 and the key $3.
pub(super) const NODE_SEEN: &str = "INSERT INTO nodes (id, seen_at, key) VALUES ($1, $2, $3) \
     ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at";

/// Inserts API key $1 for account $2, or un-revokes it.
pub(super) const ADD_KEY: &str = "INSERT INTO api_keys \
     (id, account, hash, created_at, name, expires_at, daily_limit, models) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) \
     ON CONFLICT (id) DO UPDATE SET revoked_at = NULL \
     WHERE api_keys.account = excluded.account AND api_keys.hash = excluded.hash";

pub(super) const KEY: &str = "SELECT api_keys.id, hash, accounts.id, username, scope, wallet_address, bucket, state, \
     name, expires_at, daily_limit, models \
     FROM api_keys JOIN accounts ON accounts.id = api_keys.account \
     WHERE api_keys.id = $1 AND revoked_at IS NULL";

pub(super) const KEYS: &str = "SELECT id, created_at, revoked_at, name, expires_at, daily_limit, models \
     FROM api_keys WHERE account = $1 ORDER BY created_at DESC, id";

/// Sets the state $1 of the account $2; a closed account stays closed.
pub(super) const SET_STATE: &str =
    "UPDATE accounts SET state = $1 WHERE id = $2 AND (state <> 'closed' OR $1 = 'closed')";

/// Sets the quota $1 of the account $2.
pub(super) const SET_QUOTA: &str = "UPDATE accounts SET quota = $1 WHERE id = $2";

/// Voids the unused upload targets of the account $1.
pub(super) const VOID_TARGETS: &str = "UPDATE upload_targets SET is_void = true \
     WHERE NOT is_used AND NOT is_void AND (owner = $1 OR payer = $1)";

pub(super) const REVOKE_KEYS: &str =
    "UPDATE api_keys SET revoked_at = $1 WHERE account = $2 AND revoked_at IS NULL";

pub(super) const BY_USERNAME: &str =
    "SELECT id, username, scope, wallet_address, bucket, state FROM accounts WHERE username = $1";

pub(super) const TASK: &str = "SELECT tasks.id, status, coalesce(cost, 0), message, input, input_format, \
     output_format, output, error, tasks.created_at, updated_at, attempt \
     FROM tasks JOIN versions ON versions.id = tasks.version WHERE tasks.id = $1 AND account = $2";

/// Sums the prices of the tasks that the API key $1 created on the day $2, without failed and canceled tasks.
pub(super) const SPENT_BY_KEY: &str = "SELECT coalesce(CAST(sum(key_tasks.price) AS BIGINT), 0) FROM key_tasks \
     JOIN tasks ON tasks.id = key_tasks.task WHERE key_tasks.key = $1 AND day = $2 \
     AND status IN ('in_queue', 'computing', 'success')";

pub(super) const ADD_KEY_TASK: &str = "INSERT INTO key_tasks (key, day, task, price) VALUES ($1, $2, $3, $4)";

/// Retention: deletes a batch of API keys' task records from before the day $1.
pub(super) const FORGET_KEY_TASKS: &str = "DELETE FROM key_tasks WHERE task IN ( \
     SELECT task FROM key_tasks WHERE day < $1 LIMIT 1000)";

pub(super) const ADD_CREATE_KEY: &str =
    "INSERT INTO create_keys (account, key, request, task, created_at) VALUES ($1, $2, $3, $4, $5)";

/// Selects the create of the account $1 that used the idempotency key $2 after $3.
pub(super) const KEYED_CREATE: &str =
    "SELECT task, request FROM create_keys WHERE account = $1 AND key = $2 AND created_at > $3";

/// Deletes the idempotency key $2 of the account $1, unless it was used after $3.
pub(super) const FORGET_KEY: &str =
    "DELETE FROM create_keys WHERE account = $1 AND key = $2 AND created_at <= $3";

/// Retention: deletes a batch of the idempotency keys that were not used after $1.
pub(super) const FORGET_KEYS: &str = "DELETE FROM create_keys WHERE (account, key) IN ( \
     SELECT account, key FROM create_keys WHERE created_at <= $1 LIMIT 1000)";

/// Selects the load of each model: queued and computing tasks, the enqueue time of the oldest queued task, and the
/// nodes with a heartbeat since $1.
pub(super) const MODEL_LOADS: &str = "SELECT model, CAST(sum(queued) AS BIGINT), CAST(sum(computing) AS BIGINT), \
       max(waits_since), CAST(sum(nodes) AS BIGINT) FROM ( \
     SELECT model, queued, 0 AS computing, 0 AS nodes, \
       (SELECT created_at FROM tasks WHERE sequence = lowest) AS waits_since \
     FROM (SELECT model, count(*) AS queued, min(sequence) AS lowest FROM tasks WHERE status = 'in_queue' \
           GROUP BY model) AS waiting \
     UNION ALL SELECT model, 0, count(*), 0, NULL FROM tasks WHERE status = 'computing' GROUP BY model \
     UNION ALL SELECT model, 0, 0, count(*), NULL FROM node_models JOIN nodes ON nodes.id = node_models.node \
     WHERE coalesce(node_models.seen_at, nodes.seen_at) >= $1 AND model IN (SELECT id FROM models) GROUP BY model \
     ) AS loads GROUP BY model ORDER BY model";

/// Selects the state of the lease of the task $1 by the node $2 in its attempt $3.
pub(super) const LEASE_STATE: &str = "SELECT status, output_format, tasks.model, leased_at, traceparent FROM tasks \
     JOIN versions ON versions.id = tasks.version WHERE tasks.id = $1 AND node = $2 AND attempt = $3";

pub(super) const ADJUSTMENT: &str =
    "SELECT purse, amount FROM adjustments WHERE account = $1 AND reference = $2";

/// Inserts an adjustment of the account $1; returns its number.
pub(super) const ADD_ADJUSTMENT: &str = "INSERT INTO adjustments (account, purse, amount, reference, note) \
     VALUES ($1, $2, $3, $4, $5) RETURNING id";

/// Selects a page of the movements of the account $1 that belong to no task, newest first.
pub(super) const MOVEMENTS: &str = "SELECT at, reason, movements.amount, from_purse, to_purse, reference, note \
     FROM movements LEFT JOIN adjustments ON adjustments.id = adjustment \
     WHERE task IS NULL AND coalesce(from_account, to_account) = $1 \
     ORDER BY at DESC, movements.id DESC LIMIT $2 OFFSET $3";

pub(super) const QUEUED_OF_MODEL: &str =
    "SELECT account, id FROM tasks WHERE status = 'in_queue' AND model = $1 LIMIT 1000";

pub(super) const ACCOUNT_OF_TASK: &str = "SELECT account FROM tasks WHERE id = $1";

/// Ends the lease of the running task $2 at $1: its node loses the lease, and any node can claim the task. Neither the
/// ended lease nor the added attempt counts as an attempt.
pub(super) const REQUEUE: &str = "UPDATE tasks SET lease_until = $1, attempt = attempt + 1, releases = releases + 2 \
     WHERE id = $2 AND status = 'computing'";

pub(super) const ADD_ACTION: &str =
    "INSERT INTO operator_log (at, request, body, status) VALUES ($1, $2, $3, $4)";

pub(super) const ACTIONS: &str =
    "SELECT at, request, body, status FROM operator_log ORDER BY id DESC LIMIT $1 OFFSET $2";

pub(super) const ALL_MODELS: &str = "SELECT models.id, username, name, price, is_public, is_official, \
     is_verified, is_playground, models.state, models.created_at, updated_at \
     FROM models JOIN accounts ON accounts.id = owner ORDER BY sequence LIMIT $1 OFFSET $2";

/// Updates the non-null properties of the model $7 at $6: price, visibility, verified, playground, state.
pub(super) const CHANGE_MODEL: &str = "UPDATE models SET price = coalesce($1, price), \
     is_public = coalesce($2, is_public), is_verified = coalesce($3, is_verified), \
     is_playground = coalesce($4, is_playground), state = coalesce($5, state), updated_at = $6 WHERE id = $7";

/// Selects a row if a version of the built-in model $1 of the operator $2 must be published. In a refresh ($3), a
/// version that the operator published instead of the built-in one stays active, and a version that existed before
/// ($4) is not activated again.
pub(super) const IS_VERSION_DUE: &str = "SELECT 1 FROM models WHERE id = $1 AND owner = $2 \
     AND NOT ($3 AND EXISTS (SELECT 1 FROM versions WHERE model = models.id \
       AND (commit_hash = $4 OR (is_active AND NOT is_built_in))))";

pub(super) const OBJECT: &str = "SELECT bucket, key, blob, mime, size, etag, created_at FROM objects \
     WHERE bucket = $1 AND key = $2";

/// Selects a row if the object in the bucket $1 with the key $2 has a download URL without a token.
pub(super) const HAS_FORMER_URL: &str = "SELECT 1 FROM objects JOIN former_urls ON former_urls.blob = objects.blob \
     WHERE bucket = $1 AND key = $2";

/// Deletes a batch of the upload targets that expired before $1.
pub(super) const FORGET_TARGETS: &str = "DELETE FROM upload_targets WHERE id IN ( \
     SELECT id FROM upload_targets WHERE expires_at < $1 LIMIT 1000)";

pub(super) const SET_SETTING: &str = "INSERT INTO settings (name, value) VALUES ($1, $2) \
     ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// Selects a row if a start adds its key $2 beside an earlier, possibly unshown one ($1), neither of them revoked.
pub(super) const MAY_ADD_KEY: &str = "SELECT 1 FROM settings WHERE name = $1 AND NOT EXISTS ( \
     SELECT 1 FROM api_keys WHERE id IN (value, $2) AND revoked_at IS NOT NULL)";

/// Finds a row in a database that a service has begun with.
pub(super) const HAS_ROWS: &str =
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM accounts) OR EXISTS (SELECT 1 FROM settings)";
