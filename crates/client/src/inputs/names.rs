//! "Did you mean …?": the name that a mistyped word most likely stands for.

/// How alike two words must be before one is suggested for the other. Lower values bring up names
/// that share a few letters by chance.
const ALIKE: f64 = 0.8;

/// How alike a word and a name are when one contains the other, as `image` and `input_image`.
const CONTAINED: f64 = 0.9;

/// Shorter words are contained in too much.
const SHORTEST_CONTAINED: usize = 3;

/// Longer words are not mistyped names, and comparing takes time that grows with both lengths.
const LONGEST_COMPARED: usize = 200;

/// The name that is most like the word, if one is like it at all; of equals, the first.
pub(crate) fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = Spelling::of(word)?;
    let mut best: Option<(f64, &str)> = None;
    for name in names {
        let Some(spelling) = Spelling::of(name) else { continue };
        let likeness = word.likeness(&spelling);
        if likeness >= ALIKE && best.is_none_or(|(so_far, _)| likeness > so_far) {
            best = Some((likeness, name));
        }
    }
    best.map(|(_, name)| name)
}

/// A word without what people get wrong most: case, surrounding space, and the joint between words.
struct Spelling(String);

impl Spelling {
    fn of(word: &str) -> Option<Self> {
        let word = word.trim();
        if word.is_empty() || word.len() > LONGEST_COMPARED {
            return None;
        }
        Some(Self(word.to_lowercase().replace(['-', ' '], "_")))
    }

    fn likeness(&self, other: &Self) -> f64 {
        let contained = |short: &Self, long: &Self| {
            short.0.chars().count() >= SHORTEST_CONTAINED && long.0.contains(&short.0)
        };
        let alike = strsim::jaro_winkler(&self.0, &other.0);
        if self.0 != other.0 && (contained(self, other) || contained(other, self)) {
            alike.max(CONTAINED)
        } else {
            alike
        }
    }
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn suggests_what_was_meant() {
        let names = ["input_image", "template", "angle", "confidence"];
        for (word, meant) in [
            ("templat", "template"),
            ("Template", "template"),
            ("angel", "angle"),
            ("Input-Image", "input_image"),
            ("input image", "input_image"),
            ("image", "input_image"),
            ("confidense", "confidence"),
            (" angle ", "angle"),
        ] {
            assert_eq!(nearest(word, names), Some(meant), "{word}");
        }
    }

    #[test]
    fn suggests_nothing_for_what_is_unlike_everything() {
        let long = "template".repeat(100);
        for word in ["", " ", "x", "seed", "prompt", long.as_str()] {
            assert_eq!(nearest(word, ["input_image", "template", "angle"]), None, "{word}");
        }
    }

    #[test]
    fn prefers_the_same_word_in_another_case_over_a_longer_one() {
        assert_eq!(nearest("V_Shape", ["v_shape_wide", "v_shape"]), Some("v_shape"));
    }

    #[test]
    fn knows_a_long_option_by_its_beginning() {
        let options = [
            "Short-range model (best for faces within 2 meters)",
            "Full-range model (best for faces within 5 meters)",
        ];
        assert_eq!(nearest("full-range", options), Some(options[1]));
        assert_eq!(nearest("Short range model", options), Some(options[0]));
    }
}
