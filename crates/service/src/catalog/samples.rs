//! Sample pictures in the object store. A placeholder for its address keeps versions stable when the address changes.

use std::borrow::Cow;

use inferstore_models::{SAMPLE_PICTURES, SamplePicture};

/// Placeholder for the address of the object store. The domain `.example` is reserved, so no real host has this name.
const ADDRESS: &str = "https://storage.inferstore.example";

/// Path of the samples in the object store. Objects cannot clash, because their paths have three parts.
const PATH: &str = "/samples/";

pub(crate) fn sample_at(path: &str) -> Option<&'static SamplePicture> {
    let name = path.strip_prefix(PATH)?;
    SAMPLE_PICTURES.iter().find(|sample| sample.name == name)
}

pub(crate) fn with_sample_urls<'a>(format: &'a str, address: &str) -> Cow<'a, str> {
    let begin = format!("{ADDRESS}{PATH}");
    match format.contains(&begin) && !address.is_empty() {
        true => Cow::Owned(format.replace(&begin, &format!("{address}{PATH}"))),
        false => Cow::Borrowed(format),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_at_the_address_of_the_store() {
        let format = r#"{"a":{"samples":["https://storage.inferstore.example/samples/ball.jpg"]}}"#;
        let expected = r#"{"a":{"samples":["http://127.0.0.1:8788/samples/ball.jpg"]}}"#;
        assert_eq!(with_sample_urls(format, "http://127.0.0.1:8788"), expected);
        assert_eq!(with_sample_urls(format, ""), format);
        assert!(sample_at("/samples/ball.jpg").is_some_and(|sample| sample.mime == "image/jpeg"));
        for path in ["/samples/", "/samples/none.jpg", "/samples/../ball.jpg", "/ball.jpg", "/samples"] {
            assert_eq!(sample_at(path), None, "{path}");
        }
    }
}
