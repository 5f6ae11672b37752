//! Decoding of pictures: checks headers and containers, and applies the Exif orientation.

use std::borrow::Cow;
use std::error::Error as _;
use std::io::{Cursor, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::error::ImageFormatHint;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader};

use crate::memory::{Need, held};
use crate::{Error, Inputs, Limits, container, tiff, webp};

/// Properties that an output file inherits from its input.
#[derive(Debug, Default)]
pub(crate) struct FileFormat {
    pub(crate) format: Option<ImageFormat>,
    /// ICC profile, unless sRGB.
    pub(crate) profile: Option<Vec<u8>>,
}

pub(crate) fn pixels(decoder: &impl ImageDecoder) -> u64 {
    let (width, height) = decoder.dimensions();
    u64::from(width) * u64::from(height)
}

pub(crate) fn allocations(bytes: u64) -> image::Limits {
    let mut limits = image::Limits::no_limits();
    limits.max_alloc = Some(bytes);
    limits
}

/// Returns a decoder that has read the header of a file.
pub(crate) fn decoder<'a>(file: &'a [u8], limits: &Limits) -> Result<impl ImageDecoder + 'a, ImageError> {
    let mut reader = ImageReader::new(Cursor::new(without_metadata(file))).with_guessed_format()?;
    reader.limits(allocations(limits.memory));
    reader.into_decoder()
}

/// Returns a PNG file with only the chunks for pixels and orientation. Others may be compressed: a profile or
/// text of 1 MB can unpack to 1 GB, and no model uses them. Other formats stay unchanged.
fn without_metadata(file: &[u8]) -> Cow<'_, [u8]> {
    const NEEDED: [&[u8]; 6] = [b"IHDR", b"PLTE", b"tRNS", b"eXIf", b"IDAT", b"IEND"];
    const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
    let Some(mut rest) = file.strip_prefix(SIGNATURE) else { return Cow::Borrowed(file) };
    let mut kept = SIGNATURE.to_vec();
    while let Some((length, _)) = rest.split_first_chunk::<4>() {
        // Length, type, data, checksum. The decoder rejects a truncated chunk.
        let size = 12 + u32::from_be_bytes(*length) as usize;
        let Some((chunk, further)) = rest.split_at_checked(size) else { break };
        if NEEDED.contains(&&chunk[4..8]) {
            kept.extend_from_slice(chunk);
        }
        rest = further;
    }
    kept.extend_from_slice(rest);
    Cow::Owned(kept)
}

pub(crate) fn decode(
    inputs: &Inputs,
    name: &str,
    need: Need,
    limits: &Limits,
) -> Result<(DynamicImage, FileFormat), Error> {
    limits.check_time()?;
    let file = inputs.file(name)?;
    let not_a_picture = |reason: String| Err(Error::NotAPicture { input: name.to_owned(), reason });
    let unreadable = |error| unreadable(name, error);
    let decoder = decoder(file, limits);
    let held = held(inputs, file);
    if let Ok(decoder) = &decoder {
        // A header with too many pixels is the more precise error.
        let fitting = need.fitting(limits.memory.saturating_sub(held));
        let beside = if fitting < limits.pixels { " beside files of this size" } else { "" };
        check_pixels(decoder, name, fitting.min(limits.pixels), beside)?;
    }
    if let Some(reason) = container::fault(file) {
        return not_a_picture(reason);
    }
    if !webp::is_consistent(file) {
        return not_a_picture("the size of a part of it is not the one that it says".to_owned());
    }
    let mut decoder = decoder.map_err(unreadable)?;
    // A frame of a GIF may be larger than its picture.
    let allowed = need.of(pixels(&decoder)).saturating_add(held);
    decoder.set_limits(allocations(allowed)).map_err(unreadable)?;
    let orientation = decoder.orientation().unwrap_or(image::metadata::Orientation::NoTransforms);
    let format = image::guess_format(file).ok();
    let profile = decoder.icc_profile().unwrap_or_default().filter(|profile| is_kept(profile));
    // A decoder may panic on a damaged file.
    let decoded = catch_unwind(AssertUnwindSafe(|| DynamicImage::from_decoder(decoder)));
    let Ok(image) = decoded else {
        return not_a_picture("the decoder of its format failed".to_owned());
    };
    let image = image.map_err(unreadable)?;
    // Converted to eight bits before the rotation, which needs two copies.
    let mut image = match image.color() {
        color if color.bytes_per_pixel() == color.channel_count() => image,
        color if color.has_alpha() => image.into_rgba8().into(),
        _ => image.into_rgb8().into(),
    };
    if let DynamicImage::ImageRgba8(image) = &mut image
        && tiff::is_premultiplied(file)
    {
        tiff::divide_by_alpha(image);
    }
    image.apply_orientation(orientation);
    limits.check_time()?;
    Ok((image, FileFormat { format, profile }))
}

/// Returns true for an RGB ICC profile as small as those of cameras.
fn is_kept(profile: &[u8]) -> bool {
    const MAX_PROFILE: usize = 64 << 10;
    profile.len() <= MAX_PROFILE && profile.get(16..20) == Some(b"RGB ")
}

/// Rejects a file by its header if it has no pixels or more than `most`; `beside` is the reason for a small `most`.
fn check_pixels(decoder: &impl ImageDecoder, name: &str, most: u64, beside: &str) -> Result<(), Error> {
    let (width, height) = decoder.dimensions();
    let pixels = pixels(decoder);
    if pixels == 0 {
        return Err(Error::NotAPicture { input: name.to_owned(), reason: "it has no pixels".to_owned() });
    }
    if pixels > most {
        // Round the size up and the limit down; otherwise 50.04 would be rejected with "50 of at most 50".
        let unit = if most < 100_000 { 1 } else { 100_000 };
        let [pixels, most] = [pixels.div_ceil(unit), most / unit].map(|units| (units * unit) as f64 / 1e6);
        let reason = format!(
            "its {width} x {height} pixels are {pixels} megapixels, and this model takes at most {most}{beside}"
        );
        return Err(too_large(name, reason));
    }
    Ok(())
}

/// Rejects a file by its header if a side exceeds the limit of the output. `decode` handles unreadable headers.
pub(crate) fn check_sides(inputs: &Inputs, name: &str, max: u32, limits: &Limits) -> Result<(), Error> {
    let Ok(decoder) = decoder(inputs.file(name)?, limits) else { return Ok(()) };
    let (width, height) = decoder.dimensions();
    if width.max(height) > max {
        let reason =
            format!("it has {width} x {height} pixels, and a side of the output has at most {max} of them");
        return Err(too_large(name, reason));
    }
    Ok(())
}

fn is_end(error: &ImageError) -> bool {
    let is_end = |error: &std::io::Error| error.kind() == ErrorKind::UnexpectedEof;
    if let ImageError::IoError(error) = error {
        return is_end(error);
    }
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.filter_map(|cause| cause.downcast_ref()).any(is_end)
}

pub(crate) fn unreadable(name: &str, error: ImageError) -> Error {
    let reason = match error {
        ImageError::Limits(error) => return too_large(name, error.to_string()),
        error if is_end(&error) => container::CUT_OFF.to_owned(),
        ImageError::Unsupported(error)
            if error.format_hint() == ImageFormatHint::Exact(ImageFormat::Tiff) =>
        {
            format!("it is a TIFF of a kind that is not read: {error}")
        }
        error => error.to_string(),
    };
    Error::NotAPicture { input: name.to_owned(), reason }
}

fn too_large(input: &str, reason: String) -> Error {
    Error::TooLarge { input: input.to_owned(), reason }
}
