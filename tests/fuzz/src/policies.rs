//! Form policies as the object store reads them, and object keys: the policy on the first line, then a key on
//! each line as `name=key`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use inferstore_service::fuzzed::{location, path, policy_expiration};

use crate::first_line;

const BUCKET: &str = "files-of-b";

/// Invariants: no policy makes the store panic, and the path of every key leads back to the key.
pub fn policies(data: &[u8]) {
    let (policy, rest) = first_line(data);
    let rest = String::from_utf8_lossy(rest);
    let _ = policy_expiration(&STANDARD.encode(policy));
    let _ = policy_expiration(&rest);
    let keys = rest.lines().filter_map(|line| line.split_once('=')).map(|(_, key)| key);
    for key in keys.filter(|key| !key.is_empty()) {
        let _ = location(key);
        assert_eq!(location(&path([BUCKET, "token", key])), Some([BUCKET, "token", key].map(str::to_owned)));
    }
}
