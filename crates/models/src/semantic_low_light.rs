//! Low-light enhancement with guides: faces get the target brightness of skin, the sky stays calm, and lamps keep their
//! color. The guides are a face cascade and rules for sky and lamps, not a trained segmentation.

use crate::face_detection::{Window, faces};
use crate::low_light_enhancement::{Gain, Guides, enhance, quieted};
use crate::memory::Need;
use crate::model::{BuiltIn, Outputs};
use crate::picture::{Picture, luma};
use crate::plane::Plane;
use crate::{Error, Inputs, Limits};

const NEED: Need = Need { pixel: 14, reduced_pixel: 80, least: 0 };
/// Smallest face, as a share of the shorter side.
const SMALLEST_FACE: f64 = 1.0 / 16.0;
const SURE_OF_FACE: f64 = 0.45;
/// Goal for the brightness of skin.
const SKIN: f32 = 0.58;
/// Range of the additional gain of a face.
const FACE_FACTOR: std::ops::RangeInclusive<f32> = 0.8..=1.6;
/// Exponent of the gain of the sky.
const SKY: f32 = 0.55;
/// Maximum detail of sky, after brightening.
const CALM: f32 = 0.03;
/// Brightness of a light source in a dark picture.
const LAMP: f32 = 0.7;

pub(crate) const MODEL: BuiltIn = BuiltIn { kind: "semantic-low-light-enhancement", need: NEED, run };

fn run(inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
    let mut picture = Picture::read(inputs, "input_image", NEED, limits)?;
    let colors = picture.planes(picture.reduced_size(), limits)?;
    let gain = Gain::fit(&colors, limits)?;
    let guides = guides(colors, &gain, limits)?;
    enhance(&mut picture, &gain, Some(&guides), limits)?;
    Ok(vec![("output_image", picture.into_file()?)])
}

fn guides(colors: [Plane; 3], gain: &Gain, limits: &Limits) -> Result<Guides, Error> {
    let gains = gain.of(&colors);
    let colors = quieted(&colors, limits)?;
    let luma = Plane::of_pixels(&colors, luma);
    let power = sky(&colors, &luma, &gains, limits)?.map(|sky| 1.0 + sky * (SKY - 1.0));
    let preview = luma.zip(&gains, |luma, gain| (luma * gain).min(1.0));
    let mut factor = Plane::filled(luma.width, luma.height, 1.0);
    for face in faces(&preview, SMALLEST_FACE, SURE_OF_FACE, limits)? {
        light_face(&mut factor, &preview, face);
    }
    // Brightening a lamp would only remove its color.
    let lamp = |gain: f32, luma: f32| gain + ((luma - LAMP) / 0.2).clamp(0.0, 1.0) * (1.0 - gain).min(0.0);
    Ok(Guides { power, factor, lamp })
}

/// Returns the calm region connected to the upper border, from 0 to 1.
fn sky(colors: &[Plane; 3], luma: &Plane, gain: &Plane, limits: &Limits) -> Result<Plane, Error> {
    let (width, height) = (gain.width, gain.height);
    let radius = (width.min(height) / 60).max(1);
    // The strongest detail of any channel: hills may be as bright as the sky, but differ in color.
    let mut detail = Plane::filled(width, height, 0.0);
    for plane in colors {
        let bright = plane.zip(gain, |value, gain| (value * gain).min(1.0));
        let mean = bright.box_mean(radius, limits)?;
        let differences = bright.zip(&mean, |value, mean| (value - mean).abs()).box_mean(radius, limits)?;
        detail = detail.zip(&differences, f32::max);
    }
    let calm = |at: usize| detail.values[at] <= CALM && at / width < height * 3 / 4;
    let mut sky = Plane::filled(width, height, 0.0);
    let mut next: Vec<usize> = (0..width).filter(|at| calm(*at)).collect();
    while let Some(at) = next.pop() {
        if sky.values[at] > 0.0 {
            continue;
        }
        sky.values[at] = 1.0;
        if at % width == 0 {
            limits.check_time()?;
        }
        let beside = [(at % width > 0, at.wrapping_sub(1)), (at % width + 1 < width, at + 1)];
        let above_and_below = [(at >= width, at.wrapping_sub(width)), (at / width + 1 < height, at + width)];
        let near = beside.into_iter().chain(above_and_below).filter(|(is_there, _)| *is_there);
        next.extend(near.map(|(_, at)| at).filter(|at| calm(*at) && sky.values[*at] == 0.0));
    }
    // A narrow strip is a border; a gray region brighter than the rest is a wall.
    if sky.mean() < 0.04 || !is_night_sky(colors, luma, &sky) {
        return Ok(Plane::filled(width, height, 0.0));
    }
    // Detail begins half a window before the edge, so grow the region and soften its edge.
    let grown = sky.map(|value| -value).minimum(radius, limits)?.map(|value| -value);
    grown.box_mean(radius, limits)
}

/// Returns true if a region is blue, or darker than the picture on average.
fn is_night_sky([red, _, blue]: &[Plane; 3], luma: &Plane, region: &Plane) -> bool {
    let within = |plane: &Plane| plane.zip(region, |value, inside| value * inside).mean();
    within(blue) > 1.15 * within(red) || within(luma) / region.mean() < 0.8 * luma.mean()
}

/// Brings the center of a face to the brightness of skin, fading out around it.
fn light_face(gain: &mut Plane, preview: &Plane, face: Window) {
    let (width, height) = (gain.width, gain.height);
    let center = (face.left + face.size / 2.0, face.top + face.size / 2.0);
    let pixels = |from: f32, to: f32, size: usize| {
        (from.max(0.0) as usize).min(size)..(to.max(0.0) as usize).min(size)
    };
    let inner = face.size * 0.25;
    let (mut sum, mut count) = (0.0, 0.0_f32);
    for y in pixels(center.1 - inner, center.1 + inner, height) {
        for x in pixels(center.0 - inner, center.0 + inner, width) {
            sum += preview.values[y * width + x];
            count += 1.0;
        }
    }
    let factor = (SKIN / (sum / count.max(1.0)).max(0.05)).clamp(*FACE_FACTOR.start(), *FACE_FACTOR.end());
    let reach = face.size * 0.9;
    for y in pixels(center.1 - reach, center.1 + reach, height) {
        for x in pixels(center.0 - reach, center.0 + reach, width) {
            let (across, down) = ((x as f32 - center.0) / 0.8, y as f32 - center.1);
            let far = across.hypot(down) / face.size;
            let share = ((0.85 - far) / 0.4).clamp(0.0, 1.0);
            gain.values[y * width + x] *= factor.powf(share);
        }
    }
}
