//! Engine-independent SQL. SQLite numbers `$1` by first occurrence, so each statement uses its parameters in order.

pub(super) const TASK: &str = "SELECT tasks.id, status, coalesce(cost, 0), message, input, input_format, \
     output_format, output, error, tasks.created_at, updated_at, attempt \
     FROM tasks JOIN versions ON versions.id = tasks.version WHERE tasks.id = $1 AND account = $2";

pub(super) const SPENT_BY_KEY: &str = "SELECT coalesce(CAST(sum(key_tasks.price) AS BIGINT), 0) FROM key_tasks \
     JOIN tasks ON tasks.id = key_tasks.task WHERE key_tasks.key = $1 AND day = $2 \
     AND status IN ('in_queue', 'computing', 'success')";

pub(super) const ADD_KEY_TASK: &str = "INSERT INTO key_tasks (key, day, task, price) VALUES ($1, $2, $3, $4)";

pub(super) const FORGET_KEY_TASKS: &str = "DELETE FROM key_tasks WHERE task IN ( \
     SELECT task FROM key_tasks WHERE day < $1 LIMIT 1000)";

pub(super) const ADD_CREATE_KEY: &str =
    "INSERT INTO create_keys (account, key, request, task, created_at) VALUES ($1, $2, $3, $4, $5)";

pub(super) const KEYED_CREATE: &str =
    "SELECT task, request FROM create_keys WHERE account = $1 AND key = $2 AND created_at > $3";

pub(super) const FORGET_KEY: &str =
    "DELETE FROM create_keys WHERE account = $1 AND key = $2 AND created_at <= $3";

pub(super) const FORGET_KEYS: &str = "DELETE FROM create_keys WHERE (account, key) IN ( \
     SELECT account, key FROM create_keys WHERE created_at <= $1 LIMIT 1000)";

/// Selects the load of each model, with its live nodes since $1 and the enqueue time of its oldest queued task, unless
/// the model is paused or the account suspended. One index lookup for each account and model with queued tasks.
pub(super) const MODEL_LOADS: &str = "SELECT model, CAST(sum(queued) AS BIGINT), CAST(sum(computing) AS BIGINT), \
       min(waits_since), CAST(sum(nodes) AS BIGINT) FROM ( \
     SELECT model, queued, 0 AS computing, 0 AS nodes, \
       (SELECT created_at FROM tasks WHERE sequence = lowest \
          AND EXISTS (SELECT 1 FROM accounts WHERE id = waiting.account AND state = 'active') \
          AND NOT EXISTS (SELECT 1 FROM models WHERE id = waiting.model AND state <> 'active')) AS waits_since \
     FROM (SELECT model, account, count(*) AS queued, min(sequence) AS lowest FROM tasks \
           WHERE status = 'in_queue' GROUP BY model, account) AS waiting \
     UNION ALL SELECT model, 0, count(*), 0, NULL FROM tasks WHERE status = 'computing' GROUP BY model \
     UNION ALL SELECT model, 0, 0, count(*), NULL FROM node_models JOIN nodes ON nodes.id = node_models.node \
     WHERE coalesce(node_models.seen_at, nodes.seen_at) >= $1 AND model IN (SELECT id FROM models) GROUP BY model \
     ) AS loads GROUP BY model ORDER BY model";

pub(super) const LEASE_STATE: &str = "SELECT status, output_format, tasks.model, leased_at, traceparent FROM tasks \
     JOIN versions ON versions.id = tasks.version WHERE tasks.id = $1 AND node = $2 AND attempt = $3";
