//! Candidates of completions, and those that need no service: profiles and folders.

use std::ffi::OsStr;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use inferstore::is_unprintable;

use crate::environment::Environment;
use crate::profiles;
use crate::table::printable;
use crate::values::folder_names;

/// A word that completes, and its description.
pub(crate) type Word = (String, Option<String>);

pub(crate) fn profiles() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let profiles = profiles::read(&Environment::of_this_process()).unwrap_or_default();
        let words = profiles.profiles.into_iter().map(|(name, profile)| (name, Some(profile.base_url)));
        candidates(words.collect(), current)
    })
}

pub(crate) fn folders() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let words = folder_names().map(|folder| (folder.to_owned(), None));
        candidates(words.collect(), current)
    })
}

pub(crate) fn candidates(words: Vec<Word>, current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    // A shell takes a line for a word of its own.
    let is_plain = |word: &str| !word.contains(is_unprintable);
    let words = words.into_iter().filter(|(word, _)| word.starts_with(&*current) && is_plain(word));
    let help = |help: Option<String>| help.map(|help| printable(&help).into());
    words.map(|(word, about)| CompletionCandidate::new(word).help(help(about))).collect()
}
