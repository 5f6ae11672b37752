//! Diagram of the hues: a wheel before and one after, with the histogram of the hues and the sectors of the template.

use crate::decode::FileFormat;
use crate::oklab;
use crate::picture::{Picture, to_byte};
use crate::template::{Histogram, Turned};
use crate::{Error, Limits, Output};

/// Height of the diagram; its width is twice as large.
const SIZE: usize = 256;
/// Radii of the ring and of the bars, as shares of half the height.
const RING: std::ops::Range<f32> = 0.84..0.96;
const BARS: std::ops::Range<f32> = 0.15..0.8;
const PAPER: [f32; 3] = [1.0, 1.0, 1.0];
const SECTOR: [f32; 3] = [0.86, 0.86, 0.88];
/// Supersampling factor per axis.
const FINE: usize = 2;

pub(crate) fn before_and_after(
    before: &Histogram,
    after: &Histogram,
    template: &Turned,
    limits: &Limits,
) -> Result<Output, Error> {
    let (before, after) = (bars(before), bars(after));
    let mut bytes = Vec::with_capacity(2 * SIZE * SIZE * 3);
    for y in 0..SIZE {
        limits.check_time()?;
        for x in 0..2 * SIZE {
            let bars = if x < SIZE { &before } else { &after };
            let mut sum = [0.0; 3];
            for part in 0..FINE * FINE {
                let place = |at: usize, part: usize| {
                    (at as f32 + (part as f32 + 0.5) / FINE as f32) * 2.0 / SIZE as f32 - 1.0
                };
                let color = color_at(place(x % SIZE, part % FINE), place(y, part / FINE), bars, template);
                for (sum, value) in sum.iter_mut().zip(color) {
                    *sum += value / (FINE * FINE) as f32;
                }
            }
            bytes.extend(sum.map(to_byte));
        }
    }
    Picture { width: 2 * SIZE, height: SIZE, colors: bytes, alpha: None, form: FileFormat::default() }
        .into_file()
}

/// Returns the bar length of each hue, from 0 to 1: a square root keeps rare hues visible, a minimum width single ones.
fn bars(hues: &Histogram) -> Histogram {
    let longest = hues.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    std::array::from_fn(|hue| {
        let near = [359, 0, 1].map(|step| hues[(hue + step) % 360]);
        (near.into_iter().fold(0.0, f32::max) / longest).sqrt()
    })
}

/// Returns the color at a point of a wheel; coordinates run from -1 to 1, hues clockwise.
fn color_at(x: f32, y: f32, bars: &Histogram, template: &Turned) -> [f32; 3] {
    let radius = x.hypot(y);
    let hue = y.atan2(x).to_degrees().rem_euclid(360.0);
    let bar = bars.get(hue as usize).copied().unwrap_or(0.0);
    let end = BARS.start + bar * (BARS.end - BARS.start);
    if RING.contains(&radius) || (bar > 0.0 && (BARS.start..end).contains(&radius)) {
        let (sin, cos) = hue.to_radians().sin_cos();
        return oklab::to_srgb([0.72, 0.125 * cos, 0.125 * sin]);
    }
    if radius < RING.start && template.contains(hue) { SECTOR } else { PAPER }
}
