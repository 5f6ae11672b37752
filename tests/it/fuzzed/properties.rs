//! Targets over the committed corpus, and over mutations of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use inferstore_fuzz::{TARGETS, Target};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::corpus::kept;

/// Limit on the whole corpus, so that everybody can read it and check it out.
const MAX_CORPUS_BYTES: usize = 200 * 1024;

#[test]
fn the_kept_corpus_holds() {
    let mut size = 0;
    for (name, target) in TARGETS {
        let kept = kept(name);
        assert!(kept.len() >= 5, "the corpus of {name} holds next to nothing");
        for (entry, bytes) in kept {
            size += bytes.len();
            assert!(catch_unwind(AssertUnwindSafe(|| target(&bytes))).is_ok(), "corpus/{name}/{entry}");
        }
    }
    assert!(size <= MAX_CORPUS_BYTES, "{size} bytes are more than anyone reads");
}

/// Tokens that parsers look for, and that random bytes seldom contain.
const TOKENS: [&str; 28] = [
    "\n",
    "null",
    "true",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "0",
    "-1",
    "1e400",
    "0.30000000000000000001",
    "18446744073709551616",
    "\"30\"",
    "\\u0000",
    "\u{feff}",
    "é",
    "\r\n",
    "--",
    "=",
    "$key",
    "://",
    "%00",
    "X-Amz-Signature=",
    "policy",
    "\0",
];

#[derive(Debug, Clone)]
enum Change {
    Put(Index, u8),
    Drop(Index, Index),
    Insert(Index, &'static str),
    Repeat(Index, Index),
    Graft(Index, Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<Index>;
    prop_oneof![
        (place(), any::<u8>()).prop_map(|(at, byte)| Change::Put(at, byte)),
        (place(), place()).prop_map(|(from, to)| Change::Drop(from, to)),
        (place(), select(&TOKENS[..])).prop_map(|(at, token)| Change::Insert(at, token)),
        (place(), place()).prop_map(|(from, to)| Change::Repeat(from, to)),
        (place(), place(), place()).prop_map(|(at, entry, from)| Change::Graft(at, entry, from)),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: &[Change], kept: &[(String, Vec<u8>)]) -> Vec<u8> {
    for change in changes {
        let at = |place: &Index| place.index(bytes.len() + 1);
        let part = |from: &Index, to: &Index| {
            at(from).min(at(to))..at(from).max(at(to)).min(at(from).min(at(to)) + 64)
        };
        match change {
            Change::Put(place, byte) if at(place) < bytes.len() => {
                let place = at(place);
                bytes[place] = *byte;
            }
            Change::Put(..) => {}
            Change::Drop(from, to) => drop(bytes.drain(part(from, to))),
            Change::Insert(place, token) => {
                let place = at(place);
                bytes.splice(place..place, token.bytes());
            }
            Change::Repeat(from, to) => {
                let part = part(from, to);
                let copy = bytes[part.clone()].to_vec();
                bytes.splice(part.start..part.start, copy);
            }
            Change::Graft(place, entry, from) => {
                let (place, other) = (at(place), &kept[entry.index(kept.len())].1);
                bytes.splice(place..place, other[from.index(other.len() + 1)..].iter().copied());
            }
        }
    }
    bytes
}

fn mutations_hold(name: &str) {
    let kept = kept(name);
    let target: Target = TARGETS.iter().find(|(known, _)| *known == name).expect("a target has this name").1;
    let cases = (any::<Index>(), vec(change(), 1..6));
    // A failing input belongs in the corpus, where people can read it.
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let held = proptest::test_runner::TestRunner::new(config).run(&cases, |(entry, changes)| {
        let bytes = changed(kept[entry.index(kept.len())].1.clone(), &changes, &kept);
        let held = catch_unwind(AssertUnwindSafe(|| target(&bytes)));
        prop_assert!(
            held.is_ok(),
            "keep this in fuzz/corpus/{}: {:?}",
            name,
            String::from_utf8_lossy(&bytes)
        );
        Ok(())
    });
    if let Err(failure) = held {
        panic!("{failure}");
    }
}

macro_rules! mutations {
    ($($name:ident),+) => {
        $(#[test]
        fn $name() {
            mutations_hold(stringify!($name));
        })+

        #[test]
        fn every_target_is_tried() {
            assert_eq!(TARGETS.map(|(name, _)| name), [$(stringify!($name)),+]);
        }
    };
}

mutations!(answers, forms, inputs, messages, pictures, policies, upload_targets);
