//! A form with a file as its last field, its length known before the first byte is sent.

use std::hash::{BuildHasher, Hasher, RandomState};

use bytes::Bytes;

/// What stands before and after the file.
pub(crate) struct Form {
    pub(crate) before_file: Bytes,
    pub(crate) after_file: Bytes,
    boundary: String,
}

impl Form {
    /// All fields in their order, then the file as a field named `file`.
    pub(crate) fn new(fields: &[(String, String)], file_name: &str, mime: &str) -> Self {
        let boundary = boundary_outside(fields);
        let mut text = String::new();
        for (name, value) in fields {
            let name = quoted(name);
            text.push_str(&format!(
                "--{boundary}\r\nContent-Disposition: form-data; name={name}\r\n\r\n{value}\r\n"
            ));
        }
        let file_name = quoted(file_name);
        text.push_str(&format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename={file_name}\r\nContent-Type: {mime}\r\n\r\n"
        ));
        Self { before_file: text.into(), after_file: format!("\r\n--{boundary}--\r\n").into(), boundary }
    }

    pub(crate) fn content_type(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    /// The length of the whole with a file of this size in it.
    pub(crate) fn length(&self, file_size: u64) -> u64 {
        self.before_file.len() as u64 + file_size + self.after_file.len() as u64
    }
}

/// 128 bits that are drawn after the content was made, so that no content can hold them but by a
/// chance that does not happen. The fields are looked through all the same.
fn boundary_outside(fields: &[(String, String)]) -> String {
    loop {
        let drawn = || RandomState::new().build_hasher().finish();
        let boundary = format!("inferstore-{:016x}{:016x}", drawn(), drawn());
        if !fields.iter().any(|(name, value)| name.contains(&boundary) || value.contains(&boundary)) {
            return boundary;
        }
    }
}

/// A name as browsers write it into a header: whatever could end it is escaped.
fn quoted(name: &str) -> String {
    let mut quoted = String::with_capacity(name.len() + 2);
    quoted.push('"');
    for c in name.chars() {
        match c {
            '"' => quoted.push_str("%22"),
            '\r' => quoted.push_str("%0D"),
            '\n' => quoted.push_str("%0A"),
            '\0' => quoted.push_str("%00"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn whole(form: &Form, file: &[u8]) -> Vec<u8> {
        [&form.before_file[..], file, &form.after_file[..]].concat()
    }

    mod properties {
        use super::*;

        proptest! {
            #[test]
            fn the_length_is_exact_and_every_part_stands_in_its_place(
                fields in vec((any::<String>(), any::<String>()), 0..8),
                name in any::<String>(),
                file in vec(any::<u8>(), 1..200),
            ) {
                let form = Form::new(&fields, &name, "image/png");
                let whole = whole(&form, &file);
                prop_assert_eq!(form.length(file.len() as u64), whole.len() as u64);
                let boundary = format!("--{}", form.boundary);
                let places = whole.windows(boundary.len()).filter(|window| *window == boundary.as_bytes()).count();
                prop_assert_eq!(places, fields.len() + 2, "one for each field, one for the file, one at the end");
                let mut rest = &form.before_file[..];
                for (field, value) in &fields {
                    let part = format!("{boundary}\r\nContent-Disposition: form-data; name={}\r\n\r\n{value}\r\n", quoted(field));
                    prop_assert!(rest.starts_with(part.as_bytes()));
                    rest = &rest[part.len()..];
                }
                prop_assert_eq!(rest.windows(2).filter(|window| *window == b"\r\n").count(), 4, "boundary, two headers, none");
            }
        }
    }

    #[test]
    fn no_name_can_add_a_header() {
        let fields = [("a\"\r\nx-evil: 1\r\n\r\n".to_owned(), "a value\r\nis no header".to_owned())];
        let form = Form::new(&fields, "a\".png\r\nx-evil: 1\0", "image/png");
        let text = String::from_utf8_lossy(&form.before_file);
        assert!(!text.contains("\nx-evil"), "{text}");
        assert!(
            text.contains("name=\"a%22%0D%0Ax-evil: 1%0D%0A%0D%0A\"\r\n\r\na value\r\nis no header\r\n"),
            "{text}"
        );
        assert!(
            text.contains("filename=\"a%22.png%0D%0Ax-evil: 1%00\"\r\nContent-Type: image/png\r\n\r\n"),
            "{text}"
        );
    }
}
