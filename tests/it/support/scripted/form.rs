//! Reads `multipart/form-data`.

use super::http::position;

/// One field of a form.
pub(super) struct Field<'a> {
    pub(super) name: String,
    pub(super) content: &'a [u8],
}

/// The fields in their order; none when the body is not a whole form.
pub(super) fn fields<'a>(content_type: &str, body: &'a [u8]) -> Option<Vec<Field<'a>>> {
    let (kind, parameters) = content_type.split_once(';')?;
    let boundary = parameters.trim().strip_prefix("boundary=")?.trim_matches('"');
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let delimiter = format!("\r\n--{boundary}");
    let mut fields = Vec::new();
    let mut rest = body.strip_prefix(delimiter.trim_start().as_bytes())?;
    loop {
        if rest.starts_with(b"--") {
            return Some(fields);
        }
        let start = position(rest, b"\r\n\r\n")? + 4;
        let name = name(&String::from_utf8_lossy(&rest[..start]))?;
        rest = &rest[start..];
        let end = position(rest, delimiter.as_bytes())?;
        fields.push(Field { name, content: &rest[..end] });
        rest = &rest[end + delimiter.len()..];
    }
}

fn name(headers: &str) -> Option<String> {
    let mut lines = headers.lines().map(|line| line.split_once(':'));
    let disposition = lines.find_map(|line| {
        line.filter(|(name, _)| name.eq_ignore_ascii_case("content-disposition")).map(|(_, value)| value)
    })?;
    let name = disposition.split(';').find_map(|parameter| parameter.trim().strip_prefix("name="))?;
    Some(name.trim_matches('"').to_owned())
}
