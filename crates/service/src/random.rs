//! Where identifiers and secrets come from: the system's randomness, or a seed when a test wants the
//! same ones again.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Error, Result};

/// The characters of identifiers: no look-alikes, no case to lose. There are 32, so five bits choose one.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// The source of everything random in one service. Clones draw from the same source.
#[derive(Debug, Clone)]
pub(crate) struct Randomness {
    seeded: Option<Arc<Mutex<fastrand::Rng>>>,
}

impl Randomness {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self { seeded: seed.map(|seed| Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)))) }
    }

    /// An identifier or secret of so many characters, five bits each.
    pub(crate) fn word(&self, length: usize) -> Result<String> {
        let mut bytes = vec![0; length];
        self.fill(&mut bytes)?;
        Ok(bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect())
    }

    /// A version 4 UUID.
    pub(crate) fn uuid(&self) -> Result<String> {
        let mut bytes = [0; 16];
        self.fill(&mut bytes)?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = format!("{:032x}", u128::from_be_bytes(bytes));
        Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
    }

    /// Where the seeded source stands; None when there is no seed.
    pub(crate) fn position(&self) -> Option<u64> {
        let rng = self.seeded.as_ref()?;
        Some(rng.lock().unwrap_or_else(PoisonError::into_inner).get_seed())
    }

    /// Lets the seeded source go on from there, so that it draws the same again.
    pub(crate) fn go_on_from(&self, position: u64) {
        if let Some(rng) = &self.seeded {
            rng.lock().unwrap_or_else(PoisonError::into_inner).seed(position);
        }
    }

    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        match &self.seeded {
            Some(rng) => rng.lock().unwrap_or_else(PoisonError::into_inner).fill(bytes),
            None => getrandom::fill(bytes).map_err(|cause| Error::new("drawing random bytes", cause))?,
        }
        Ok(())
    }
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
}
