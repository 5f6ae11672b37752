//! Properties of a TIFF file that its decoder does not return.

use image::RgbaImage;

/// Returns true for a file whose first picture is only a preview, or the values of a sensor.
pub(crate) fn is_raw_photo(file: &[u8]) -> bool {
    const SUBFILE_TYPE: u16 = 254;
    const DNG_VERSION: u16 = 50706;
    let is_canon = number(file, 4, 4).is_some() && file.get(8..10) == Some(b"CR");
    let is_preview = tag(file, SUBFILE_TYPE).is_some_and(|value| value & 1 == 1);
    is_canon || is_preview || tag(file, DNG_VERSION).is_some()
}

pub(crate) fn is_premultiplied(file: &[u8]) -> bool {
    const EXTRA_SAMPLES: u16 = 338;
    tag(file, EXTRA_SAMPLES) == Some(1)
}

pub(crate) fn divide_by_alpha(image: &mut RgbaImage) {
    for [red, green, blue, alpha] in image.pixels_mut().map(|pixel| &mut pixel.0) {
        for color in [red, green, blue] {
            let whole = (u32::from(*color) * 255 + u32::from(*alpha) / 2).checked_div(u32::from(*alpha));
            *color = whole.unwrap_or(0).min(255) as u8;
        }
    }
}

/// Returns the value of a tag of the first picture, if it is a number.
fn tag(file: &[u8], wanted: u16) -> Option<usize> {
    const SHORT: usize = 3;
    let start = number(file, 4, 4)?;
    let entries = number(file, start, 2)?;
    let mut places = (0..entries).map(|entry| start + 2 + 12 * entry);
    let place = places.find(|place| number(file, *place, 2) == Some(wanted.into()))?;
    let size = if number(file, place + 2, 2) == Some(SHORT) { 2 } else { 4 };
    number(file, place + 8, size)
}

/// Returns the number of `size` bytes at a place, in the byte order of the file.
fn number(file: &[u8], place: usize, size: usize) -> Option<usize> {
    let bytes = file.get(place..place.checked_add(size)?)?;
    let add = |number: usize, byte: &u8| number << 8 | usize::from(*byte);
    match file {
        [b'I', b'I', b'*', 0, ..] => Some(bytes.iter().rev().fold(0, add)),
        [b'M', b'M', 0, b'*', ..] => Some(bytes.iter().fold(0, add)),
        _ => None,
    }
}
