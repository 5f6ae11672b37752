//! The many spellings of MIME types, and which types are too close to each other to be told apart.

/// Spellings of one type, the one that stands for all of them first. A leading `x-` does not count
/// anywhere, so that `audio/x-flac` needs no row.
const SPELLINGS: [&[&str]; 8] = [
    &[
        "application/exe",
        "application/vnd.microsoft.portable-executable",
        "application/msdownload",
        "application/msdos-program",
    ],
    &["application/rar", "application/vnd.rar", "application/rar-compressed"],
    &["audio/midi", "audio/mid"],
    &["audio/wav", "audio/wave", "audio/vnd.wave"],
    &["font/sfnt", "application/font-sfnt", "application/font-ttf"],
    &["font/woff", "application/font-woff"],
    &["image/icon", "image/vnd.microsoft.icon"],
    &["image/jpeg", "image/jpg", "image/pjpeg"],
];

/// Types that share their first bytes, in the spelling that stands for all: within a row the content
/// has nothing to say against an extension.
const ALIKE: [&[&str]; 6] = [
    &["application/ogg", "audio/ogg", "audio/opus", "video/ogg"],
    &["audio/matroska", "audio/webm", "video/matroska", "video/webm"],
    &["font/collection", "font/otf", "font/sfnt", "font/ttf"],
    &["font/woff", "font/woff2"],
    &["image/heic", "image/heif"],
    // One family of containers, told apart by brands that writers use loosely.
    &["audio/m4a", "audio/mp4", "video/3gpp", "video/3gpp2", "video/m4v", "video/mp4", "video/quicktime"],
];

/// The spelling that makes equal types equal: in lower case, without parameters such as `charset`.
/// `None` for what is not a type and a subtype.
pub(super) fn canonical(mime: &str) -> Option<String> {
    let essence = mime.split(';').next().unwrap_or_default();
    let (kind, subtype) = essence.split_once('/')?;
    let (kind, subtype) = (kind.trim().to_ascii_lowercase(), subtype.trim().to_ascii_lowercase());
    let subtype = subtype.strip_prefix("x-").unwrap_or(&subtype);
    if kind.is_empty() || subtype.is_empty() {
        return None;
    }
    let plain = format!("{kind}/{subtype}");
    let row = SPELLINGS.iter().find(|row| row.contains(&plain.as_str()));
    Some(row.map_or(plain.clone(), |row| row[0].to_owned()))
}

/// Whether nobody could tell the one from the other by its first bytes.
pub(super) fn are_alike(one: &str, other: &str) -> bool {
    let (Some(one), Some(other)) = (canonical(one), canonical(other)) else { return false };
    one == other || ALIKE.iter().any(|row| row.contains(&one.as_str()) && row.contains(&other.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_the_spelling_that_it_is_compared_in() {
        for mime in ALIKE.into_iter().flatten() {
            assert_eq!(canonical(mime).as_deref(), Some(*mime));
        }
        for row in SPELLINGS {
            for mime in row {
                assert_eq!(canonical(mime).as_deref(), Some(row[0]));
            }
        }
    }

    #[test]
    fn spellings_of_one_type_are_equal_and_others_are_not() {
        for (one, other) in [
            ("audio/x-wav", "audio/vnd.wave"),
            ("audio/x-flac", "Audio/FLAC"),
            ("image/x-icon", "image/vnd.microsoft.icon"),
            ("text/plain; charset=utf-8", "text/plain"),
            ("application/x-msdownload", "application/x-msdos-program"),
        ] {
            assert_eq!(canonical(one), canonical(other));
        }
        assert_ne!(canonical("video/mp4"), canonical("video/quicktime"));
        assert!(are_alike("video/x-m4v", "audio/m4a") && !are_alike("video/mp4", "video/webm"));
        assert!(canonical("image").or(canonical("image/")).or(canonical("/png")).is_none());
    }
}
