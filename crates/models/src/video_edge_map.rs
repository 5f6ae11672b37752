//! Video to edge map: the edges of every picture of an animated GIF or WebP, white on black, after Canny
//! (1986), as an animated GIF. A still picture counts as a video of one; other formats are refused with a
//! reason.

use std::io::Cursor;

use image::codecs::gif::{GifDecoder, GifEncoder, Repeat};
use image::codecs::webp::WebPDecoder;
use image::{
    AnimationDecoder, Delay, DynamicImage, Frame, Frames, ImageDecoder, ImageFormat, ImageResult, RgbaImage,
};

use crate::picture::{self, Picture};
use crate::plane::Plane;
use crate::{Error, Inputs, Limits, Model, Output};

const INPUT: &str = "input";
/// Bytes for a pixel of one picture at the peak.
const NEED: u64 = 60;
/// The longest side of a GIF, in pixels.
const MAX_SIDE: u32 = 65_535;
/// Edges are at least as strong as the first somewhere, and as the second everywhere.
const CERTAIN: f32 = 0.32;
const POSSIBLE: f32 = 0.14;

pub(crate) struct VideoEdgeMap;

impl Model for VideoEdgeMap {
    fn kind(&self) -> &'static str {
        "video-edge-map"
    }

    fn bytes_per_pixel(&self) -> Option<u64> {
        Some(NEED)
    }

    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let bytes = inputs.file(INPUT)?;
        if image::guess_format(bytes).is_err() {
            let reason =
                "its format cannot be decoded, such as that of MP4 or WebM; send an animated GIF or WebP";
            return Err(Error::Unusable { input: INPUT.to_owned(), reason: reason.to_owned() });
        }
        picture::check_sides(inputs, INPUT, MAX_SIDE, limits)?;
        let still = || picture::decode(inputs, INPUT, NEED, limits).map(|image| vec![Ok(still_frame(image))]);
        let mut bytes_out = Vec::new();
        match frames(inputs, bytes) {
            Some(frames) => {
                // Its first picture is checked like any other before the animation is read.
                picture::decode(inputs, INPUT, NEED, limits)?;
                encode(frames.map_err(unreadable)?, &mut bytes_out, limits)?;
            }
            None => encode(still()?, &mut bytes_out, limits)?,
        }
        Ok(vec![("output", Output::File { bytes: bytes_out, mime: "image/gif", extension: "gif" })])
    }
}

/// The pictures of an animation, each in the memory of one picture; `None` for a file of another kind.
fn frames<'a>(inputs: &Inputs, bytes: &'a [u8]) -> Option<ImageResult<Frames<'a>>> {
    match image::guess_format(bytes).ok()? {
        ImageFormat::Gif => Some(GifDecoder::new(Cursor::new(bytes)).and_then(|mut decoder| {
            let needed = picture::needed(inputs, bytes, picture::pixels(&decoder), NEED);
            decoder.set_limits(picture::allocations(needed))?;
            Ok(decoder.into_frames())
        })),
        ImageFormat::WebP => match WebPDecoder::new(Cursor::new(bytes)) {
            Ok(decoder) => decoder.has_animation().then(|| Ok(decoder.into_frames())),
            Err(error) => Some(Err(error)),
        },
        _ => None,
    }
}

fn still_frame(image: DynamicImage) -> Frame {
    Frame::from_parts(image.into_rgba8(), 0, 0, Delay::from_numer_denom_ms(100, 1))
}

fn unreadable(error: image::ImageError) -> Error {
    picture::unreadable(INPUT, error)
}

fn encode(
    frames: impl IntoIterator<Item = ImageResult<Frame>>,
    bytes: &mut Vec<u8>,
    limits: &Limits,
) -> Result<(), Error> {
    let failed = |error: image::ImageError| Error::Failed { reason: format!("writing the GIF: {error}") };
    let mut encoder = GifEncoder::new(bytes);
    encoder.set_repeat(Repeat::Infinite).map_err(failed)?;
    let mut pixels = 0;
    for frame in frames {
        let frame = frame.map_err(unreadable)?;
        let delay = frame.delay();
        let image = frame.into_buffer();
        pixels += u64::from(image.width()) * u64::from(image.height());
        if pixels > limits.pixels {
            let reason = format!("its pictures have more than {} pixels in all", limits.pixels);
            return Err(Error::TooLarge { input: INPUT.to_owned(), reason });
        }
        let (width, height) = image.dimensions();
        let edges = edges(&Picture::from_image(image.into()).luma(), limits)?;
        let gray = edges.into_iter().flat_map(|is_edge| if is_edge { [255; 4] } else { [0, 0, 0, 255] });
        let Some(drawn) = RgbaImage::from_raw(width, height, gray.collect()) else { continue };
        encoder.encode_frame(Frame::from_parts(drawn, 0, 0, delay)).map_err(failed)?;
    }
    if pixels == 0 {
        return Err(Error::NotAPicture { input: INPUT.to_owned(), reason: "it has no pictures".to_owned() });
    }
    Ok(())
}

/// Which pixels are edges: where the picture changes most, in lines one pixel wide.
fn edges(luma: &Plane, limits: &Limits) -> Result<Vec<bool>, Error> {
    let smooth = luma.box_mean(1, limits)?.box_mean(1, limits)?;
    let (width, height) = (luma.width, luma.height);
    let mut slopes = Vec::with_capacity(width * height);
    for y in 0..height as isize {
        limits.check_time()?;
        let (upper, row, lower) = (smooth.row(y - 1), smooth.row(y), smooth.row(y + 1));
        for x in 0..width {
            let (left, right) = (x.saturating_sub(1), (x + 1).min(width - 1));
            let across =
                upper[right] - upper[left] + 2.0 * (row[right] - row[left]) + lower[right] - lower[left];
            let down = lower[left] - upper[left] + 2.0 * (lower[x] - upper[x]) + lower[right] - upper[right];
            slopes.push((across, down));
        }
    }
    let strength = Plane { width, height, values: slopes.iter().map(|(x, y)| x.hypot(*y)).collect() };
    let mut certain = Vec::new();
    let mut possible = vec![false; slopes.len()];
    for (at, (across, down)) in slopes.iter().enumerate() {
        let here = strength.values[at];
        if here < POSSIBLE {
            continue;
        }
        // Only the strongest across the edge, of the eight directions to the nearest neighbor.
        let step = |part: f32| if (part / here).abs() > 0.38 { part.signum() as isize } else { 0 };
        let (x, y) = ((at % width) as isize, (at / width) as isize);
        let (step_x, step_y) = (step(*across), step(*down));
        if here > strength.at(x + step_x, y + step_y) && here >= strength.at(x - step_x, y - step_y) {
            possible[at] = true;
            if here >= CERTAIN {
                certain.push(at);
            }
        }
    }
    let mut edges = vec![false; slopes.len()];
    while let Some(at) = certain.pop() {
        if std::mem::take(&mut possible[at]) {
            edges[at] = true;
            for row in [at.checked_sub(width), Some(at), Some(at + width)].into_iter().flatten() {
                certain.extend(
                    [row.wrapping_sub(1), row, row + 1].into_iter().filter(|near| *near < edges.len()),
                );
            }
        }
    }
    Ok(edges)
}
