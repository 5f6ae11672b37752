//! Uploads by form. If the first line of the data is `fields`, each following line is a field `name=value`,
//! and the file follows an empty line; the client then writes the form. Otherwise the data are a content type
//! and a raw body.

use inferstore::File;
use inferstore_service::fuzzed::{UploadForm, form};

use serde_json::json;

use crate::first_line;
use crate::wire;

const MAX_FIELD_BYTES: usize = 64 * 1024;

/// Invariants: no body makes the reader panic or exceed its limits. The result does not depend on how the
/// body is split, and a form of the client is read as intended.
pub fn forms(data: &[u8]) {
    let (first, rest) = first_line(data);
    if first == b"fields" {
        return written_and_read(rest);
    }
    let content_type = String::from_utf8_lossy(first);
    let whole = read(&content_type, rest, rest.len());
    for size in [1, 7] {
        let pieces = read(&content_type, rest, size);
        // The message of a rejection may depend on when the defect is seen.
        assert_eq!(whole.as_ref().ok(), pieces.as_ref().ok(), "pieces of {size}");
    }
    if let Ok(form) = whole {
        let size: usize = form.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(size <= MAX_FIELD_BYTES && form.fields.len() <= 32);
        let mut names: Vec<&String> = form.fields.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), form.fields.len(), "a name stands twice");
    }
}

fn written_and_read(text: &[u8]) {
    let end = text.windows(2).position(|two| two == b"\n\n").unwrap_or(text.len());
    let file = text.get(end + 2..).unwrap_or_default();
    let fields = String::from_utf8_lossy(&text[..end]).into_owned();
    let mut expected: Vec<(String, String)> = Vec::new();
    for (name, value) in fields.lines().filter_map(|line| line.split_once('=')) {
        let is_new = !expected.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        if is_new && !name.eq_ignore_ascii_case("file") && expected.len() < 30 {
            expected.push((name.to_owned(), value.to_owned()));
        }
    }
    let file_name = expected.first().map_or("a.png", |(_, value)| value.as_str()).to_owned();
    let fields: Vec<String> =
        expected.iter().map(|(name, value)| format!("{}:{}", json!(name), json!(value))).collect();
    let target = json!({
        "endpoint": "https://files.test/bucket",
        "fields": format!("{{{}}}", fields.join(",")),
        "download_url": "https://files.test/a",
    });
    let upload = File::bytes(file_name.clone(), file.to_vec()).with_mime("image/png");
    let (uploaded, sent) = wire::upload(target, upload);
    let Some(sent) = sent.filter(|_| uploaded.is_ok()) else {
        assert!(file.is_empty() || file_name.trim().is_empty(), "{uploaded:?}");
        return;
    };
    let read = read(&sent.content_type, &sent.body, 1 + sent.body.len() / 3);
    for (name, _) in &mut expected {
        *name = name.to_ascii_lowercase();
    }
    // Names that are invalid in a header are changed.
    let is_plain =
        |name: &str| !name.contains(['"', '\\']) && !name.contains(char::is_control) && !name.is_empty();
    if expected.iter().all(|(name, _)| is_plain(name)) && is_plain(&file_name) {
        assert_eq!(read, Ok(UploadForm { fields: expected, file: file.to_vec() }));
    }
}

fn read(content_type: &str, body: &[u8], size: usize) -> Result<UploadForm, String> {
    let pieces = body.chunks(size.max(1)).map(<[u8]>::to_vec).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(form(content_type, pieces))
}
