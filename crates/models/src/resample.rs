//! Resampling row by row: Lanczos' filter, which neither blurs nor aliases, and linear enlargement of reduced planes.

use multiversion::multiversion;

use crate::plane::Plane;
use crate::{Error, Limits};

/// Filter taps of each new pixel of a line: the first source pixel, and the weights.
struct Taps {
    firsts: Vec<usize>,
    count: usize,
    weights: Vec<f32>,
}

impl Taps {
    /// Makes the taps of a line of `from` pixels, the last of which ends at `length`.
    fn new(from: usize, length: f64, to: usize) -> Self {
        let ratio = length / to as f64;
        let scale = ratio.max(1.0);
        let reach = 3.0 * scale;
        let count = (2 * reach.ceil() as usize + 2).min(from);
        let mut firsts = Vec::with_capacity(to);
        let mut weights = Vec::with_capacity(to * count);
        for at in 0..to {
            let center = (at as f64 + 0.5) * ratio;
            let first = ((center - reach).floor().max(0.0) as usize).min(from - count);
            let own: Vec<f64> =
                (first..first + count).map(|near| lanczos((near as f64 + 0.5 - center) / scale)).collect();
            let sum: f64 = own.iter().sum();
            firsts.push(first);
            weights.extend(own.iter().map(|weight| (weight / sum) as f32));
        }
        Self { firsts, count, weights }
    }

    fn of(&self, at: usize) -> (usize, &[f32]) {
        (self.firsts[at], &self.weights[at * self.count..(at + 1) * self.count])
    }

    fn weigh<const CHANNELS: usize>(&self, line: &[f32], new: &mut [f32]) {
        for (at, pixel) in new.as_chunks_mut::<CHANNELS>().0.iter_mut().enumerate() {
            let (first, weights) = self.of(at);
            let near = line[first * CHANNELS..(first + self.count) * CHANNELS].as_chunks::<CHANNELS>().0;
            // Several sums of each channel do not wait for each other.
            let mut sums = [[0.0; CHANNELS]; 4];
            let (near, last) = near.as_chunks::<4>();
            let (weights, last_weights) = weights.as_chunks::<4>();
            for (near, weights) in near.iter().zip(weights) {
                for ((sum, values), weight) in sums.iter_mut().zip(near).zip(weights) {
                    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
                }
            }
            for ((sum, values), weight) in sums.iter_mut().zip(last).zip(last_weights) {
                sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
            }
            *pixel = std::array::from_fn(|channel| sums.iter().map(|sum| sum[channel]).sum());
        }
    }
}

fn lanczos(x: f64) -> f64 {
    let sinc =
        |x: f64| if x == 0.0 { 1.0 } else { (x * std::f64::consts::PI).sin() / (x * std::f64::consts::PI) };
    if x.abs() < 3.0 { sinc(x) * sinc(x / 3.0) } else { 0.0 }
}

/// Calls `put` with each row of the picture at another size. `add` adds a source row times a weight; a pixel
/// has `CHANNELS` adjacent values, and the last pixels end at `lengths`.
pub(crate) fn resample<const CHANNELS: usize>(
    from: (usize, usize),
    lengths: (f64, f64),
    to: (usize, usize),
    limits: &Limits,
    add: impl Fn(usize, f32, &mut [f32]),
    mut put: impl FnMut(&[f32]),
) -> Result<(), Error> {
    let columns = Taps::new(from.0, lengths.0, to.0);
    let rows = Taps::new(from.1, lengths.1, to.1);
    let mut high = vec![0.0; from.0 * CHANNELS];
    let mut row = vec![0.0; to.0 * CHANNELS];
    for y in 0..to.1 {
        limits.check_time()?;
        high.fill(0.0);
        let (first, weights) = rows.of(y);
        for (near, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
            add(first + near, *weight, &mut high);
        }
        columns.weigh::<CHANNELS>(&high, &mut row);
        put(&row);
    }
    Ok(())
}

/// Planes of a reduced size, enlarged linearly and read row by row.
pub(crate) struct Enlarged<'a> {
    planes: Vec<&'a Plane>,
    height: usize,
    /// First pixel of a row that is right of each source pixel, and the end of the row.
    starts: Vec<usize>,
    /// Weight of the source pixel to the right, for each pixel of a row.
    shares: Vec<f32>,
    mixed: Vec<f32>,
    /// Row with room for a whole group of pixels at its end.
    wide: Vec<f32>,
}

impl<'a> Enlarged<'a> {
    pub(crate) fn new(planes: Vec<&'a Plane>, width: usize, height: usize) -> Self {
        let small = planes.first().map_or(1, |plane| plane.width);
        let columns: Vec<(usize, f32)> = (0..width).map(|x| between(x, small, width)).collect();
        let start = |source: usize| columns.partition_point(|(left, _)| *left < source);
        let starts = (0..=small).map(start).collect();
        let mut shares: Vec<f32> = columns.iter().map(|(_, share)| *share).collect();
        shares.resize(width + GROUP, 0.0);
        let (mixed, wide) = (vec![0.0; small + 1], vec![0.0; width + GROUP]);
        Self { planes, height, starts, shares, mixed, wide }
    }

    pub(crate) fn row(&mut self, number: usize, y: usize, into: &mut [f32]) {
        let plane = self.planes[number];
        if (plane.width, plane.height) == (into.len(), self.height) {
            return into.copy_from_slice(plane.row(y as isize));
        }
        let (above, share) = between(y, plane.height, self.height);
        let rows = [above, above + 1].map(|y| plane.row(y as isize));
        mix_rows(rows, share, &mut self.mixed);
        self.mixed[plane.width] = self.mixed[plane.width - 1];
        enlarge(&self.mixed, &self.starts, &self.shares, &mut self.wide);
        into.copy_from_slice(&self.wide[..into.len()]);
    }
}

/// Pixels that are computed at once.
const GROUP: usize = 8;

#[multiversion(targets("x86_64+avx2"))]
fn mix_rows([above, below]: [&[f32]; 2], share: f32, mixed: &mut [f32]) {
    for (mixed, (above, below)) in mixed.iter_mut().zip(above.iter().zip(below)) {
        *mixed = above + share * (below - above);
    }
}

/// Writes the pixels between each pair of source pixels, and a few beyond, which the next pair overwrites.
#[multiversion(targets("x86_64+avx2"))]
fn enlarge(mixed: &[f32], starts: &[usize], shares: &[f32], wide: &mut [f32]) {
    for (pair, run) in mixed.array_windows::<2>().zip(starts.array_windows::<2>()) {
        let (left, change) = (pair[0], pair[1] - pair[0]);
        let mut start = run[0];
        while start < run[1] {
            let group = wide[start..].first_chunk_mut::<GROUP>();
            let shares = shares[start..].first_chunk::<GROUP>();
            if let (Some(group), Some(shares)) = (group, shares) {
                *group = shares.map(|share| left + share * change);
            }
            start += GROUP;
        }
    }
}

/// Returns the source position of a pixel, as index and fraction.
fn between(at: usize, short: usize, long: usize) -> (usize, f32) {
    let place = ((at as f64 + 0.5) * short as f64 / long as f64 - 0.5).clamp(0.0, short as f64 - 1.0);
    (place as usize, place.fract() as f32)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_slope_stays_one_at_every_size() {
        let slope = |width: usize, height: usize| {
            let value = |at: usize| ((at % width) as f32 + 0.5) / width as f32;
            Plane { width, height, values: (0..width * height).map(value).collect() }
        };
        for (from, to) in [((40, 30), (80, 60)), ((90, 7), (31, 50)), ((64, 64), (64, 64))] {
            let small = slope(from.0, from.1);
            let large = small.resized(to.0, to.1, &Limits::default()).unwrap();
            let mut linear = Plane::filled(to.0, to.1, 0.0);
            let mut enlarged = Enlarged::new(vec![&small], to.0, to.1);
            for (y, row) in linear.rows_mut().enumerate() {
                enlarged.row(0, y, row);
            }
            for (x, wanted) in slope(to.0, to.1).row(0).iter().enumerate().take(to.0 - 6).skip(6) {
                let is = [large.row(3)[x], linear.row(3)[x]];
                assert!(is.iter().all(|is| (is - wanted).abs() < 0.012), "{from:?} to {to:?}: {is:?} at {x}");
            }
        }
    }
}
