//! Presigned upload targets as the client reads them: the endpoint on the first line, then the fields.

use inferstore::reqwest::{Method, Url};
use inferstore::{Error, File};
use serde_json::{Map, Value, json};

use crate::first_line;
use crate::wire::{self, Sent};

const FILE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Invariants: the client neither panics nor shows a credential. The bytes go to the target's address over
/// http or https; the fields of a form keep order and text.
pub fn upload_targets(data: &[u8]) {
    let (endpoint, fields) = first_line(data);
    let (endpoint, fields) = (String::from_utf8_lossy(endpoint), String::from_utf8_lossy(fields));
    let target = json!({ "endpoint": endpoint, "fields": fields, "download_url": "https://files.test/a" });
    match wire::upload(target, File::bytes("a.png", FILE)) {
        (Ok(_), Some(sent)) => {
            let is_web = sent.url.starts_with("http://") || sent.url.starts_with("https://");
            let mut address = Url::parse(&endpoint).expect("bytes were sent there");
            // User and password are sent as a header.
            assert!(address.set_username("").is_ok() && address.set_password(None).is_ok());
            assert!(is_web && address.as_str() == sent.url, "{endpoint} {sent:?}");
            let is_put = endpoint.contains("X-Amz-Algorithm");
            assert_eq!(sent.method, if is_put { Method::PUT } else { Method::POST }, "{sent:?}");
            if is_put {
                assert_eq!(sent.body, FILE);
            } else {
                are_as_written(&fields, &sent);
            }
        }
        (Err(Error::File(problem)), _) => {
            // Only our words and a position: the rest may be a secret.
            let words = |byte: u8| byte.is_ascii_alphanumeric() || b" ()-,".contains(&byte);
            assert!(problem.message.bytes().all(words) && problem.message.len() < 120, "{problem}");
        }
        (result, sent) => panic!("{result:?} {sent:?}"),
    }
}

fn are_as_written(text: &str, sent: &Sent) {
    let Ok(written) = serde_json::from_str::<Map<String, Value>>(text) else {
        assert!(text.trim().is_empty(), "{text} became a form");
        return;
    };
    let (_, boundary) = sent.content_type.split_once("boundary=").expect("a form has a boundary");
    let form = String::from_utf8_lossy(&sent.body);
    let mut places = Vec::new();
    // A name that is invalid in a header is changed, and a null field is omitted.
    let is_plain = |name: &str| !name.contains(['"', '\\']) && !name.contains(char::is_control);
    for (name, value) in written.iter().filter(|(name, value)| is_plain(name) && !value.is_null()) {
        let part = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        assert!(form.contains(&format!("{part}{value}\r\n--{boundary}")), "{name} is not in {form}");
        let name = json!(name).to_string();
        if text.matches(&name).count() == 1 {
            places.push((text.find(&name), form.find(&part)));
        }
    }
    places.sort_unstable();
    assert!(places.is_sorted_by_key(|(_, place)| *place), "{text} has another order in {form}");
}
