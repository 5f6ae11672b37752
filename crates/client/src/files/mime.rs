//! MIME type of a file: explicit, by content, or by extension; and matching against patterns.

use infer::MatcherType;
use mime::Mime;

const OCTET_STREAM: &str = "application/octet-stream";

pub(crate) fn is_known(mime: &str) -> bool {
    canonical(mime).is_some_and(|mime| mime != OCTET_STREAM)
}

/// Chooses the MIME type of a file: the explicit one, else a specific one by content, else by extension, else any by
/// content, else `application/octet-stream`. `Err` is an explicit type that is not a MIME type.
pub(crate) fn choose<'a>(explicit: Option<&'a str>, name: &str, beginning: &[u8]) -> Result<String, &'a str> {
    if let Some(mime) = explicit {
        return if is_well_formed(mime) { Ok(mime.to_owned()) } else { Err(mime) };
    }
    let content = infer::get(beginning);
    let extension = mime_guess::from_path(name).first_raw();
    let mime = match (content, extension) {
        (Some(content), Some(extension)) if is_specific(content, extension) => content.mime_type(),
        (_, Some(extension)) => extension,
        (Some(content), None) => content.mime_type(),
        (None, None) => OCTET_STREAM,
    };
    Ok(mime.to_owned())
}

/// Returns true if the content is more specific than the extension. The first bytes identify an image, but
/// not a container (office documents, audio, video; TIFF, in which cameras keep raw photos; HEIF). The
/// signatures of some images are two letters, with which a text may begin.
fn is_specific(content: infer::Type, extension: &str) -> bool {
    match (content.matcher_type(), content.mime_type()) {
        (_, "image/tiff") => !extension.starts_with("image/x-"),
        (_, "image/heif") => extension != "image/heic",
        (MatcherType::Image, _) => !extension.starts_with("text/"),
        // SVG is XML.
        _ => extension.starts_with("image/") && extension != "image/svg+xml",
    }
}

/// Returns true if the text is a MIME type that is safe in a header.
fn is_well_formed(mime: &str) -> bool {
    mime.bytes().all(|byte| matches!(byte, b' '..=b'~')) && parse(mime).is_some()
}

/// Returns true if a pattern accepts the MIME type. An empty list and an unreadable pattern accept
/// everything: only the service knows their meaning.
pub(crate) fn is_accepted(mime: &str, patterns: &[String]) -> bool {
    let patterns = patterns.iter().flat_map(|list| list.split(',')).map(str::trim);
    let mut patterns = patterns.filter(|pattern| !pattern.is_empty()).peekable();
    patterns.peek().is_none() || patterns.any(|pattern| matches(mime, pattern))
}

fn matches(mime: &str, pattern: &str) -> bool {
    let Some(pattern) = canonical(pattern) else { return true };
    let Some(mime) = canonical(mime) else { return pattern == "*/*" };
    let parts = pattern.split('/').zip(mime.split('/'));
    parts.into_iter().all(|(pattern, part)| pattern == "*" || pattern == part)
}

fn parse(mime: &str) -> Option<Mime> {
    mime.parse::<Mime>()
        .ok()
        .filter(|mime| !mime.type_().as_str().is_empty() && !mime.subtype().as_str().is_empty())
}

fn canonical(mime: &str) -> Option<String> {
    let essence = parse(mime.trim())?.essence_str().to_ascii_lowercase().replace("/x-", "/");
    Some(if essence == "image/jpg" { "image/jpeg".to_owned() } else { essence })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    const HEIC: &[u8] = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic";
    const TIFF: &[u8] = b"II*\0\x08\0\0\0\x0b\0\0\x01";
    const JPEG: &[u8] = b"\xff\xd8\xff\xe0\0\x10JFIF";

    const MP4: &[u8] = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom";

    fn mime(name: &str, beginning: &[u8]) -> String {
        choose(None, name, beginning).unwrap_or_default()
    }

    #[test]
    fn an_explicit_type_comes_first_then_specific_content_then_the_extension() {
        assert_eq!(choose(Some("image/webp"), "a.png", PNG), Ok("image/webp".to_owned()));
        for (name, beginning, expected) in [
            ("a", PNG, "image/png"),
            ("a.PNG", PNG, "image/png"),
            ("photo.jpg", PNG, "image/png"),
            ("photo.png", JPEG, "image/jpeg"),
            ("film.mp4", PNG, "image/png"),
            ("scan.jpg", TIFF, "image/tiff"),
            ("IMG_0001.jpg", HEIC, "image/heif"),
            ("a", b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf", "image/avif"),
            ("a", b"\xff\x0a\xfa\x7f", "image/jxl"),
            ("photo.jpg", MP4, "video/mp4"),
            ("photo.jpg", b"%PDF-1.7", "application/pdf"),
            ("photo.jpg", b"<!DOCTYPE html><html>", "text/html"),
            ("a.png", b"anything", "image/png"),
            ("a.mp4", b"anything", "video/mp4"),
            ("a", MP4, "video/mp4"),
            ("a", b"PK\x03\x04\x14\0", "application/zip"),
            ("a", b"anything", OCTET_STREAM),
            ("a.unheard-of", b"", OCTET_STREAM),
        ] {
            assert_eq!(mime(name, beginning), expected, "{name}");
        }
    }

    #[test]
    fn the_extension_decides_for_text_and_containers() {
        for (name, beginning, expected) in [
            (
                "a.docx",
                b"PK\x03\x04\x14\0".as_slice(),
                "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            ),
            ("a.svg", b"<?xml version='1.0'?><svg/>", "image/svg+xml"),
            ("a.md", b"<p>text</p>", "text/markdown"),
            ("a.wav", b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
            ("a.mov", MP4, "video/quicktime"),
            ("a.m4a", MP4, "audio/m4a"),
            ("a.nef", TIFF, "image/x-nikon-nef"),
            ("IMG_0001.HEIC", HEIC, "image/heic"),
            ("cars.txt", b"BMW and others", "text/plain"),
            ("tags.csv", b"ID3;x", "text/csv"),
        ] {
            assert_eq!(mime(name, beginning), expected, "{name}");
        }
    }

    #[test]
    fn octet_stream_and_text_that_is_no_type_are_unknown() {
        for (mime, expected) in [
            ("image/png", true),
            ("IMAGE/PNG; x=y", true),
            (OCTET_STREAM, false),
            ("Application/Octet-Stream; charset=binary", false),
            ("nonsense", false),
        ] {
            assert_eq!(is_known(mime), expected, "{mime}");
        }
    }

    #[test]
    fn an_explicit_text_that_is_no_mime_type_is_returned_as_the_error() {
        for good in ["image/png", "text/plain; charset=utf-8", "application/vnd.a+json"] {
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

    fn accepts(patterns: &[&str], mime: &str) -> bool {
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        is_accepted(mime, &patterns)
    }

    #[test]
    fn a_pattern_accepts_its_types() {
        for (pattern, mime) in [
            ("image/*", "image/png"),
            ("image/png", "image/png"),
            ("IMAGE/*", "image/png"),
            ("image/*", "Image/PNG"),
            ("*/*", "video/mp4"),
            ("*/*", "unknown"),
            ("text/plain", "text/plain; charset=utf-8"),
            ("image/jpg", "image/jpeg"),
            ("image/jpeg", "image/jpg"),
            ("audio/x-wav", "audio/wav"),
            ("*/png", "image/png"),
            (" image/png , image/webp", "image/webp"),
        ] {
            assert!(accepts(&[pattern], mime), "{pattern} {mime}");
        }
    }

    #[test]
    fn a_pattern_accepts_nothing_else() {
        for (pattern, mime) in [
            ("image/*", "video/mp4"),
            ("image/png", "image/jpeg"),
            ("image/*", "imagery/png"),
            ("image/*", "unknown"),
            ("image/png, image/webp", "image/gif"),
        ] {
            assert!(!accepts(&[pattern], mime), "{pattern} {mime}");
        }
    }

    #[test]
    fn one_of_several_patterns_is_enough() {
        assert!(accepts(&["image/*", "video/mp4"], "video/mp4"));
        assert!(!accepts(&["image/*", "video/mp4"], "video/webm"));
    }

    #[test]
    fn a_pattern_that_cannot_be_read_accepts_everything() {
        for patterns in [&[][..], &[""], &[" , "], &["*"], &[".png"], &["image"], &["video/mp4", ".png"]] {
            assert!(accepts(patterns, "image/png"), "{patterns:?}");
        }
    }

    mod properties {
        use proptest::collection::vec;
        use proptest::prelude::*;
        use proptest::sample::select;

        use super::*;

        proptest! {
            #[test]
            fn every_chosen_type_is_safe_in_a_header_and_accepted_by_its_own_patterns(
                name in "[^/]{0,20}", extension in select(&["", ".png", ".JPG", ".svg", ".docx", ".mp4", ".txt"][..]),
                beginning in prop_oneof![vec(any::<u8>(), 0..40), Just(PNG.to_vec()), Just(JPEG.to_vec())],
            ) {
                let chosen = choose(None, &format!("{name}{extension}"), &beginning).map_err(str::to_owned);
                let mime = chosen.map_err(TestCaseError::fail)?;
                prop_assert!(is_well_formed(&mime), "{mime}");
                let kind = mime.split('/').next().unwrap_or_default();
                for pattern in [mime.clone(), format!("{kind}/*"), "*/*".to_owned()] {
                    prop_assert!(is_accepted(&mime, &[pattern]));
                }
            }

            #[test]
            fn every_explicit_type_that_is_accepted_is_safe_in_a_header(mime in "\\PC{0,30}|[a-z]{1,4}/[a-z\r\n;= ]{0,9}") {
                if choose(Some(&mime), "a", b"").is_ok() {
                    prop_assert!(reqwest::header::HeaderValue::from_str(&mime).is_ok(), "{mime:?}");
                }
            }
        }
    }
}
