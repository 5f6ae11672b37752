//! Where an object is: its path in a URL, written and read.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What stands for itself in a path, as signatures of S3 have it.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// The path of an object.
pub(super) fn path(bucket: &str, key: &str) -> String {
    format!("/{bucket}/{}", utf8_percent_encode(key, ESCAPED))
}

/// The bucket and key behind a path, in whichever way its characters are escaped. None when it is the
/// path of something else.
pub(super) fn read(path: &str) -> Option<(String, String)> {
    if path.contains(['?', '#']) {
        return None;
    }
    let decoded = percent_decode_str(path.strip_prefix('/')?).decode_utf8().ok()?;
    let (bucket, key) = decoded.split_once('/')?;
    (!bucket.is_empty() && !key.is_empty()).then(|| (bucket.to_owned(), key.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_comes_back_from_its_path() {
        for key in ["documents/a b+c$%?#&='\"\\.txt", "samples/日本語 ü.png", "avatars/%2e%2e", "covers/~-_."]
        {
            let path = path("files-x", key);
            assert!(path.is_ascii(), "{path}");
            assert_eq!(read(&path), Some(("files-x".to_owned(), key.to_owned())));
        }
    }

    #[test]
    fn other_ways_of_escaping_mean_the_same_object() {
        let expected = Some(("b".to_owned(), "samples/a b$ü.txt".to_owned()));
        assert_eq!(read("/b/samples/a%20b$%c3%bc.txt"), expected);
        assert_eq!(read("/b/samples/a b%24ü.txt"), expected);
        assert_eq!(read("/b/samples/a%20b.txt?x=1"), None);
        assert_eq!(read("/b"), None);
        assert_eq!(read("b/a"), None);
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #[test]
            fn a_path_is_ascii_and_leads_back_to_its_object(bucket in "[a-z0-9-]{3,20}", key in any::<String>()) {
                let path = path(&bucket, &key);
                prop_assert!(path.is_ascii() && !path.contains(['?', '#', ' ', '\\']));
                prop_assert_eq!(read(&path), (!key.is_empty()).then_some((bucket, key)));
            }
        }
    }
}
