//! Encoding of pictures: in the format of the input, or as PNG if that format would lose information.

use image::codecs::webp::WebPEncoder;
use image::{ExtendedColorType, ImageEncoder, ImageFormat, ImageResult};

use crate::jpeg;
use crate::picture::Picture;
use crate::{Error, Output};

/// JPEG quality without visible loss, with all of the colors: chroma is not subsampled.
const JPEG_QUALITY: u8 = 93;
const MAX_JPEG_SIDE: usize = u16::MAX as usize;
const MAX_WEBP_SIDE: usize = 16_383;
/// Limit because the WebP encoder holds copies of a picture.
const MAX_WEBP_PIXELS: usize = 16_000_000;

impl Picture {
    pub(crate) fn into_file(self) -> Result<Output, Error> {
        let format = match self.form.format {
            Some(ImageFormat::Jpeg) if self.alpha.is_none() && self.longer_side() <= MAX_JPEG_SIDE => {
                ImageFormat::Jpeg
            }
            Some(ImageFormat::WebP)
                if self.longer_side() <= MAX_WEBP_SIDE && self.width * self.height <= MAX_WEBP_PIXELS =>
            {
                ImageFormat::WebP
            }
            _ => ImageFormat::Png,
        };
        let failed = |reason: String| Error::Failed { reason: format!("writing the picture: {reason}") };
        let [width, height] = [self.width, self.height].map(u32::try_from);
        let (Ok(width), Ok(height)) = (width, height) else {
            return Err(failed("it is too large".to_owned()));
        };
        // Capacity of an uncompressed file: a vector that grows by doubling would take more.
        let pixels = self.colors.len() + self.alpha.as_ref().map_or(0, Vec::len);
        let mut file = Vec::with_capacity(pixels + pixels / 32 + (64 << 10));
        match format {
            ImageFormat::Jpeg => {
                let profile = self.form.profile.as_deref();
                jpeg::write(&mut file, &self.colors, self.width, profile, JPEG_QUALITY);
            }
            ImageFormat::WebP => {
                let encoder = WebPEncoder::new_lossless(&mut file);
                write(encoder, self, width, height).map_err(|error| failed(error.to_string()))?;
            }
            _ => write_png(&mut file, &self, width, height).map_err(|error| failed(error.to_string()))?,
        }
        file.shrink_to_fit();
        let extension = format.extensions_str().first().copied().unwrap_or_default();
        Ok(Output::File { bytes: file, mime: format.to_mime_type(), extension })
    }
}

fn write(mut encoder: impl ImageEncoder, picture: Picture, width: u32, height: u32) -> ImageResult<()> {
    let Picture { mut colors, alpha, form, .. } = picture;
    if let Some(profile) = form.profile {
        // Without an ICC profile, colors are shown as sRGB.
        let _ = encoder.set_icc_profile(profile);
    }
    let Some(alpha) = alpha else {
        return encoder.write_image(&colors, width, height, ExtendedColorType::Rgb8);
    };
    let mut bytes = Vec::with_capacity(4 * alpha.len());
    join(&colors, &alpha, &mut bytes);
    colors.clear();
    colors.shrink_to_fit();
    encoder.write_image(&bytes, width, height, ExtendedColorType::Rgba8)
}

/// Writes a PNG file row by row, optimized for speed.
fn write_png(
    file: &mut Vec<u8>,
    picture: &Picture,
    width: u32,
    height: u32,
) -> Result<(), png::EncodingError> {
    let mut info = png::Info::with_size(width, height);
    info.icc_profile = picture.form.profile.as_deref().map(Into::into);
    let mut encoder = png::Encoder::with_info(file, info)?;
    encoder.set_color(if picture.alpha.is_some() { png::ColorType::Rgba } else { png::ColorType::Rgb });
    encoder.set_compression(png::Compression::Fast);
    encoder.set_filter(png::Filter::Adaptive);
    let mut writer = encoder.write_header()?;
    let mut rows = writer.stream_writer_with_size(256 << 10)?;
    let mut joined = Vec::new();
    for y in 0..picture.height {
        let row = match &picture.alpha {
            None => picture.row(y),
            Some(alpha) => {
                joined.clear();
                join(picture.row(y), &alpha[y * picture.width..(y + 1) * picture.width], &mut joined);
                &joined
            }
        };
        std::io::Write::write_all(&mut rows, row)?;
    }
    rows.finish()?;
    writer.finish()
}

/// Interleaves colors and opacity.
fn join(colors: &[u8], alpha: &[u8], bytes: &mut Vec<u8>) {
    for (color, alpha) in colors.as_chunks::<3>().0.iter().zip(alpha) {
        bytes.extend_from_slice(color);
        bytes.push(*alpha);
    }
}
