//! Video to edge map: Canny edges (1986) of every frame of an animated GIF or WebP, white on black, as an
//! animated GIF. A still picture is a video of one frame; other formats are rejected.

use std::io::Cursor;
use std::time::Duration;

use gif::{Encoder, Repeat};
use image::codecs::gif::GifDecoder;
use image::codecs::webp::WebPDecoder;
use image::{AnimationDecoder, Delay, DynamicImage, Frames, ImageDecoder, ImageFormat, ImageResult};

use crate::decode;
use crate::memory::{Need, held};
use crate::model::{BuiltIn, Outputs};
use crate::picture::Picture;
use crate::plane::Plane;
use crate::{Error, Inputs, Limits, Output};

const INPUT: &str = "input";
/// For one frame.
const NEED: Need = Need { pixel: 24, reduced_pixel: 2, least: 0 };
/// Limit of GIF on a side, in pixels.
const MAX_SIDE: u32 = 65_535;
/// Milliseconds for which a still picture is shown.
const STILL_MS: u32 = 100;
/// Black, and white for edges.
const PALETTE: [u8; 6] = [0, 0, 0, 255, 255, 255];
/// Hysteresis thresholds: an edge exceeds the first somewhere and the second everywhere.
const CERTAIN: f32 = 0.32;
const POSSIBLE: f32 = 0.14;

pub(crate) const MODEL: BuiltIn = BuiltIn { kind: "video-edge-map", need: NEED, run };

fn run(inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
    let bytes = inputs.file(INPUT)?;
    if image::guess_format(bytes).is_err() {
        let reason =
            "its format cannot be decoded, such as that of MP4 or WebM; send an animated GIF or WebP";
        return Err(Error::Unusable { input: INPUT.to_owned(), reason: reason.to_owned() });
    }
    decode::check_sides(inputs, INPUT, MAX_SIDE, limits)?;
    // Check the first frame like any picture before reading an animation.
    let (first, _) = decode::decode(inputs, INPUT, NEED, limits)?;
    let size = [first.width(), first.height()];
    let mut bytes_out = Vec::new();
    match frames(inputs, bytes) {
        Some(frames) => {
            drop(first);
            let frames = frames.map_err(unreadable)?;
            let frames = frames.map(|frame| frame.map(|frame| (frame.delay(), frame.into_buffer().into())));
            encode(frames, size, &mut bytes_out, limits)?;
        }
        None => encode(
            std::iter::once(Ok((Delay::from_numer_denom_ms(STILL_MS, 1), first))),
            size,
            &mut bytes_out,
            limits,
        )?,
    }
    Ok(vec![("output", Output::File { bytes: bytes_out, mime: "image/gif", extension: "gif" })])
}

/// Returns the frames of an animation one by one. `None` for other files.
fn frames<'a>(inputs: &Inputs, bytes: &'a [u8]) -> Option<ImageResult<Frames<'a>>> {
    match image::guess_format(bytes).ok()? {
        ImageFormat::Gif => Some(GifDecoder::new(Cursor::new(bytes)).and_then(|mut decoder| {
            let needed = NEED.of(decode::pixels(&decoder)).saturating_add(held(inputs, bytes));
            decoder.set_limits(decode::allocations(needed))?;
            Ok(decoder.into_frames())
        })),
        ImageFormat::WebP => match WebPDecoder::new(Cursor::new(bytes)) {
            Ok(decoder) => decoder.has_animation().then(|| Ok(decoder.into_frames())),
            Err(error) => Some(Err(error)),
        },
        _ => None,
    }
}

fn unreadable(error: image::ImageError) -> Error {
    decode::unreadable(INPUT, error)
}

fn encode(
    frames: impl Iterator<Item = ImageResult<(Delay, DynamicImage)>>,
    size: [u32; 2],
    bytes: &mut Vec<u8>,
    limits: &Limits,
) -> Result<(), Error> {
    let failed = |error: gif::EncodingError| Error::Failed { reason: format!("writing the GIF: {error}") };
    // `check_sides` has rejected larger ones.
    let [width, height] = size.map(|side| side as u16);
    let mut encoder = Encoder::new(bytes, width, height, &PALETTE).map_err(failed)?;
    encoder.set_repeat(Repeat::Infinite).map_err(failed)?;
    let mut pixels = 0;
    for frame in frames {
        let (delay, image) = frame.map_err(unreadable)?;
        pixels += u64::from(image.width()) * u64::from(image.height());
        if pixels > limits.pixels {
            let most = limits.pixels as f64 / 1e6;
            let reason = format!(
                "its pictures have more than {most} megapixels in all; send a shorter or smaller one"
            );
            return Err(Error::TooLarge { input: INPUT.to_owned(), reason });
        }
        let [width, height] = [image.width(), image.height()];
        let picture = Picture::from_image(image);
        let luma = picture.luma((picture.width, picture.height), limits)?;
        drop(picture);
        let edges = edges(luma, limits)?;
        let drawn = gif::Frame {
            width: width as u16,
            height: height as u16,
            // In hundredths of a second.
            delay: (Duration::from(delay).as_millis() / 10).try_into().unwrap_or(u16::MAX),
            buffer: edges.into_iter().map(u8::from).collect(),
            ..gif::Frame::default()
        };
        encoder.write_frame(&drawn).map_err(failed)?;
    }
    if pixels == 0 {
        return Err(Error::NotAPicture { input: INPUT.to_owned(), reason: "it has no pictures".to_owned() });
    }
    Ok(())
}

/// Returns the edge pixels, in lines one pixel wide.
fn edges(luma: Plane, limits: &Limits) -> Result<Vec<bool>, Error> {
    let smooth = luma.box_mean(1, limits)?;
    drop(luma);
    let smooth = smooth.box_mean(1, limits)?;
    let (width, height) = (smooth.width, smooth.height);
    let mut strength = Plane::filled(width, height, 0.0);
    // Direction across the edge at each pixel, towards one of eight neighbors.
    let mut steps = vec![(0_i8, 0_i8); width * height];
    for (y, (strengths, steps)) in strength.rows_mut().zip(steps.chunks_exact_mut(width)).enumerate() {
        limits.check_time()?;
        let y = y as isize;
        let (upper, row, lower) = (smooth.row(y - 1), smooth.row(y), smooth.row(y + 1));
        for (x, (strength, step)) in strengths.iter_mut().zip(steps).enumerate() {
            let (left, right) = (x.saturating_sub(1), (x + 1).min(width - 1));
            let across =
                upper[right] - upper[left] + 2.0 * (row[right] - row[left]) + lower[right] - lower[left];
            let down = lower[left] - upper[left] + 2.0 * (lower[x] - upper[x]) + lower[right] - upper[right];
            *strength = (across * across + down * down).sqrt();
            let part = |part: f32| if (part / *strength).abs() > 0.38 { part.signum() as i8 } else { 0 };
            *step = (part(across), part(down));
        }
    }
    drop(smooth);
    let mut certain = Vec::new();
    let mut possible = vec![false; steps.len()];
    for (at, (across, down)) in steps.into_iter().enumerate() {
        let here = strength.values[at];
        if here < POSSIBLE {
            continue;
        }
        // Non-maximum suppression: only the strongest pixel across the edge.
        let (x, y) = ((at % width) as isize, (at / width) as isize);
        let (across, down) = (isize::from(across), isize::from(down));
        if here > strength.at(x + across, y + down) && here >= strength.at(x - across, y - down) {
            possible[at] = true;
            if here >= CERTAIN {
                certain.push(at);
            }
        }
    }
    drop(strength);
    let mut edges = vec![false; possible.len()];
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
