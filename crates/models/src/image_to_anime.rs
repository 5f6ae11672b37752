//! Image to anime: flat colors and dark lines, after "Real-Time Video Abstraction" (Winnemöller, Olsen and
//! Gooch, 2006). Smoothing and lines are estimated at a reduced size.

use crate::guided::GuidedFilter;
use crate::memory::Need;
use crate::oklab;
use crate::picture::{Picture, Row};
use crate::plane::Plane;
use crate::resample::Enlarged;
use crate::{Error, Inputs, Limits, Model, Output};

const NEED: Need = Need { pixel: 14, reduced_pixel: 130, least: 0 };
const SMOOTHINGS: usize = 3;
/// Squared differences that are smoothed away: of lightness, and of both colors.
const SMALL: [f32; 3] = [3e-3, 3e-4, 3e-4];
/// Number of lightness steps, and their sharpness.
const TONES: f32 = 9.0;
const HARDNESS: f32 = 3.0;
const VIVIDNESS: f32 = 1.3;
/// Darkness of a line relative to its surroundings, and the sharpness of its edge.
const LINE: f32 = 0.015;
const LINE_HARDNESS: f32 = 60.0;

pub(crate) struct ImageToAnime;

impl Model for ImageToAnime {
    fn kind(&self) -> &'static str {
        "image-to-anime"
    }

    fn memory(&self, pixels: u64) -> Option<u64> {
        Some(NEED.of(pixels))
    }

    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let mut picture = Picture::read(inputs, "input", NEED, limits)?;
        let drawing = Drawing::of(&picture, limits)?;
        let (width, height) = (picture.width, picture.height);
        let lines = drawing.smoothings.iter().flatten().flat_map(|filter| [&filter.slope, &filter.offset]);
        let mut planes = Enlarged::new(lines.chain([&drawing.darkness]).collect(), width, height);
        let (mut slope, mut offset) = (vec![0.0; width], vec![0.0; width]);
        picture.change_rows(limits, |y, row| {
            change_pixels(row, oklab::from_srgb);
            for round in 0..SMOOTHINGS {
                for (channel, values) in row.iter_mut().enumerate() {
                    let number = 2 * (round * SMALL.len() + channel);
                    planes.row(number, y, &mut slope);
                    planes.row(number + 1, y, &mut offset);
                    for (value, (slope, offset)) in values.iter_mut().zip(slope.iter().zip(&offset)) {
                        *value = slope * *value + offset;
                    }
                }
            }
            planes.row(2 * SMOOTHINGS * SMALL.len(), y, &mut slope);
            for (lightness, darkness) in row[0].iter_mut().zip(&slope) {
                *lightness = toned(*lightness) * ink(*darkness);
            }
            change_pixels(row, |[lightness, a, b]| {
                oklab::to_shown_srgb([lightness, a * VIVIDNESS, b * VIVIDNESS])
            });
        })?;
        Ok(vec![("output", picture.into_file()?)])
    }
}

fn change_pixels([red, green, blue]: &mut Row, change: impl Fn([f32; 3]) -> [f32; 3]) {
    for ((red, green), blue) in red.iter_mut().zip(green).zip(blue) {
        [*red, *green, *blue] = change([*red, *green, *blue]);
    }
}

struct Drawing {
    /// Filters of each round and channel.
    smoothings: Vec<Vec<GuidedFilter>>,
    /// Lightness of each pixel above its surroundings.
    darkness: Plane,
}

impl Drawing {
    fn of(picture: &Picture, limits: &Limits) -> Result<Self, Error> {
        let mut colors = picture.oklab(picture.reduced_size(), limits)?;
        let radius = (colors[0].width.min(colors[0].height) / 160).max(2);
        let mut smoothings = Vec::new();
        for _ in 0..SMOOTHINGS {
            let mut round = Vec::new();
            for (plane, small) in colors.iter_mut().zip(SMALL) {
                let filter = GuidedFilter::fit(plane, plane, radius, small, limits)?;
                *plane = filter.over(plane);
                round.push(filter);
            }
            smoothings.push(round);
        }
        let [lightness, ..] = colors;
        let radius = radius.div_ceil(3);
        let mut darkness = lightness.box_mean(radius, limits)?.box_mean(radius, limits)?;
        let around = darkness.box_mean(2 * radius, limits)?.box_mean(2 * radius, limits)?;
        darkness.change(&around, |near, around| near - around + LINE);
        Ok(Self { smoothings, darkness })
    }
}

/// Quantizes lightness, with soft transitions.
fn toned(lightness: f32) -> f32 {
    let step = (lightness * TONES).round();
    (step + 0.5 * (HARDNESS * (lightness * TONES - step)).tanh()) / TONES
}

/// Returns the share of the paper that shows: less where a pixel is darker than its surroundings.
fn ink(darkness: f32) -> f32 {
    if darkness >= 0.0 { 1.0 } else { (1.0 + (LINE_HARDNESS * darkness).tanh()).max(0.25) }
}
