//! One channel of a picture in floating point, and common filters.

use multiversion::multiversion;

use crate::resample::resample;
use crate::{Error, Limits};

/// One channel: a value for every pixel, row by row. Colors are from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plane {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) values: Vec<f32>,
}

impl Plane {
    pub(crate) fn filled(width: usize, height: usize, value: f32) -> Self {
        Self { width, height, values: vec![value; width * height] }
    }

    pub(crate) fn of_pixels(colors: &[Self; 3], value: impl FnMut([f32; 3]) -> f32) -> Self {
        let values = pixels(colors).map(value).collect();
        Self { width: colors[0].width, height: colors[0].height, values }
    }

    pub(crate) fn map(&self, function: impl Fn(f32) -> f32) -> Self {
        let values = self.values.iter().map(|value| function(*value)).collect();
        Self { width: self.width, height: self.height, values }
    }

    pub(crate) fn zip(&self, other: &Self, function: impl Fn(f32, f32) -> f32) -> Self {
        let values = self.values.iter().zip(&other.values).map(|(a, b)| function(*a, *b)).collect();
        Self { width: self.width, height: self.height, values }
    }

    pub(crate) fn change(&mut self, other: &Self, function: impl Fn(f32, f32) -> f32) {
        for (value, other) in self.values.iter_mut().zip(&other.values) {
            *value = function(*value, *other);
        }
    }

    pub(crate) fn mean(&self) -> f32 {
        let sum: f64 = self.values.iter().map(|value| f64::from(*value)).sum();
        (sum / self.values.len().max(1) as f64) as f32
    }

    pub(crate) fn rows(&self) -> impl DoubleEndedIterator<Item = &[f32]> {
        self.values.chunks_exact(self.width)
    }

    pub(crate) fn rows_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut [f32]> {
        self.values.chunks_exact_mut(self.width)
    }

    /// Returns the row at `y`, clamped.
    pub(crate) fn row(&self, y: isize) -> &[f32] {
        let start = clamp(y, self.height) * self.width;
        &self.values[start..start + self.width]
    }

    pub(crate) fn at(&self, x: isize, y: isize) -> f32 {
        self.row(y)[clamp(x, self.width)]
    }

    fn transposed(&self) -> Self {
        /// Block size that fits into the cache.
        const BLOCK: usize = 32;
        let mut turned = Self::filled(self.height, self.width, 0.0);
        for top in (0..self.height).step_by(BLOCK) {
            for left in (0..self.width).step_by(BLOCK) {
                for y in top..(top + BLOCK).min(self.height) {
                    for x in left..(left + BLOCK).min(self.width) {
                        turned.values[x * self.height + y] = self.values[y * self.width + x];
                    }
                }
            }
        }
        turned
    }

    pub(crate) fn resized(&self, width: usize, height: usize, limits: &Limits) -> Result<Self, Error> {
        if (self.width, self.height) == (width, height) {
            return Ok(self.clone());
        }
        let mut values = Vec::with_capacity(width * height);
        let add_row = |y: usize, weight: f32, sums: &mut [f32]| {
            add(self.row(y as isize), weight, sums);
        };
        let put = |row: &[f32]| values.extend_from_slice(row);
        let lengths = (self.width as f64, self.height as f64);
        resample::<1>((self.width, self.height), lengths, (width, height), limits, add_row, put)?;
        Ok(Self { width, height, values })
    }

    pub(crate) fn cut(&self, left: usize, top: usize, width: usize, height: usize) -> Self {
        let rows = self.rows().skip(top).take(height);
        Self { width, height, values: rows.flat_map(|row| &row[left..left + width]).copied().collect() }
    }

    /// Applies a one-dimensional filter to the rows and then to the columns.
    fn separable(&self, limits: &Limits, mut filter: impl FnMut(&[f32], &mut [f32])) -> Result<Self, Error> {
        let mut pass = |source: &Self| {
            let mut result = Self::filled(source.width, source.height, 0.0);
            for (from, to) in source.rows().zip(result.rows_mut()) {
                limits.check_time()?;
                filter(from, to);
            }
            Ok(result)
        };
        let rows_done = pass(self)?.transposed();
        Ok(pass(&rows_done)?.transposed())
    }

    /// Returns the mean of the square of `2 * radius + 1` around every pixel, within the picture.
    pub(crate) fn box_mean(&self, radius: usize, limits: &Limits) -> Result<Self, Error> {
        let (width, height) = (self.width, self.height);
        let count = |at: usize, length: usize| (at + radius + 1).min(length) - at.saturating_sub(radius);
        let shares: Vec<f64> = (0..width).map(|x| 1.0 / count(x, width) as f64).collect();
        // Double precision: single precision would drift along a long line. Zeros around it are beyond the picture.
        let mut padded = vec![0.0_f64; width + 2 * radius + 1];
        let inner = radius + 1..radius + 1 + width;
        // Differences of successive sums: only one addition waits for the one before.
        let mut changes = vec![0.0; width];
        let mut means = Self::filled(width, height, 0.0);
        for y in 0..radius.min(height) {
            sum_values(self.row(y as isize), 1.0, &mut padded[inner.clone()]);
        }
        for (y, row) in means.rows_mut().enumerate() {
            limits.check_time()?;
            if y + radius < height {
                sum_values(self.row((y + radius) as isize), 1.0, &mut padded[inner.clone()]);
            }
            if y > radius {
                sum_values(self.row((y - radius - 1) as isize), -1.0, &mut padded[inner.clone()]);
            }
            let share = 1.0 / count(y, height) as f64;
            write_differences(&padded[2 * radius + 1..], &padded[..width], &mut changes);
            let mut sum: f64 = padded[inner.start..inner.start + radius.min(width)].iter().sum();
            for change in &mut changes {
                sum += *change;
                *change = sum;
            }
            write_scaled(&changes, &shares, share, row);
        }
        Ok(means)
    }

    /// Returns the minimum of the square of `2 * radius + 1` around every pixel, in constant time per pixel (van Herk).
    pub(crate) fn minimum(&self, radius: usize, limits: &Limits) -> Result<Self, Error> {
        let window = 2 * radius + 1;
        let (mut padded, mut forward, mut backward) = (Vec::new(), Vec::new(), Vec::new());
        self.separable(limits, |from, to| {
            padded.clear();
            padded.resize(radius, f32::INFINITY);
            padded.extend_from_slice(from);
            padded.resize((from.len() + 2 * radius).next_multiple_of(window), f32::INFINITY);
            forward.clone_from(&padded);
            backward.clone_from(&padded);
            for block in forward.chunks_exact_mut(window) {
                for at in 1..window {
                    block[at] = block[at].min(block[at - 1]);
                }
            }
            for block in backward.chunks_exact_mut(window) {
                for at in (1..window).rev() {
                    block[at - 1] = block[at - 1].min(block[at]);
                }
            }
            let ends = forward.iter().skip(window - 1);
            for ((smallest, start), end) in to.iter_mut().zip(&backward).zip(ends) {
                *smallest = start.min(*end);
            }
        })
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn add(values: &[f32], weight: f32, sums: &mut [f32]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += weight * value;
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn sum_values(values: &[f32], sign: f64, sums: &mut [f64]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += sign * f64::from(*value);
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn write_differences(ones: &[f64], others: &[f64], differences: &mut [f64]) {
    for (difference, (one, other)) in differences.iter_mut().zip(ones.iter().zip(others)) {
        *difference = one - other;
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn write_scaled(sums: &[f64], shares: &[f64], share: f64, means: &mut [f32]) {
    for (mean, (sum, own)) in means.iter_mut().zip(sums.iter().zip(shares)) {
        *mean = (sum * (share * own)) as f32;
    }
}

pub(crate) fn pixels([red, green, blue]: &[Plane; 3]) -> impl Iterator<Item = [f32; 3]> {
    red.values.iter().zip(&green.values).zip(&blue.values).map(|((red, green), blue)| [*red, *green, *blue])
}

pub(crate) fn clamp(at: isize, length: usize) -> usize {
    usize::try_from(at).unwrap_or(0).min(length.saturating_sub(1))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn ramp(width: usize, height: usize) -> Plane {
        let values = (0..width * height).map(|at| ((at * 7919) % 101) as f32 / 100.0).collect();
        Plane { width, height, values }
    }

    fn by_definition(plane: &Plane, radius: usize, fold: impl Fn(&[f32]) -> f32) -> Vec<f32> {
        let (width, height) = (plane.width, plane.height);
        let mut result = Vec::new();
        for y in 0..height {
            for x in 0..width {
                let mut window = Vec::new();
                for near in y.saturating_sub(radius)..(y + radius + 1).min(height) {
                    let row = plane.row(near as isize);
                    window.extend_from_slice(&row[x.saturating_sub(radius)..(x + radius + 1).min(width)]);
                }
                result.push(fold(&window));
            }
        }
        result
    }

    #[test]
    fn fast_filters_give_what_their_definitions_say() {
        let limits = Limits::default();
        for (width, height, radius) in [(1, 1, 3), (7, 5, 2), (40, 33, 4), (3, 50, 8), (9, 9, 0)] {
            let plane = ramp(width, height);
            let smallest = |window: &[f32]| window.iter().copied().fold(f32::INFINITY, f32::min);
            let mean = |window: &[f32]| window.iter().sum::<f32>() / window.len() as f32;
            let minimum = plane.minimum(radius, &limits).unwrap();
            assert_eq!(minimum.values, by_definition(&plane, radius, smallest));
            let means = plane.box_mean(radius, &limits).unwrap();
            for (fast, slow) in means.values.iter().zip(by_definition(&plane, radius, mean)) {
                assert!((fast - slow).abs() < 1e-5, "{fast} is not {slow}");
            }
        }
    }
}
