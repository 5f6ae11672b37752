//! Super-resolution, second method: doubles the size by directional cubic convolution (Zhou, Shen and Dong,
//! 2012), which interpolates every new pixel along its edge, never across it.

use crate::memory::Need;
use crate::picture::{Picture, luma};
use crate::plane::Plane;
use crate::super_resolution::doubled;
use crate::{Error, Inputs, Limits, Model, Output};

/// The output has four times as many pixels as the input.
const NEED: Need = Need { pixel: 36, reduced_pixel: 70, least: 0 };
/// Ratio of variations from which one direction crosses an edge.
const CLEARLY: f32 = 1.15;
/// Added to both variations, so that noise is no edge. In units of the sum over a window.
const NOISE: f32 = 0.02;
/// Halo of a new pixel: in the large picture, and in the small one.
const REACH: usize = 4;
const HALO: usize = REACH;

pub(crate) struct SuperResolutionAlt;

impl Model for SuperResolutionAlt {
    fn kind(&self) -> &'static str {
        "super-resolution-alt"
    }

    fn memory(&self, pixels: u64) -> Option<u64> {
        Some(NEED.of(pixels))
    }

    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let small = Picture::read(inputs, "input_image", NEED, limits)?;
        let large = doubled(small, HALO, limits, |colors| upscaled(&colors, limits))?;
        Ok(vec![("output_image", large.into_file()?)])
    }
}

/// Doubles the colors, along the edges of their luma.
fn upscaled(colors: &[Plane; 3], limits: &Limits) -> Result<[Plane; 3], Error> {
    let [red, green, blue] = colors;
    let luma = Plane::of_pixels(colors, luma);
    let mut large = [&luma, red, green, blue].map(Padded::spaced);
    // First the pixels between four source pixels, along a diagonal; then the rest, which now have four
    // neighbors, along a row or a column.
    fill(&mut large, |y| (y % 2 == 1).then_some(1), [(1, 1), (1, -1)], limits)?;
    fill(&mut large, |y| Some(1 - y % 2), [(1, 0), (0, 1)], limits)?;
    let [_, red, green, blue] = large.map(|plane| plane.inner());
    Ok([red, green, blue])
}

struct Padded {
    width: usize,
    height: usize,
    plane: Plane,
}

impl Padded {
    /// Puts the values of a plane at the even positions of a plane twice as large.
    fn spaced(small: &Plane) -> Self {
        let (width, height) = (2 * small.width, 2 * small.height);
        let plane = Plane::filled(width + 2 * REACH, height + 2 * REACH, 0.0);
        let mut large = Self { width, height, plane };
        for (y, row) in small.rows().enumerate() {
            let start = large.index(0, 2 * y);
            let places = large.plane.values[start..start + width].iter_mut().step_by(2);
            places.zip(row).for_each(|(place, value)| *place = *value);
        }
        large.pad();
        large
    }

    fn index(&self, x: usize, y: usize) -> usize {
        (y + REACH) * self.plane.width + x + REACH
    }

    /// Fills the padding with the nearest pixel of the same parity, so that source pixels stay source pixels.
    fn pad(&mut self) {
        let (width, height) = (self.width, self.height);
        let (full_width, full_height) = (self.plane.width, self.plane.height);
        for y in 0..height {
            let start = (y + REACH) * full_width;
            let row = &mut self.plane.values[start..start + full_width];
            for x in (0..REACH).chain(REACH + width..full_width) {
                row[x] = row[REACH + nearest_alike(x, width)];
            }
        }
        for y in (0..REACH).chain(REACH + height..full_height) {
            let from = (REACH + nearest_alike(y, height)) * full_width;
            self.plane.values.copy_within(from..from + full_width, y * full_width);
        }
    }

    fn inner(&self) -> Plane {
        self.plane.cut(REACH, REACH, self.width, self.height)
    }
}

/// Returns the nearest position of the same parity within a line of even length, for `at` of the padded line.
fn nearest_alike(at: usize, length: usize) -> usize {
    if at < REACH + length { (REACH + at) % 2 } else { length - 2 + (at - REACH) % 2 }
}

type Step = (isize, isize);

/// Fills the new pixels of each row, every second one from `first`, along the direction in which the luma,
/// the first plane, changes less.
fn fill(
    planes: &mut [Padded; 4],
    first: impl Fn(usize) -> Option<usize>,
    directions: [Step; 2],
    limits: &Limits,
) -> Result<(), Error> {
    let (width, height) = (planes[0].width, planes[0].height);
    let stride = planes[0].plane.width as isize;
    // The other direction crosses the first.
    let steps = directions.map(|(x, y)| y * stride + x);
    let turned = directions.map(|(x, y)| x * stride - y);
    for y in 0..height {
        limits.check_time()?;
        let Some(first) = first(y) else { continue };
        for x in (first..width).step_by(2) {
            let at = planes[0].index(x, y);
            let [one, other] =
                [0, 1].map(|number| variation(&planes[0].plane.values, at, steps[number], turned[number]));
            let share = if one > CLEARLY * other {
                0.0
            } else if other > CLEARLY * one {
                1.0
            } else {
                let [one, other] = [one, other].map(|varies| varies.powi(5));
                other / (one + other)
            };
            for plane in &mut *planes {
                let [along_one, along_other] = steps.map(|step| cubic(&plane.plane.values, at, step));
                plane.plane.values[at] = share * along_one + (1.0 - share) * along_other;
            }
        }
    }
    planes.iter_mut().for_each(Padded::pad);
    Ok(())
}

/// Returns the variation along a line through a new pixel and along the parallel lines beside it.
fn variation(values: &[f32], at: usize, step: isize, aside: isize) -> f32 {
    let value = |offset: isize| values[at.wrapping_add_signed(offset)];
    let change = |from: isize| (value(from) - value(from + 2 * step)).abs();
    let line: f32 = [-3, -1, 1].into_iter().map(|times| change(times * step)).sum();
    let beside = |aside: isize| change(aside - 2 * step) + change(aside);
    line + beside(aside) + beside(-aside) + NOISE
}

fn cubic(values: &[f32], at: usize, step: isize) -> f32 {
    let value = |times: isize| values[at.wrapping_add_signed(times * step)];
    (9.0 * (value(-1) + value(1)) - value(-3) - value(3)) / 16.0
}
