//! String enumerations: one table of strings for the database, the log and messages.

/// Declares an enumeration with a string for each variant: `ALL`, `word` and `from_word`.
macro_rules! string_enum {
    ($(#[$meta:meta])* $visibility:vis enum $name:ident {
        $($(#[$about:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$meta])*
        $visibility enum $name {
            $($(#[$about])* $variant,)*
        }

        impl $name {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the string of the variant.
            #[must_use]
            $visibility const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            pub(crate) fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.word() == word)
            }
        }
    };
}

pub(crate) use string_enum;
