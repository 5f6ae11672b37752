//! Encoding of pictures: in the format of the input, or as PNG if that format would lose information.

use image::codecs::webp::WebPEncoder;
use image::{ExtendedColorType, ImageEncoder, ImageFormat, ImageResult};

use crate::decode::FileFormat;
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
        let format = self.output_format();
        let failed = |reason: String| Error::Failed { reason: format!("writing the picture: {reason}") };
        let [width, height] = [self.width, self.height].map(u32::try_from);
        let (Ok(width), Ok(height)) = (width, height) else {
            return Err(failed("it is too large".to_owned()));
        };
        let mut file = self.empty_file();
        match format {
            ImageFormat::Jpeg => {
                let profile = self.form.profile.as_deref();
                file = jpeg::write(file, &self.colors, self.width, profile, JPEG_QUALITY);
            }
            ImageFormat::WebP => {
                let encoder = WebPEncoder::new_lossless(&mut file);
                write(encoder, self, width, height).map_err(|error| failed(error.to_string()))?;
            }
            _ => write_png(&mut file, &self, width, height).map_err(|error| failed(error.to_string()))?,
        }
        Ok(output(file, format))
    }

    fn output_format(&self) -> ImageFormat {
        match self.form.format {
            Some(ImageFormat::Jpeg) if self.alpha.is_none() && self.longer_side() <= MAX_JPEG_SIDE => {
                ImageFormat::Jpeg
            }
            Some(ImageFormat::WebP)
                if self.longer_side() <= MAX_WEBP_SIDE && self.width * self.height <= MAX_WEBP_PIXELS =>
            {
                ImageFormat::WebP
            }
            _ => ImageFormat::Png,
        }
    }

    /// Returns a file with the capacity of the uncompressed picture: a vector that grows by doubling would take more.
    fn empty_file(&self) -> Vec<u8> {
        let channels = if self.alpha.is_some() { 4 } else { 3 };
        let bytes = channels * self.width * self.height;
        Vec::with_capacity(bytes + bytes / 32 + (64 << 10))
    }
}

fn output(mut file: Vec<u8>, format: ImageFormat) -> Output {
    file.shrink_to_fit();
    let extension = format.extensions_str().first().copied().unwrap_or_default();
    Output::File { bytes: file, mime: format.to_mime_type(), extension }
}

/// Output whose rows come in bands. A JPEG is written at once, without a copy of the whole picture.
pub(crate) enum Bands {
    Jpeg(Box<jpeg::Writer>),
    Whole(Picture),
}

impl Bands {
    pub(crate) fn new((width, height): (usize, usize), alpha: Option<Vec<u8>>, form: FileFormat) -> Self {
        let mut picture = Picture { width, height, colors: Vec::new(), alpha, form };
        if picture.output_format() == ImageFormat::Jpeg {
            let profile = picture.form.profile.as_deref();
            let writer = jpeg::Writer::new(picture.empty_file(), [width, height], profile, JPEG_QUALITY);
            Self::Jpeg(Box::new(writer))
        } else {
            picture.colors.reserve_exact(3 * width * height);
            Self::Whole(picture)
        }
    }

    /// Takes the next rows: a multiple of eight, except for the last ones.
    pub(crate) fn write(&mut self, rows: &[u8]) {
        match self {
            Self::Jpeg(writer) => writer.write(rows),
            Self::Whole(picture) => picture.colors.extend_from_slice(rows),
        }
    }

    pub(crate) fn into_file(self) -> Result<Output, Error> {
        match self {
            Self::Jpeg(writer) => Ok(output(writer.finished(), ImageFormat::Jpeg)),
            Self::Whole(picture) => picture.into_file(),
        }
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

fn join(colors: &[u8], alpha: &[u8], bytes: &mut Vec<u8>) {
    for (color, alpha) in colors.as_chunks::<3>().0.iter().zip(alpha) {
        bytes.extend_from_slice(color);
        bytes.push(*alpha);
    }
}
