//! Macros for generated enumerations.

/// Methods of a closed enumeration, which is only sent.
macro_rules! closed_words {
    ($name:ident: $($variant:ident = $word:literal),+) => {
        impl $name {
            /// All words, in the order of the document.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the word on the wire.
            pub fn as_str(&self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = crate::UnknownVariant;

            fn from_str(word: &str) -> ::std::result::Result<Self, Self::Err> {
                match word {
                    $($word => ::std::result::Result::Ok(Self::$variant),)+
                    _ => ::std::result::Result::Err(crate::UnknownVariant::new(word, &[$($word),+])),
                }
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> ::std::result::Result<Self, D::Error> {
                let word = <::std::string::String as ::serde::Deserialize>::deserialize(deserializer)?;
                word.parse().map_err(::serde::de::Error::custom)
            }
        }

        crate::words::written_as_str!($name);
    };
}

/// Methods of an open enumeration, which the service may extend: unknown words are preserved.
macro_rules! open_words {
    ($name:ident: $($variant:ident = $word:literal),+) => {
        impl $name {
            /// Words of the document, in its order.
            pub const KNOWN: &[Self] = &[$(Self::$variant),+];

            /// Returns the word on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Other(word) => word,
                }
            }
        }

        impl ::std::convert::From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    _ => Self::Other(word.to_owned()),
                }
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = ::std::convert::Infallible;

            fn from_str(word: &str) -> ::std::result::Result<Self, Self::Err> {
                ::std::result::Result::Ok(Self::from(word))
            }
        }

        // Compares the words, so that an `Other` with a known word equals that variant.
        impl ::std::cmp::PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.as_str() == other.as_str()
            }
        }

        impl ::std::cmp::Eq for $name {}

        impl ::std::hash::Hash for $name {
            fn hash<H: ::std::hash::Hasher>(&self, state: &mut H) {
                self.as_str().hash(state);
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> ::std::result::Result<Self, D::Error> {
                crate::lenient::word(deserializer)
            }
        }

        crate::words::written_as_str!($name);
    };
}

macro_rules! written_as_str {
    ($name:ident) => {
        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

pub(crate) use {closed_words, open_words, written_as_str};

/// Word that an enumeration of a request does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVariant {
    word: String,
    known: &'static [&'static str],
}

impl UnknownVariant {
    pub(crate) fn new(word: &str, known: &'static [&'static str]) -> Self {
        Self { word: word.to_owned(), known }
    }
}

impl std::error::Error for UnknownVariant {}

impl std::fmt::Display for UnknownVariant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} is not among {}", self.word, self.known.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use crate::types::TaskStatus;

    #[test]
    fn a_task_has_ended_when_it_succeeded_failed_or_was_canceled() {
        for (status, is_terminal) in [
            (TaskStatus::InQueue, false),
            (TaskStatus::Computing, false),
            (TaskStatus::Success, true),
            (TaskStatus::Failed, true),
            (TaskStatus::Canceled, true),
            (TaskStatus::from("paused"), false),
            (TaskStatus::Other("success".to_owned()), true),
        ] {
            assert_eq!(status.is_terminal(), is_terminal, "{status}");
        }
    }
}
