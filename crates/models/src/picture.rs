//! Pictures: from the bytes of an input to planes, and from planes to the bytes of an output.

use std::borrow::Cow;
use std::io::Cursor;

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{DynamicImage, ExtendedColorType, ImageDecoder, ImageEncoder, ImageError, ImageReader};

use crate::plane::Plane;
use crate::{Error, Inputs, Limits, Model, Output, webp};

/// A picture in sRGB: its colors, and how opaque it is unless it is so everywhere.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    pub(crate) colors: [Plane; 3],
    pub(crate) alpha: Option<Plane>,
}

impl Picture {
    /// Reads the file `name` of the inputs and turns it as its camera says. `need` is how many bytes
    /// the model takes for each pixel; the picture is refused by its header if that is too much.
    pub(crate) fn read(inputs: &Inputs, name: &str, need: u64, limits: &Limits) -> Result<Self, Error> {
        decode(inputs, name, need, limits).map(Self::from_image)
    }

    pub(crate) fn from_image(image: DynamicImage) -> Self {
        let (width, height) = (image.width() as usize, image.height() as usize);
        let has_alpha = image.color().has_alpha();
        let deep = image.color().bytes_per_pixel() > image.color().channel_count();
        let mut planes = [(); 4].map(|()| Vec::with_capacity(width * height));
        let mut push = |pixel: [f32; 4]| {
            for (plane, value) in planes.iter_mut().zip(pixel) {
                plane.push(value);
            }
        };
        if deep {
            image
                .into_rgba16()
                .pixels()
                .for_each(|pixel| push(pixel.0.map(|value| f32::from(value) / 65535.0)));
        } else {
            image.into_rgba8().pixels().for_each(|pixel| push(pixel.0.map(|value| f32::from(value) / 255.0)));
        }
        let [red, green, blue, alpha] = planes.map(|values| Plane { width, height, values });
        let alpha = (has_alpha && alpha.values.iter().any(|value| *value < 1.0)).then_some(alpha);
        Self { colors: [red, green, blue], alpha }
    }

    pub(crate) fn width(&self) -> usize {
        self.colors[0].width
    }

    pub(crate) fn height(&self) -> usize {
        self.colors[0].height
    }

    /// The color of every pixel.
    pub(crate) fn pixels(&self) -> impl Iterator<Item = [f32; 3]> {
        let [red, green, blue] = &self.colors;
        red.values.iter().zip(&green.values).zip(&blue.values).map(|((r, g), b)| [*r, *g, *b])
    }

    /// Replaces the color of every pixel by what `change` makes of it and its index.
    pub(crate) fn change_pixels(
        &mut self,
        limits: &Limits,
        change: impl Fn(usize, [f32; 3]) -> [f32; 3],
    ) -> Result<(), Error> {
        let width = self.width();
        let [red, green, blue] = &mut self.colors;
        let pixels = red.values.iter_mut().zip(&mut green.values).zip(&mut blue.values);
        for (at, ((red, green), blue)) in pixels.enumerate() {
            if at % width == 0 {
                limits.check_time()?;
            }
            [*red, *green, *blue] = change(at, [*red, *green, *blue]);
        }
        Ok(())
    }

    /// How bright the eye sees it, by the weights of Rec. 709 on the encoded values.
    pub(crate) fn luma(&self) -> Plane {
        let values = self.pixels().map(|[r, g, b]| 0.2126 * r + 0.7152 * g + 0.0722 * b).collect();
        Plane { width: self.width(), height: self.height(), values }
    }

    /// As a PNG file.
    pub(crate) fn into_png(self) -> Result<Output, Error> {
        let channels = if self.alpha.is_some() { 4 } else { 3 };
        let mut bytes = vec![0; self.width() * self.height() * channels];
        for (channel, plane) in self.colors.iter().chain(&self.alpha).enumerate() {
            for (pixel, value) in bytes.chunks_exact_mut(channels).zip(&plane.values) {
                pixel[channel] = to_byte(*value);
            }
        }
        let color = if channels == 4 { ExtendedColorType::Rgba8 } else { ExtendedColorType::Rgb8 };
        png(&bytes, self.width(), self.height(), color)
    }
}

/// From 0 to 1 into a byte; what lies outside becomes the nearest one.
pub(crate) fn to_byte(value: f32) -> u8 {
    (value * 255.0 + 0.5) as u8
}

/// Writes rows of bytes as a PNG file, quickly rather than smallest.
pub(crate) fn png(
    bytes: &[u8],
    width: usize,
    height: usize,
    color: ExtendedColorType,
) -> Result<Output, Error> {
    let failed = |reason: String| Error::Failed { reason: format!("writing the picture: {reason}") };
    let [width, height] = [width, height].map(u32::try_from);
    let (Ok(width), Ok(height)) = (width, height) else { return Err(failed("it is too large".to_owned())) };
    let mut file = Vec::new();
    PngEncoder::new_with_quality(&mut file, CompressionType::Fast, FilterType::Adaptive)
        .write_image(bytes, width, height, color)
        .map_err(|error| failed(error.to_string()))?;
    Ok(Output::File { bytes: file, mime: "image/png", extension: "png" })
}

/// Returns how many bytes a run of `model` on `inputs` takes at most; never more than `limits` allow, because
/// `run` refuses larger pictures. Only the headers of pictures are read.
#[must_use]
pub fn memory_of(model: &dyn Model, inputs: &Inputs, limits: &Limits) -> u64 {
    let Some(need) = model.bytes_per_pixel() else { return limits.memory };
    let of_file = |file: &[u8]| {
        let pixels = decoder(file, limits).map_or(0, |decoder| pixels(&decoder));
        needed(inputs, file, pixels, need)
    };
    inputs.files().map(of_file).max().unwrap_or(0).min(limits.memory)
}

/// How many bytes a run takes whose largest picture is `file`: every input, the copies of the file that its
/// decoder makes (its chunks without metadata, and the whole of a JPEG), and the work on its pixels.
pub(crate) fn needed(inputs: &Inputs, file: &[u8], pixels: u64, need: u64) -> u64 {
    let held: u64 = inputs.files().map(|file| file.len() as u64).sum();
    pixels.saturating_mul(need).saturating_add(held + 2 * file.len() as u64)
}

pub(crate) fn pixels(decoder: &impl ImageDecoder) -> u64 {
    let (width, height) = decoder.dimensions();
    u64::from(width) * u64::from(height)
}

/// What a decoder may allocate, in bytes.
pub(crate) fn allocations(bytes: u64) -> image::Limits {
    let mut limits = image::Limits::no_limits();
    limits.max_alloc = Some(bytes);
    limits
}

/// A decoder that has read the header of a file.
fn decoder<'a>(file: &'a [u8], limits: &Limits) -> Result<impl ImageDecoder + 'a, ImageError> {
    let mut reader = ImageReader::new(Cursor::new(without_metadata(file))).with_guessed_format()?;
    reader.limits(allocations(limits.memory));
    reader.into_decoder()
}

/// The chunks of a PNG file that its pixels depend on, and its orientation. The others may be compressed: a
/// color profile or a text of 1 MB can unpack to 1 GB, and no model uses it. Other files stay as they are.
fn without_metadata(file: &[u8]) -> Cow<'_, [u8]> {
    const NEEDED: [&[u8]; 6] = [b"IHDR", b"PLTE", b"tRNS", b"eXIf", b"IDAT", b"IEND"];
    const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
    let Some(mut rest) = file.strip_prefix(SIGNATURE) else { return Cow::Borrowed(file) };
    let mut kept = SIGNATURE.to_vec();
    while let Some((length, _)) = rest.split_first_chunk::<4>() {
        // Length, type, data, checksum. What is cut off is left to the decoder, which refuses it.
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

/// Reads and checks the file `name`, as `Picture::read` does.
pub(crate) fn decode(inputs: &Inputs, name: &str, need: u64, limits: &Limits) -> Result<DynamicImage, Error> {
    limits.check_time()?;
    let file = inputs.file(name)?;
    if !webp::is_consistent(file) {
        let reason = "the size of a part of it is not the one that it says".to_owned();
        return Err(Error::NotAPicture { input: name.to_owned(), reason });
    }
    let unreadable = |error| unreadable(name, error);
    let mut decoder = decoder(file, limits).map_err(unreadable)?;
    let (width, height) = decoder.dimensions();
    let pixels = pixels(&decoder);
    if pixels == 0 {
        return Err(Error::NotAPicture { input: name.to_owned(), reason: "it has no pixels".to_owned() });
    }
    if pixels > limits.pixels {
        return Err(too_large(
            name,
            format!("it has {width} x {height} pixels, and {} are allowed in all", limits.pixels),
        ));
    }
    let needed = needed(inputs, file, pixels, need);
    if needed > limits.memory {
        return Err(too_large(
            name,
            format!("{width} x {height} pixels need {needed} bytes here, and {} are allowed", limits.memory),
        ));
    }
    // A frame of a GIF may be larger than its picture.
    decoder.set_limits(allocations(needed)).map_err(unreadable)?;
    // A picture whose orientation cannot be read is shown as it is.
    let orientation = decoder.orientation().unwrap_or(image::metadata::Orientation::NoTransforms);
    let mut image = DynamicImage::from_decoder(decoder).map_err(unreadable)?;
    image.apply_orientation(orientation);
    limits.check_time()?;
    Ok(image)
}

/// Refuses the file `name` by its header when a side of it is longer than the format of the output allows. A header that
/// cannot be read is left to `decode`.
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

/// Why a decoder has refused the file `name`.
pub(crate) fn unreadable(name: &str, error: ImageError) -> Error {
    match error {
        ImageError::Limits(error) => too_large(name, error.to_string()),
        error => Error::NotAPicture { input: name.to_owned(), reason: error.to_string() },
    }
}

fn too_large(input: &str, reason: String) -> Error {
    Error::TooLarge { input: input.to_owned(), reason }
}
