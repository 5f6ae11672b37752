//! Places in a document.

use std::fmt;

/// Position in the document: the keys that lead there.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(Vec<String>);

impl Place {
    /// The document as a whole.
    pub fn root() -> Self {
        Self::default()
    }

    /// The place that these keys lead to.
    pub fn of(keys: &[impl ToString]) -> Self {
        Self(keys.iter().map(ToString::to_string).collect())
    }

    /// The place that a reference such as `#/components/schemas/Task` leads to.
    pub fn of_reference(reference: &str) -> Self {
        let keys = reference.trim_start_matches('#').split('/').skip(1);
        Self(keys.map(|key| key.replace("~1", "/").replace("~0", "~")).collect())
    }

    /// The place one key further.
    pub fn at(&self, key: impl ToString) -> Self {
        let mut keys = self.0.clone();
        keys.push(key.to_string());
        Self(keys)
    }

    /// The keys that lead to the place.
    pub fn keys(&self) -> &[String] {
        &self.0
    }

    /// Returns true if the place is the document as a whole.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

/// As a JSON pointer, which is what the linters print too.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("#")?;
        self.0.iter().try_for_each(|key| write!(f, "/{}", key.replace('~', "~0").replace('/', "~1")))
    }
}
