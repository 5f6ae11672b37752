//! Versions of the document, and which one a change needs.

use std::fmt;

use anyhow::{Context, Result, bail};

use super::Severity;
use crate::tree::Tree;

/// `major.minor.patch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version([u64; 3]);

impl Version {
    /// The version of a document.
    pub fn of(document: &Tree) -> Result<Self> {
        let text = document["info"]["version"].as_str().unwrap_or_default();
        Self::parse(text).with_context(|| {
            format!("info.version is {text:?}; it must be three numbers in quotes or plain, such as 1.4.0")
        })
    }

    /// Reads three numbers with dots.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers: Option<Vec<u64>> = text.split('.').map(|number| number.parse().ok()).collect();
        numbers?.try_into().ok().map(Self)
    }

    fn needed(self, verdict: Option<Severity>) -> Self {
        let [major, minor, patch] = self.0;
        Self(match verdict {
            None => [major, minor, patch],
            Some(Severity::Docs) => [major, minor, patch + 1],
            Some(Severity::Compatible) => [major, minor + 1, 0],
            Some(Severity::Breaking) => [major + 1, 0, 0],
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

pub(super) fn meaning(old: &Tree, new: &Tree, verdict: Option<Severity>) -> String {
    let rises = match verdict {
        None => return "nothing changed: the version may stay".to_owned(),
        Some(Severity::Docs) => "only texts changed: the third number of the version rises",
        Some(Severity::Compatible) => "something was added: the second number of the version rises",
        Some(Severity::Breaking) => "something breaks: the first number of the version rises",
    };
    let Ok(old) = Version::of(old) else { return rises.to_owned() };
    let needed = old.needed(verdict);
    match Version::of(new) {
        Ok(new) if new >= needed => {
            format!("the version {new} is high enough: {old} needs {needed} or higher")
        }
        _ => format!("{rises}, from {old} to at least {needed}"),
    }
}

/// Fails when the changes need a higher version than the new document has.
pub fn check_version(old: Version, new: Version, verdict: Option<Severity>) -> Result<()> {
    let needed = old.needed(verdict);
    if new >= needed {
        return Ok(());
    }
    let because = match verdict {
        None => format!("{old} is published already"),
        Some(Severity::Docs) => format!("texts changed since {old}"),
        Some(Severity::Compatible) => format!("something was added since {old}"),
        Some(Severity::Breaking) => format!("something breaks since {old}"),
    };
    bail!(
        "the document has the version {new}, and needs at least {needed}, because {because}\n\
         hint: set info.version to {needed} in the document, or take back what needs it"
    )
}

#[cfg(test)]
mod tests {
    use super::{Severity, Version, check_version};

    fn is_enough(old: &str, new: &str, verdict: Option<Severity>) -> bool {
        let version = |text| Version::parse(text).unwrap_or(Version([0, 0, 0]));
        check_version(version(old), version(new), verdict).is_ok()
    }

    #[test]
    fn the_version_step_follows_the_kind_of_change() {
        assert!(is_enough("1.4.2", "1.4.2", None));
        assert!(!is_enough("1.4.2", "1.4.1", None));
        assert!(is_enough("1.4.2", "1.4.3", Some(Severity::Docs)));
        assert!(!is_enough("1.4.2", "1.4.2", Some(Severity::Docs)));
        assert!(is_enough("1.4.2", "1.10.0", Some(Severity::Compatible)));
        assert!(!is_enough("1.4.2", "1.4.3", Some(Severity::Compatible)));
        assert!(is_enough("1.4.2", "2.0.0", Some(Severity::Breaking)));
        assert!(!is_enough("1.4.2", "1.5.0", Some(Severity::Breaking)));
    }

    #[test]
    fn versions_are_three_numbers() {
        assert_eq!(Version::parse("1.10.0").map(|version| version.to_string()), Some("1.10.0".to_owned()));
        for text in ["", "1", "1.0", "1.0.0.0", "v1.0.0", "1.0.x"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
        assert!(Version::parse("1.10.0") > Version::parse("1.9.9"));
    }
}
