//! Randomness for identifiers and secrets: the system's, or a seeded generator for reproducible tests.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::clock::Moment;
use crate::{Error, Result};

/// Alphabet of identifiers: lower case, without look-alikes. 32 characters, so that five bits choose one.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

#[derive(Debug, Clone)]
pub(crate) struct Randomness {
    seeded: Option<Arc<Mutex<fastrand::Rng>>>,
}

impl Randomness {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self { seeded: seed.map(|seed| Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)))) }
    }

    /// Returns an identifier or secret of `length` characters, five random bits each.
    pub(crate) fn word(&self, length: usize) -> Result<String> {
        let mut bytes = vec![0; length];
        self.fill(&mut bytes)?;
        Ok(bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect())
    }

    pub(crate) fn uuid(&self) -> Result<String> {
        let mut bytes = [0; 16];
        self.fill(&mut bytes)?;
        Ok(uuid_of(bytes, 4))
    }

    /// Returns a version 7 UUID, which begins with the time: rows written together are neighbors in an index, where
    /// random ones would touch a page each. With a seed, the UUID has version 4, independent of the time.
    pub(crate) fn uuid_by_time(&self, now: Moment) -> Result<String> {
        if self.seeded.is_some() {
            return self.uuid();
        }
        let mut bytes = [0; 16];
        self.fill(&mut bytes)?;
        bytes[..6].copy_from_slice(&now.0.to_be_bytes()[2..]);
        Ok(uuid_of(bytes, 7))
    }

    pub(crate) fn position(&self) -> Option<u64> {
        let rng = self.seeded.as_ref()?;
        Some(rng.lock().get_seed())
    }

    pub(crate) fn go_on_from(&self, position: u64) {
        if let Some(rng) = &self.seeded {
            rng.lock().seed(position);
        }
    }

    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        match &self.seeded {
            Some(rng) => rng.lock().fill(bytes),
            None => getrandom::fill(bytes).map_err(|cause| Error::new("drawing random bytes", cause))?,
        }
        Ok(())
    }
}

/// Returns the prefix of the version 7 UUIDs of a moment. Later UUIDs sort after the prefix.
pub(crate) fn uuid_beginning(at: Moment) -> String {
    let digits = format!("{:012x}", at.0.max(0));
    [&digits[..8], &digits[8..]].join("-")
}

fn uuid_of(mut bytes: [u8; 16], version: u8) -> String {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_identifiers_again() -> Result<(), Error> {
        let draw = |random: Randomness| Ok::<_, Error>((random.word(20)?, random.uuid()?));
        assert_eq!(draw(Randomness::new(Some(7)))?, draw(Randomness::new(Some(7)))?);
        assert_ne!(draw(Randomness::new(Some(7)))?, draw(Randomness::new(Some(8)))?);
        assert_ne!(draw(Randomness::new(None))?, draw(Randomness::new(None))?);
        Ok(())
    }

    #[test]
    fn identifiers_by_time_are_in_its_order_unless_there_is_a_seed() -> Result<(), Error> {
        let random = Randomness::new(None);
        let (first, second) = (
            random.uuid_by_time(Moment(1_767_225_600_000))?,
            random.uuid_by_time(Moment(1_767_225_600_001))?,
        );
        assert!(
            first.starts_with("019b76da-a800-7") && second.starts_with("019b76da-a801-7"),
            "{first} {second}"
        );
        assert_ne!(first, random.uuid_by_time(Moment(1_767_225_600_000))?);
        let beginning = uuid_beginning(Moment(1_767_225_600_001));
        assert!(first < beginning && second.starts_with(&beginning), "{beginning}");
        let seeded = |now| Randomness::new(Some(7)).uuid_by_time(now);
        assert_eq!(seeded(Moment(0))?, seeded(Moment(1))?);
        Ok(())
    }
}
