//! Which MIME types the patterns of a file parameter accept.

use super::spelling::canonical;

/// Whether one of the patterns accepts the MIME type. No patterns at all accept everything, and so
/// does a pattern of a form that is not understood: what it stands for only the service can say.
pub(crate) fn is_accepted(mime: &str, patterns: &[String]) -> bool {
    let mut patterns = patterns.iter().flat_map(|list| list.split(',')).map(str::trim);
    let mut first = true;
    let accepted = patterns.by_ref().filter(|pattern| !pattern.is_empty()).any(|pattern| {
        first = false;
        matches(mime, pattern)
    });
    accepted || first
}

fn matches(mime: &str, pattern: &str) -> bool {
    let Some(pattern) = canonical(pattern) else { return true };
    let Some(mime) = canonical(mime) else { return pattern == "*/*" };
    let stands_for = |(pattern, part): (&str, &str)| pattern == "*" || pattern == part;
    pattern.split('/').zip(mime.split('/')).all(stands_for)
}

#[cfg(test)]
mod tests {
    use super::is_accepted;

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
            ("audio/wav", "audio/vnd.wave"),
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
    fn what_is_not_understood_refuses_nothing() {
        for patterns in [&[][..], &[""], &[" , "], &["*"], &[".png"], &["image"], &["video/mp4", ".png"]] {
            assert!(accepts(patterns, "image/png"), "{patterns:?}");
        }
    }
}
