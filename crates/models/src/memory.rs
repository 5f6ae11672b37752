//! The memory that runs take, by the sizes of their pictures.

use crate::decode::{decoder, pixels};
use crate::{Inputs, Limits, Model};

/// The bytes that a run takes at its peak: for each pixel of its largest picture, for each of the reduced size at which
/// most methods estimate, and at least.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    pub(crate) pixel: u64,
    pub(crate) reduced_pixel: u64,
    pub(crate) least: u64,
}

/// The most pixels of a reduced size.
pub(crate) const REDUCED: usize = 1_000_000;

impl Need {
    pub(crate) fn of(self, pixels: u64) -> u64 {
        let reduced = pixels.min(REDUCED as u64);
        pixels.saturating_mul(self.pixel).saturating_add(reduced * self.reduced_pixel).max(self.least)
    }

    /// Returns how many pixels fit in this many bytes.
    pub(crate) fn fitting(self, bytes: u64) -> u64 {
        if bytes < self.least {
            return 0;
        }
        match bytes.checked_sub(self.reduced_pixel * REDUCED as u64) {
            Some(left) if left >= self.pixel * REDUCED as u64 => left / self.pixel,
            _ => bytes / (self.pixel + self.reduced_pixel),
        }
    }
}

/// Returns how many bytes a run of `model` on `inputs` takes at most; never more than `limits` allow, because
/// `run` refuses larger pictures. Only the headers of pictures are read.
#[must_use]
pub fn memory_of(model: &dyn Model, inputs: &Inputs, limits: &Limits) -> u64 {
    if model.memory(0).is_none() {
        return limits.memory;
    }
    let of_file = |file: &[u8]| {
        let pixels = decoder(file, limits).map_or(0, |decoder| pixels(&decoder));
        model.memory(pixels).map_or(limits.memory, |memory| memory.saturating_add(held(inputs, file)))
    };
    inputs.files().map(of_file).max().unwrap_or(0).min(limits.memory)
}

/// The part of the memory that is left for the files of the inputs when the largest picture is declared: 32 MiB of 1 GiB,
/// where a JPEG of 50 megapixels has less than 20 MB.
const FILES_SHARE: u64 = 32;

/// Returns how many pixels a picture among the inputs of `model` may have: the limit that the catalog declares, and that
/// a run has as [`Limits::pixels`]. What the memory allows is rounded down to megapixels. `None` when the model does not
/// state its memory.
///
/// A run whose files are larger than a 32nd of the memory may have less left for its pictures.
#[must_use]
pub fn largest_picture(model: &dyn Model, limits: &Limits) -> Option<u64> {
    const MEGAPIXEL: u64 = 1_000_000;
    let memory = limits.memory - limits.memory / FILES_SHARE;
    let (mut fits, mut too_large) = (0, limits.pixels.saturating_add(1));
    while too_large - fits > 1 {
        let middle = fits + (too_large - fits) / 2;
        if model.memory(middle)? <= memory {
            fits = middle;
        } else {
            too_large = middle;
        }
    }
    let is_whole = fits == limits.pixels || fits < MEGAPIXEL;
    Some(if is_whole { fits } else { fits - fits % MEGAPIXEL })
}

/// Returns the bytes of every input and of the copies of the file that its decoder makes: its chunks without metadata,
/// and the whole of a JPEG.
pub(crate) fn held(inputs: &Inputs, file: &[u8]) -> u64 {
    let held: u64 = inputs.files().map(|file| file.len() as u64).sum();
    held + 2 * file.len() as u64
}
