//! Super-resolution: doubles the size by Lanczos' filter and iterative back-projection (Irani and Peleg,
//! 1991), which corrects the large picture until its reduction equals the small one.

use crate::memory::Need;
use crate::picture::{self, Picture};
use crate::plane::Plane;
use crate::{Error, Inputs, Limits, Model, Output};

/// The output has four times as many pixels as the input.
const NEED: Need = Need { pixel: 36, reduced_pixel: 85, least: 0 };
const ROUNDS: usize = 8;
/// Maximum overshoot beyond neighboring values: some is sharpness, more is a halo.
const OVERSHOOT: f32 = 0.02;
/// Taps of Lanczos' filter for a new pixel between six source pixels.
const LANCZOS: [f32; 6] = [0.007_378_3, -0.067_997_3, 0.271_010_6, 0.892_770_8, -0.133_274_6, 0.030_112_3];
/// Halo of a row: the filter, and one row per round.
const HALO: usize = LANCZOS.len() / 2 + ROUNDS;

pub(crate) struct SuperResolution;

impl Model for SuperResolution {
    fn kind(&self) -> &'static str {
        "super-resolution"
    }

    fn memory(&self, pixels: u64) -> Option<u64> {
        Some(NEED.of(pixels))
    }

    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let small = Picture::read(inputs, "input_image", NEED, limits)?;
        let large = doubled(small, HALO, limits, |planes| {
            let [red, green, blue] = planes.each_ref().map(|plane| upscaled(plane, limits));
            Ok([red?, green?, blue?])
        })?;
        Ok(vec![("output_image", large.into_file()?)])
    }
}

/// Doubles width and height. `upscale` gets strips of rows with up to `halo` more rows above and below.
pub(crate) fn doubled(
    small: Picture,
    halo: usize,
    limits: &Limits,
    upscale: impl Fn([Plane; 3]) -> Result<[Plane; 3], Error>,
) -> Result<Picture, Error> {
    let size = (2 * small.width, 2 * small.height);
    let mut colors = Vec::with_capacity(3 * size.0 * size.1);
    let rows = small.strip_rows();
    for top in (0..small.height).step_by(rows) {
        limits.check_time()?;
        let bottom = (top + rows).min(small.height);
        let first = top.saturating_sub(halo);
        let large = upscale(small.strip(first..(bottom + halo).min(small.height)))?;
        for y in 2 * (top - first)..2 * (bottom - first) {
            let row = large.each_ref().map(|plane| plane.row(y as isize));
            let start = colors.len();
            colors.resize(start + 3 * size.0, 0);
            picture::pack(&row, &mut colors[start..]);
        }
    }
    let Picture { width, height, alpha, form, .. } = small;
    let alpha =
        alpha.map(|alpha| picture::resized_bytes::<1>(&alpha, (width, height), size, limits)).transpose()?;
    Ok(Picture { width: size.0, height: size.1, colors, alpha, form })
}

fn upscaled(small: &Plane, limits: &Limits) -> Result<Plane, Error> {
    let mut large = Columns::lanczos(small, limits)?;
    let [least, most] = [f32::min, f32::max].map(|extreme| near_extreme(small, extreme));
    let mut error = Plane::filled(small.width, small.height, 0.0);
    for _ in 0..ROUNDS {
        limits.check_time()?;
        large.write_error(small, &mut error);
        large.correct(&error, &least, &most);
    }
    Ok(large.joined())
}

/// Returns the minimum or maximum of the 3×3 neighborhood of each pixel.
fn near_extreme(plane: &Plane, extreme: fn(f32, f32) -> f32) -> Plane {
    let mut result = Plane::filled(plane.width, plane.height, 0.0);
    let mut padded = Vec::new();
    for (y, row) in result.rows_mut().enumerate() {
        let y = y as isize;
        let rows = plane.row(y - 1).iter().zip(plane.row(y)).zip(plane.row(y + 1));
        pad(rows.map(|((above, here), below)| extreme(extreme(*above, *here), *below)), 1, &mut padded);
        let near = padded.iter().zip(&padded[1..]).zip(&padded[2..]);
        for (value, ((left, here), right)) in row.iter_mut().zip(near) {
            *value = extreme(extreme(*left, *here), *right);
        }
    }
    result
}

/// Writes a line with its first and last value repeated `times` times.
fn pad(line: impl Iterator<Item = f32>, times: usize, padded: &mut Vec<f32>) {
    padded.clear();
    padded.resize(times, 0.0);
    padded.extend(line);
    let (first, last) = (padded[times], padded[padded.len() - 1]);
    padded[..times].fill(first);
    padded.resize(padded.len() + times, last);
}

/// Plane of twice the width and height, with even and odd columns separate.
struct Columns {
    even: Plane,
    odd: Plane,
}

impl Columns {
    fn lanczos(small: &Plane, limits: &Limits) -> Result<Self, Error> {
        let (width, height) = (small.width, 2 * small.height);
        let mut large =
            Self { even: Plane::filled(width, height, 0.0), odd: Plane::filled(width, height, 0.0) };
        let reach = LANCZOS.len() / 2;
        let mut high = vec![0.0; width];
        let mut padded = Vec::new();
        for (y, (even, odd)) in large.even.rows_mut().zip(large.odd.rows_mut()).enumerate() {
            limits.check_time()?;
            high.fill(0.0);
            for (tap, weight) in LANCZOS.iter().enumerate() {
                // Odd rows mirror the filter of even rows.
                let step = tap as isize - reach as isize;
                let step = if y % 2 == 0 { step } else { -step };
                for (sum, value) in high.iter_mut().zip(small.row((y / 2) as isize + step)) {
                    *sum += weight * value;
                }
            }
            pad(high.iter().copied(), reach, &mut padded);
            even.fill(0.0);
            odd.fill(0.0);
            for (tap, weight) in LANCZOS.iter().enumerate() {
                let pairs = padded[tap..].iter().zip(&padded[2 * reach - tap..]);
                for ((even, odd), (left, right)) in even.iter_mut().zip(&mut *odd).zip(pairs) {
                    *even += weight * left;
                    *odd += weight * right;
                }
            }
        }
        Ok(large)
    }

    /// Writes the error: `small` minus the large plane averaged over 2×2 pixels.
    fn write_error(&self, small: &Plane, error: &mut Plane) {
        let width = small.width;
        let pairs = self.even.values.chunks_exact(2 * width).zip(self.odd.values.chunks_exact(2 * width));
        for ((row, wanted), (even, odd)) in error.rows_mut().zip(small.rows()).zip(pairs) {
            let (upper_even, lower_even) = even.split_at(width);
            let (upper_odd, lower_odd) = odd.split_at(width);
            let upper = upper_even.iter().zip(upper_odd);
            let lower = lower_even.iter().zip(lower_odd);
            for (((error, wanted), (a, b)), (c, d)) in row.iter_mut().zip(wanted).zip(upper).zip(lower) {
                *error = wanted - (a + b + c + d) / 4.0;
            }
        }
    }

    /// Adds the interpolated error, clamped to the range of the neighborhood.
    fn correct(&mut self, error: &Plane, least: &Plane, most: &Plane) {
        let mut padded = Vec::new();
        for (y, (even, odd)) in self.even.rows_mut().zip(self.odd.rows_mut()).enumerate() {
            let middle = (y / 2) as isize;
            let next = error.row(if y % 2 == 0 { middle - 1 } else { middle + 1 });
            let rows = error.row(middle).iter().zip(next);
            pad(rows.map(|(near, next)| 0.75 * near + 0.25 * next), 1, &mut padded);
            let bounds = least.row(middle).iter().zip(most.row(middle));
            let near = padded.iter().zip(&padded[1..]).zip(&padded[2..]);
            let values = even.iter_mut().zip(odd);
            for (((even, odd), ((left, here), right)), (least, most)) in values.zip(near).zip(bounds) {
                let (least, most) = (least - OVERSHOOT, most + OVERSHOOT);
                *even = (*even + 0.75 * here + 0.25 * left).max(least).min(most);
                *odd = (*odd + 0.75 * here + 0.25 * right).max(least).min(most);
            }
        }
    }

    fn joined(&self) -> Plane {
        let pairs = self.even.values.iter().zip(&self.odd.values);
        let values = pairs.flat_map(|(even, odd)| [*even, *odd]).collect();
        Plane { width: 2 * self.even.width, height: self.even.height, values }
    }
}
