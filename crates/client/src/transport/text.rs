//! Text from elsewhere, as it stands in a message: on one line, short, and at its root.

use std::error::Error as StdError;

/// All of it on one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Not more than so many characters of it, and a sign where more would follow.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The reason behind all others: what stands in front of it says only that something failed.
pub(crate) fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut reason = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_only_when_it_is_too_long() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöü", 2), "äö…");
        assert_eq!(one_line(" a\n\t b  c "), "a b c");
    }
}
