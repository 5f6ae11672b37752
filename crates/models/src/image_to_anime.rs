//! Image to anime: flat colors and dark lines, after "Real-Time Video Abstraction" (Winnemöller, Olsen and
//! Gooch, 2006). Smoothing and lines are estimated at a reduced size.

use std::ops::Range;

use multiversion::multiversion;

use crate::guided::GuidedFilter;
use crate::memory::Need;
use crate::model::{BuiltIn, Outputs};
use crate::oklab;
use crate::picture::{Picture, rounded};
use crate::plane::Plane;
use crate::resample::Enlarged;
use crate::{Error, Inputs, Limits};

const NEED: Need = Need { pixel: 14, reduced_pixel: 56, least: 0 };
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
/// Darkness from which a line is as black as it gets.
const BLACKEST: f32 = -0.02;

pub(crate) const MODEL: BuiltIn = BuiltIn { kind: "image-to-anime", need: NEED, run };

fn run(inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
    let mut picture = Picture::read(inputs, "input", NEED, limits)?;
    let Drawing { smoothing, darkness } = Drawing::of(&picture, limits)?;
    let (width, height) = (picture.width, picture.height);
    let filters = smoothing.iter().flat_map(|filter| [&filter.slope, &filter.offset]);
    let mut planes = Enlarged::new(filters.chain([&darkness]).collect(), width, height);
    let (mut slope, mut offset) = (vec![0.0; width], vec![0.0; width]);
    let tones = Steps::of(0.0..1.0, toned);
    let inks = Steps::of(BLACKEST..0.0, ink);
    picture.change_rows(limits, |y, row| {
        oklab::row_from_srgb(row.each_mut().map(|values| &mut **values));
        for (channel, values) in row.iter_mut().enumerate() {
            planes.row(2 * channel, y, &mut slope);
            planes.row(2 * channel + 1, y, &mut offset);
            smooth(values, &slope, &offset, if channel == 0 { 1.0 } else { VIVIDNESS });
        }
        let darkness = &mut slope;
        planes.row(2 * SMALL.len(), y, darkness);
        draw(&mut row[0], darkness, &tones, &inks);
        oklab::row_to_shown_srgb(row.each_mut().map(|values| &mut **values));
    })?;
    Ok(vec![("output", picture.into_file()?)])
}

struct Drawing {
    /// All rounds of smoothing as one filter for each channel.
    smoothing: Vec<GuidedFilter>,
    /// Lightness of each pixel above its surroundings.
    darkness: Plane,
}

impl Drawing {
    fn of(picture: &Picture, limits: &Limits) -> Result<Self, Error> {
        let mut colors = picture.oklab(picture.reduced_size(), limits)?;
        let radius = (colors[0].width.min(colors[0].height) / 160).max(2);
        let mut smoothing = Vec::new();
        for (plane, small) in colors.iter_mut().zip(SMALL) {
            let mut whole: Option<GuidedFilter> = None;
            for _ in 0..SMOOTHINGS {
                let filter = GuidedFilter::fit_itself(plane, radius, small, limits)?;
                *plane = filter.over(plane);
                whole = Some(match whole {
                    None => filter,
                    Some(whole) => whole.then(&filter),
                });
            }
            smoothing.extend(whole);
        }
        let [lightness, ..] = colors;
        let radius = radius.div_ceil(3);
        let mut darkness = lightness.box_mean(radius, limits)?.box_mean(radius, limits)?;
        let around = darkness.box_mean(2 * radius, limits)?.box_mean(2 * radius, limits)?;
        darkness.change(&around, |near, around| near - around + LINE);
        Ok(Self { smoothing, darkness })
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn smooth(values: &mut [f32], slope: &[f32], offset: &[f32], vividness: f32) {
    for (value, (slope, offset)) in values.iter_mut().zip(slope.iter().zip(offset)) {
        *value = vividness * (slope * *value + offset);
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn draw(lightness: &mut [f32], darkness: &[f32], tones: &Steps, inks: &Steps) {
    for (lightness, darkness) in lightness.iter_mut().zip(darkness) {
        *lightness = tones.at(*lightness) * inks.at(*darkness);
    }
}

/// Function of a number as a table, constant outside its range.
struct Steps {
    values: [f32; Self::COUNT + 1],
    start: f32,
    scale: f32,
}

impl Steps {
    const COUNT: usize = 4096;

    fn of(range: Range<f32>, function: fn(f32) -> f32) -> Self {
        let scale = Self::COUNT as f32 / (range.end - range.start);
        let values = std::array::from_fn(|at| function(range.start + at as f32 / scale));
        Self { values, start: range.start, scale }
    }

    #[inline(always)]
    fn at(&self, value: f32) -> f32 {
        let place = (value - self.start) * self.scale;
        self.values[rounded(place, Self::COUNT as f32).min(Self::COUNT)]
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
