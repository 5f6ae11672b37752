//! Statements in the SQL of any engine. SQLite takes `$1` for a name and numbers names as they appear first, so a
//! statement names its parameters in order.

/// Adds a node key $2 under the name $1, unless that has a valid one.
pub(super) const ADD_NODE_KEY: &str = "INSERT INTO node_keys (name, id, hash, created_at, models) \
     VALUES ($1, $2, $3, $4, $5) \
     ON CONFLICT (name) DO UPDATE SET id = excluded.id, hash = excluded.hash, \
     created_at = excluded.created_at, models = excluded.models, revoked_at = NULL \
     WHERE node_keys.revoked_at IS NOT NULL";

/// The valid node key $1.
pub(super) const NODE_KEY: &str =
    "SELECT id, hash, name, models FROM node_keys WHERE id = $1 AND revoked_at IS NULL";

/// The models of the node $1 with the key $2, and when it was seen.
pub(super) const KNOWN_NODE: &str = "SELECT model, seen_at FROM nodes JOIN node_models \
     ON node_models.node = nodes.id WHERE nodes.id = $1 AND nodes.key = $2";

/// The models of nodes with a key that were seen since $1.
pub(super) const OUTSIDE_MODELS: &str = "SELECT DISTINCT model FROM node_models \
     JOIN nodes ON nodes.id = node_models.node WHERE nodes.key IS NOT NULL AND seen_at >= $1";

/// Adds the node $1, seen at $2, with the key $3.
pub(super) const NODE_SEEN: &str = "INSERT INTO nodes (id, seen_at, key) VALUES ($1, $2, $3) \
     ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at";

/// Adds the API key $1 of the account $2; once more, it is valid again.
pub(super) const ADD_KEY: &str = "INSERT INTO api_keys (id, account, hash, created_at) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (id) DO UPDATE SET revoked_at = NULL \
     WHERE api_keys.account = excluded.account AND api_keys.hash = excluded.hash";

/// The valid API key $1 with its account.
pub(super) const KEY: &str = "SELECT api_keys.id, hash, accounts.id, username, scope, wallet_address, bucket \
     FROM api_keys JOIN accounts ON accounts.id = api_keys.account \
     WHERE api_keys.id = $1 AND revoked_at IS NULL";

/// The API keys of the account $1, the newest first.
pub(super) const KEYS: &str =
    "SELECT id, created_at, revoked_at FROM api_keys WHERE account = $1 ORDER BY created_at DESC, id";

/// The account of the name $1.
pub(super) const BY_USERNAME: &str =
    "SELECT id, username, scope, wallet_address, bucket FROM accounts WHERE username = $1";

/// The task $1 of the account $2.
pub(super) const TASK: &str = "SELECT tasks.id, status, coalesce(cost, 0), message, input, input_format, \
     output_format, output, error, tasks.created_at, updated_at, node \
     FROM tasks JOIN versions ON versions.id = tasks.version WHERE tasks.id = $1 AND account = $2";

/// What has become of the lease of the task $1 by the node $2 in its attempt $3.
pub(super) const LEASE_STATE: &str = "SELECT status, output_format FROM tasks \
     JOIN versions ON versions.id = tasks.version WHERE tasks.id = $1 AND node = $2 AND attempt = $3";

/// All models, so many and from there on.
pub(super) const ALL_MODELS: &str = "SELECT models.id, username, name, price, is_public, is_official, \
     is_verified, is_playground, models.created_at, updated_at \
     FROM models JOIN accounts ON accounts.id = owner ORDER BY sequence LIMIT $1 OFFSET $2";

/// Changes what is not null of a model: its price, whether it is public, verified and a playground; at $5 the model $6.
pub(super) const CHANGE_MODEL: &str = "UPDATE models SET price = coalesce($1, price), \
     is_public = coalesce($2, is_public), is_verified = coalesce($3, is_verified), \
     is_playground = coalesce($4, is_playground), updated_at = $5 WHERE id = $6";

/// Whether a version of the built-in model $1 of the operator $2 is to be published: if it is a refresh ($3), one that the
/// operator published in the place of a built-in one stays ($4).
pub(super) const IS_VERSION_DUE: &str = "SELECT 1 FROM models WHERE id = $1 AND owner = $2 \
     AND NOT ($3 AND EXISTS (SELECT 1 FROM versions WHERE model = models.id AND commit_hash = $4))";

/// The object in the bucket $1 with the key $2.
pub(super) const OBJECT: &str = "SELECT bucket, key, blob, mime, size, etag, created_at FROM objects \
     WHERE bucket = $1 AND key = $2";

/// Forgets some of the upload targets that expired before $1.
pub(super) const FORGET_TARGETS: &str = "DELETE FROM upload_targets WHERE id IN ( \
     SELECT id FROM upload_targets WHERE expires_at < $1 LIMIT 1000)";

/// Sets the setting $1, whatever it was.
pub(super) const SET_SETTING: &str = "INSERT INTO settings (name, value) VALUES ($1, $2) \
     ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// Whether a start adds its key $2 beside one of an earlier start, which may not have been shown ($1): neither was
/// revoked.
pub(super) const MAY_ADD_KEY: &str = "SELECT 1 FROM settings WHERE name = $1 AND NOT EXISTS ( \
     SELECT 1 FROM api_keys WHERE id IN (value, $2) AND revoked_at IS NOT NULL)";
