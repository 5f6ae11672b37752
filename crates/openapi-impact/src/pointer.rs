//! JSON pointers to the values of a document.

use std::fmt;

/// JSON pointer: the keys that lead to a value of the document.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pointer(Vec<String>);

impl Pointer {
    /// Returns the pointer to the whole document.
    pub fn root() -> Self {
        Self::default()
    }

    /// Makes a pointer of these keys.
    pub fn of(keys: &[impl ToString]) -> Self {
        Self(keys.iter().map(ToString::to_string).collect())
    }

    /// Parses a reference such as `#/components/schemas/Task`.
    pub fn of_reference(reference: &str) -> Self {
        let keys = reference.trim_start_matches('#').split('/').skip(1);
        Self(keys.map(|key| key.replace("~1", "/").replace("~0", "~")).collect())
    }

    /// Returns the pointer to the value of a key of this one.
    pub fn at(&self, key: impl ToString) -> Self {
        let mut keys = self.0.clone();
        keys.push(key.to_string());
        Self(keys)
    }

    /// Returns the keys.
    pub fn keys(&self) -> &[String] {
        &self.0
    }

    /// Returns true if the pointer leads to the whole document.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes the pointer with `#` in front, as the linters print it too.
impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("#")?;
        self.0.iter().try_for_each(|key| write!(f, "/{}", key.replace('~', "~0").replace('/', "~1")))
    }
}
