//! Policies of forms, as the object store judges them: the policy on the first line, then a field on each
//! line as `name=value`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use inferstore_service::fuzzed::{location, path, policy_range};
use serde_json::Value;

use crate::first_line;

const BUCKET: &str = "files-of-b";
/// 2026-01-01
const NOW: i64 = 1_767_225_600;

/// No policy makes the store panic, and what it allows a plain reading of the same policy allows, too. And
/// the path of every key leads back to it.
pub fn policies(data: &[u8]) {
    let (policy, rest) = first_line(data);
    let rest = String::from_utf8_lossy(rest);
    let mut fields: Vec<(String, String)> = Vec::new();
    for (name, value) in rest.lines().filter_map(|line| line.split_once('=')) {
        // The reader of forms hands over names in lower case, and none twice.
        let name = name.to_ascii_lowercase();
        if !fields.iter().any(|(known, _)| *known == name) {
            fields.push((name, value.to_owned()));
        }
    }
    let range = policy_range(&STANDARD.encode(policy), BUCKET, &fields, NOW);
    // Further members may hold numbers and letters that no value can.
    if let (Ok((least, most)), Ok(policy)) = (range, serde_json::from_slice::<Value>(policy)) {
        assert!(is_allowed(&policy, &fields, (least, most)), "{policy} does not allow {fields:?}");
    }
    let _ = policy_range(&rest, BUCKET, &fields, NOW);
    for (_, key) in fields.iter().filter(|(_, key)| !key.is_empty()) {
        let _ = location(key);
        assert_eq!(location(&path([BUCKET, "token", key])), Some([BUCKET, "token", key].map(str::to_owned)));
    }
}

/// The rules of S3, one sentence each, as far as this store has them.
fn is_allowed(policy: &Value, fields: &[(String, String)], range: (u64, u64)) -> bool {
    let conditions = policy["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |condition: &Value, at: usize| condition[at].as_str().unwrap_or_default().to_owned();
    let equal: Vec<(String, String)> = conditions
        .iter()
        .filter(|condition| condition[0] == "eq")
        .map(|condition| {
            (text(condition, 1).trim_start_matches('$').to_ascii_lowercase(), text(condition, 2))
        })
        .collect();
    let ranges = conditions.iter().filter(|condition| condition[0] == "content-length-range");
    let ranges: Vec<_> = ranges.map(|condition| (condition[1].as_u64(), condition[2].as_u64())).collect();
    let sent = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    // Every condition is one that is understood, every file within every range.
    equal.len() + ranges.len() == conditions.len()
        && !ranges.is_empty()
        && ranges.iter().all(|(least, most)| {
            least.is_some_and(|least| least <= range.0) && most.is_some_and(|most| most >= range.1)
        })
        // Every condition holds.
        && equal.iter().all(|(name, value)| match name.as_str() {
            "bucket" => value == BUCKET && sent(name).is_none_or(|sent| sent == BUCKET),
            name => sent(name) == Some(value),
        })
        // No field goes without one, but those that carry the signature.
        && fields.iter().all(|(name, _)| {
            equal.iter().any(|(known, _)| known == name)
                || (name == "bucket" && sent(name) == Some(BUCKET))
                || ["policy", "x-amz-signature"].contains(&name.as_str())
                || name.starts_with("x-ignore-")
        })
}
