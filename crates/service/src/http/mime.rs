//! MIME types of stored files.

/// Returns true for a MIME type that headers and forms keep. Browsers split at unquoted commas and take the last type.
pub(crate) fn is_mime(text: &str) -> bool {
    let token = |text: &str| {
        let special = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || special(byte))
    };
    let (essence, mut parameters) = text.split_at(text.find(';').unwrap_or(text.len()));
    let is_type = essence.split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype));
    let is_pattern = essence.contains('*');
    while let Some(parameter) = parameters.strip_prefix(';') {
        let parameter = parameter.strip_prefix(' ').unwrap_or(parameter);
        let Some((name, value)) = parameter.split_once('=') else { return false };
        let (is_value, rest) = match quoted_length(value) {
            Some(length) => (true, &value[length..]),
            None => {
                let (value, rest) = value.split_at(value.find(';').unwrap_or(value.len()));
                (token(value), rest)
            }
        };
        if !token(name) || !is_value {
            return false;
        }
        parameters = rest;
    }
    // Signing a header folds white space, so only single spaces are allowed.
    text.len() <= 255 && is_type && !is_pattern && parameters.is_empty() && !text.contains("  ")
}

fn quoted_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.strip_prefix('"')?.find(|letter: char| {
        let is_end = !is_escaped && letter == '"' || !(' '..='~').contains(&letter);
        is_escaped = !is_escaped && letter == '\\';
        is_end
    })?;
    text[1 + end..].starts_with('"').then_some(end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_no_mime_type_are_refused() {
        for mime in [
            "image/png",
            "text/plain; charset=utf-8",
            "text/plain;charset=utf-8",
            "a/b;c=\"d e\"",
            "video/mp4; codecs=\"avc1.42E01E, mp4a.40.2\"; x=y",
            "a/b;c=\"d;e\"",
            "image/png; a=\"b\\\"c\"",
        ] {
            assert!(is_mime(mime), "{mime}");
        }
        for text in [
            "",
            "image",
            "image/",
            "/png",
            "image/*/x",
            "image/*",
            "a b/c",
            "a/b;",
            "a/b;c",
            "a/b;c=",
            "a/b;  c=d",
            "a/b\n",
            "a/ü",
            "a/b;c=\"ü\"",
            "a/b;c=\"d",
            "a/b;c=\"d\"e",
            "image/png, text/html",
            "image/png;a=b, text/html",
            "image/png;a=b,text/html",
            "image/png;a=\"b\", text/html",
            "image/png;a=\"b\\\", text/html",
            "image/png;a=\"b\\\\\", text/html",
        ] {
            assert!(!is_mime(text), "{text}");
        }
    }
}
