//! Values on the command line that need reading: lengths of time, and inputs by name.

use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::HumanBytes;
use inferstore::reqwest::Method;
use inferstore::types::UploadFolder;
use inferstore::{Decimal, PollInterval};
use jiff::SignedDuration;
use md5::{Digest, Md5};

pub(crate) fn md5_of(path: &Path) -> io::Result<String> {
    let mut hash = Md5::new();
    let mut file = std::fs::File::open(path)?;
    let mut chunk = vec![0; 64 * 1024];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            length => hash.update(&chunk[..length]),
        }
    }
}

/// A length of time such as `500ms`, `90s`, `5m` or `1h30m`; a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let is_number = text.ends_with(|c: char| c.is_ascii_digit());
    let length: Option<SignedDuration> =
        if is_number { format!("{text}s").parse().ok() } else { text.parse().ok() };
    let length = length.and_then(|length| Duration::try_from(length).ok()).filter(|length| !length.is_zero());
    length.ok_or_else(|| format!("{text:?} is no length of time; write 500ms, 90s, 5m or 1h30m"))
}

pub(crate) fn poll_interval(text: &str) -> Result<PollInterval, String> {
    match text {
        "adaptive" => Ok(PollInterval::Adaptive),
        "fast" => Ok(PollInterval::Fast),
        "long" => Ok(PollInterval::Long),
        _ => duration(text).map(PollInterval::every).map_err(|_| {
            format!("{text:?} is no interval; write adaptive, fast, long, or a time such as 3s or 500ms")
        }),
    }
}

pub(crate) fn method(text: &str) -> Result<Method, String> {
    let known = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let method = known.into_iter().find(|method| text.eq_ignore_ascii_case(method.as_str()));
    method.ok_or_else(|| format!("{text:?} is no known method; write GET, POST, PUT, PATCH or DELETE"))
}

pub(crate) fn named(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(name, _)| !name.is_empty())
}

pub(crate) fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = named(text).ok_or("write name=value")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// An exact amount that is not below zero.
pub(crate) fn amount(text: &str) -> Result<Decimal, String> {
    let amount: Decimal = text.parse().map_err(|_| format!("{text:?} is no amount; write 0.05"))?;
    if amount.is_negative() { Err("an amount is not below zero".to_owned()) } else { Ok(amount) }
}

/// One input: `name=value`, or `name=@path` for a file. A value that begins with `@` is written `@@…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) value: Given,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Given {
    Text(String),
    File(String),
}

impl FromStr for Input {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = named(text).ok_or("write name=value, or name=@path for a file")?;
        let value = match value.strip_prefix('@') {
            Some(rest) if rest.starts_with('@') => Given::Text(rest.to_owned()),
            Some("") => return Err(format!("{name}: there is no path behind the @")),
            Some(path) => Given::File(path.to_owned()),
            None => Given::Text(value.to_owned()),
        };
        Ok(Self { name: name.to_owned(), value })
    }
}

pub(crate) fn folder_names() -> impl Iterator<Item = &'static str> {
    UploadFolder::ALL.iter().map(UploadFolder::as_str)
}

pub(crate) fn upload_folder() -> impl TypedValueParser<Value = UploadFolder> {
    PossibleValuesParser::new(folder_names()).try_map(|word| word.parse())
}

pub(crate) fn yes_or_no() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["yes", "no"]).map(|word| word == "yes")
}

/// The name of a file or of the last segment of a URL, without its extension.
pub(crate) fn stem_of(file: &str) -> Option<String> {
    let path = match file.split_once("://") {
        Some((_, rest)) => rest.split(['?', '#']).next()?.split_once('/')?.1,
        None => file,
    };
    let stem = std::path::Path::new(path).file_stem()?.to_string_lossy().into_owned();
    Some(stem).filter(|stem| !stem.is_empty() && stem != "-")
}

/// The name of a stored input that a run uploaded, behind the hash of its content; None for another name.
pub(crate) fn behind_hash(name: &str) -> Option<&str> {
    let (hash, name) = name.split_once('-')?;
    (hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(name)
}

pub(crate) fn size(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_people_write_them() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5_400), ("1h1m1s", 3_661)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "0", "m", "-1s", "5s ago", "5d", "99999999999999999999s", "18446744073709551615h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_poll_interval_is_a_word_or_a_length_of_time() {
        assert_eq!(poll_interval("adaptive"), Ok(PollInterval::Adaptive));
        assert_eq!(poll_interval("fast"), Ok(PollInterval::Fast));
        assert_eq!(poll_interval("long"), Ok(PollInterval::Long));
        assert_eq!(poll_interval("0.5"), Ok(PollInterval::every(Duration::from_millis(500))));
        for text in ["3", "3s", "3000ms"] {
            assert_eq!(poll_interval(text), Ok(PollInterval::every(Duration::from_secs(3))));
        }
        assert!(poll_interval("0").is_err() && poll_interval("slow").is_err());
    }

    #[test]
    fn methods_are_read_in_any_case_and_no_others_are() {
        assert_eq!(method("get"), Ok(Method::GET));
        assert_eq!(method("PATCH"), Ok(Method::PATCH));
        assert!(method("STEAL").is_err());
    }

    #[test]
    fn inputs_are_values_or_files() {
        let input = |text: &str| text.parse::<Input>().map(|input| input.value);
        assert_eq!(input("a=b=c"), Ok(Given::Text("b=c".to_owned())));
        assert_eq!(input("a=@b.png"), Ok(Given::File("b.png".to_owned())));
        assert_eq!(input("a=@@b"), Ok(Given::Text("@b".to_owned())));
        assert_eq!(input("a="), Ok(Given::Text(String::new())));
        assert!(input("a").is_err() && input("=b").is_err() && input("a=@").is_err());
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #[test]
            fn every_spelling_of_a_length_is_that_length(hours in 0_u64..1_000, minutes in 0_u64..200, seconds in 0_u64..200) {
                let whole = Duration::from_secs(hours * 3_600 + minutes * 60 + seconds);
                for text in [format!("{hours}h{minutes}m{seconds}s"), format!("{hours}h{minutes}m{seconds}"), whole.as_secs().to_string()] {
                    prop_assert_eq!(duration(&text).ok(), Some(whole).filter(|whole| !whole.is_zero()), "{}", text);
                }
            }

            #[test]
            fn no_text_makes_an_argument_fail_in_another_way_than_by_saying_so(text in "[0-9]{0,25}[smh]?[0-9a-z. -]{0,9}|\\PC{0,20}") {
                for refused in [duration(&text).map(drop), amount(&text).map(drop), text.parse::<Input>().map(drop)] {
                    prop_assert!(refused.is_ok() || refused.is_err_and(|why| !why.is_empty()));
                }
            }

            #[test]
            fn an_input_keeps_its_text(name in "[^=]{1,12}", value in any::<String>()) {
                let escaped = if value.starts_with('@') { format!("@{value}") } else { value.clone() };
                let input: Result<Input, String> = format!("{name}={escaped}").parse();
                prop_assert_eq!(input, Ok(Input { name: name.clone(), value: Given::Text(value.clone()) }));
                if !value.is_empty() && !value.starts_with('@') {
                    let input: Result<Input, String> = format!("{name}=@{value}").parse();
                    prop_assert_eq!(input, Ok(Input { name, value: Given::File(value) }));
                }
            }
        }
    }
}
