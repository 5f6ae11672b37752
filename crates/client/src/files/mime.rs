//! The MIME type of a file: as its owner says, else by its first bytes, else by its extension.

mod pattern;
mod spelling;

pub(crate) use pattern::is_accepted;

/// What nobody can say.
const UNKNOWN: &str = "application/octet-stream";

/// Contents that hold something more specific, which the extension may know.
const CONTAINERS: [&str; 5] =
    [UNKNOWN, "application/zip", "application/gzip", "application/x-ole-storage", "application/xml"];

/// Types that are written in plain text although they are not `text/*`.
const TEXTUAL: [&str; 6] = [
    "application/javascript",
    "application/json",
    "application/pdf",
    "application/postscript",
    "application/rtf",
    "application/xml",
];

/// The type that a file is declared as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) mime: String,
    /// What the extension says, where the content says otherwise and was believed.
    pub(crate) overruled_extension: Option<String>,
}

/// Whether the type says what a file is. Of bytes of any kind nobody knows that.
pub(crate) fn is_telling(mime: &str) -> bool {
    spelling::canonical(mime).is_some_and(|mime| mime != UNKNOWN)
}

/// The type of a file. `Err` hands back what was given as one and is none.
pub(crate) fn choose<'a>(explicit: Option<&'a str>, name: &str, beginning: &[u8]) -> Result<Chosen, &'a str> {
    let agreed = |mime: &str| Ok(Chosen { mime: mime.to_owned(), overruled_extension: None });
    if let Some(mime) = explicit {
        return if is_well_formed(mime) { agreed(mime) } else { Err(mime) };
    }
    let extensions = mime_guess::from_path(name);
    let content = infer::get(beginning).map(|kind| kind.mime_type());
    let (content, extension) = match (content, extensions.first_raw()) {
        (None, extension) => return agreed(extension.unwrap_or(UNKNOWN)),
        (Some(content), None) => return agreed(content),
        (Some(content), Some(extension)) => (content, extension),
    };
    if extensions.iter_raw().any(|extension| extension == content) {
        return agreed(content);
    }
    if is_more_specific(extension, content) || is_chance(extension, content, beginning) {
        return agreed(extension);
    }
    Ok(Chosen { mime: content.to_owned(), overruled_extension: Some(extension.to_owned()) })
}

/// Whether the content may well be what the extension says.
fn is_more_specific(extension: &str, content: &str) -> bool {
    content.starts_with("text/") || CONTAINERS.contains(&content) || spelling::are_alike(extension, content)
}

/// Whether the first bytes of a plain text only look like the signature of something else. Many are
/// two or three letters: a text about a BMW is no bitmap.
fn is_chance(extension: &str, content: &str, beginning: &[u8]) -> bool {
    is_textual(extension) && !is_textual(content) && is_text(beginning)
}

fn is_textual(mime: &str) -> bool {
    mime.starts_with("text/") || mime.ends_with("+json") || mime.ends_with("+xml") || TEXTUAL.contains(&mime)
}

fn is_text(beginning: &[u8]) -> bool {
    let text = match std::str::from_utf8(beginning) {
        Ok(text) => text,
        // The last character may be cut.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&beginning[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.contains(|c: char| c.is_control() && !c.is_whitespace())
}

/// Whether the text is a type and a subtype, perhaps with parameters, and cannot end a header.
fn is_well_formed(mime: &str) -> bool {
    let (essence, parameters) = mime.split_once(';').unwrap_or((mime, ""));
    let is_token = |text: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
        !text.is_empty() && text.bytes().all(is_allowed)
    };
    let is_printable = |byte: u8| matches!(byte, b' '..=b'~');
    let parts = essence.trim_end_matches(' ').split_once('/');
    parts.is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
        && parameters.bytes().all(is_printable)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    const JPEG: &[u8] = b"\xff\xd8\xff\xe0\0\x10JFIF";

    fn mime(name: &str, beginning: &[u8]) -> String {
        choose(None, name, beginning).map_or_else(str::to_owned, |chosen| chosen.mime)
    }

    #[test]
    fn the_owner_comes_first_then_the_content_then_the_extension() {
        let explicit = choose(Some("image/webp"), "a.png", PNG);
        assert_eq!(explicit, Ok(Chosen { mime: "image/webp".to_owned(), overruled_extension: None }));
        assert_eq!(mime("a", PNG), "image/png");
        assert_eq!(mime("a.PNG", PNG), "image/png");
        assert_eq!(mime("a.png", b"anything"), "image/png");
        assert_eq!(mime("a.mp4", b"anything"), "video/mp4");
        assert_eq!(mime("a", b"anything"), UNKNOWN);
        assert_eq!(mime("a.unheard-of", b""), UNKNOWN);
    }

    #[test]
    fn content_that_disagrees_wins_and_says_so() {
        let chosen = choose(None, "photo.jpg", PNG);
        let overruled_extension = Some("image/jpeg".to_owned());
        assert_eq!(chosen, Ok(Chosen { mime: "image/png".to_owned(), overruled_extension }));
        assert_eq!(mime("photo.png", JPEG), "image/jpeg");
        assert_eq!(mime("notes.txt", b"%PDF-1.7"), "application/pdf");
    }

    #[test]
    fn a_container_and_another_spelling_leave_it_to_the_extension() {
        for (name, beginning, expected) in [
            (
                "a.docx",
                b"PK\x03\x04\x14\0".as_slice(),
                "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            ),
            ("a.svg", b"<?xml version='1.0'?><svg/>", "image/svg+xml"),
            ("a.md", b"<p>text</p>", "text/markdown"),
            ("a.wav", b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
            ("a.mov", b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom", "video/quicktime"),
        ] {
            let overruled_extension = None;
            assert_eq!(
                choose(None, name, beginning),
                Ok(Chosen { mime: expected.to_owned(), overruled_extension })
            );
        }
        assert_eq!(mime("a", b"PK\x03\x04\x14\0"), "application/zip");
    }

    #[test]
    fn a_text_that_begins_like_something_else_stays_a_text() {
        assert_eq!(mime("cars.txt", b"BMW and others"), "text/plain");
        assert_eq!(mime("tags.csv", "ID3;Ä".as_bytes().split_last().map_or(&[], |(_, cut)| cut)), "text/csv");
        assert_eq!(mime("cars.txt", b"BM\0\0\0\0\0\0\0\0\0\0"), "image/bmp");
    }

    #[test]
    fn what_is_no_type_is_handed_back() {
        for good in ["image/png", "text/plain; charset=utf-8", "application/vnd.a+json", "x/y ;z"] {
            assert!(choose(Some(good), "a", b"").is_ok(), "{good}");
        }
        for bad in [
            "",
            "image",
            "/png",
            "image/",
            "image/png\r\nx: y",
            "image/png\r\n\r\n",
            "text/plain;\n",
            "a b/c",
            "image/png/x",
        ] {
            assert_eq!(choose(Some(bad), "a", b""), Err(bad));
        }
    }

    mod properties {
        use proptest::collection::vec;
        use proptest::prelude::*;
        use proptest::sample::select;

        use super::*;

        proptest! {
            #[test]
            fn whatever_a_file_is_its_type_can_be_sent_and_is_accepted_where_it_is_named(
                name in "[^/]{0,20}", extension in select(&["", ".png", ".JPG", ".svg", ".docx", ".mp4", ".txt"][..]),
                beginning in prop_oneof![vec(any::<u8>(), 0..40), Just(PNG.to_vec()), Just(JPEG.to_vec())],
            ) {
                let chosen = choose(None, &format!("{name}{extension}"), &beginning).map_err(str::to_owned);
                let mime = chosen.map_err(TestCaseError::fail)?.mime;
                prop_assert!(is_well_formed(&mime), "{mime}");
                let kind = mime.split('/').next().unwrap_or_default();
                for pattern in [mime.clone(), format!("{kind}/*"), "*/*".to_owned()] {
                    prop_assert!(is_accepted(&mime, &[pattern]));
                }
            }

            #[test]
            fn a_type_that_is_taken_from_its_owner_can_end_no_header(mime in "\\PC{0,30}|[a-z]{1,4}/[a-z\r\n;= ]{0,9}") {
                if choose(Some(&mime), "a", b"").is_ok() {
                    prop_assert!(reqwest::header::HeaderValue::from_str(&mime).is_ok(), "{mime:?}");
                }
            }
        }
    }
}
