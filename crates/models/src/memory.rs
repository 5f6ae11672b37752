//! Peak memory of a run, by the size of its pictures.

use std::io::Cursor;

use image::ImageDecoder;
use image::codecs::tiff::TiffDecoder;

use crate::decode::{decoder, pixels};
use crate::{Inputs, Limits, Model};

/// Peak memory of a run in bytes: per pixel of its largest picture, per pixel of the reduced size at which
/// most methods estimate, and the least for any picture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    pub(crate) pixel: u64,
    pub(crate) reduced_pixel: u64,
    pub(crate) least: u64,
}

/// Maximum number of pixels of a reduced size.
pub(crate) const REDUCED: usize = 1_000_000;

impl Need {
    pub(crate) fn of(self, pixels: u64) -> u64 {
        let reduced = pixels.min(REDUCED as u64);
        pixels.saturating_mul(self.pixel).saturating_add(reduced * self.reduced_pixel).max(self.least)
    }

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

/// Returns the maximum memory of a run of `model` on `inputs`, in bytes. It never exceeds `limits`, because
/// `run` rejects larger pictures. Reads only the headers of pictures.
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

/// Divisor of the memory reserved for input files when the largest picture is declared: 32 MiB of 1 GiB. A
/// JPEG of 50 megapixels has less than 20 MB.
const FILES_SHARE: u64 = 32;

/// Returns the maximum pixels of an input picture of `model`: the limit in the catalog, and [`Limits::pixels`] of a
/// run. A limit by the memory is rounded down to megapixels. `None`: the model does not state its memory.
///
/// A run whose files exceed a 32nd of the memory may have less left for its pictures.
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

/// Returns the bytes of all inputs and of the decoder's copies of `file`: chunks without metadata, and a whole JPEG. A
/// TIFF is not copied, but its pixels are, twice: more than the 12 bytes a pixel for which every model has room.
pub(crate) fn held(inputs: &Inputs, file: &[u8]) -> u64 {
    let held: u64 = inputs.files().map(|file| file.len() as u64).sum();
    let copies = match TiffDecoder::new(Cursor::new(file)) {
        Ok(tiff) => {
            let decoded = tiff.total_bytes().saturating_mul(2);
            decoded.saturating_sub(pixels(&tiff).saturating_mul(12))
        }
        Err(_) => 2 * file.len() as u64,
    };
    held.saturating_add(copies)
}
