//! Random walk that stops at edges (Grady, 2005), by successive over-relaxation.

use multiversion::multiversion;

use crate::color_model::{Color, squared_distance};
use crate::plane::Plane;
use crate::{Error, Limits};

const SWEEPS: usize = 120;
/// Factor above 1 of successive over-relaxation, for faster convergence.
const OVERRELAXATION: f32 = 1.85;
/// Weight of a pixel's own guess against its neighbors.
const TRUST: f32 = 0.04;

/// Weights of the guess and of the neighbors of each pixel, which sum to 1.
pub(crate) struct RandomWalk {
    width: usize,
    height: usize,
    guess: [Half; 2],
    /// Neighbors to the left, to the right, above and below.
    near: [[Half; 2]; 4],
}

/// Even or odd columns of a plane with a margin of zeros, so that neighboring values are used together.
#[derive(Clone)]
struct Half {
    stride: usize,
    values: Vec<f32>,
}

impl Half {
    fn new(width: usize, height: usize) -> Self {
        let stride = width.div_ceil(2) + 2;
        Self { stride, values: vec![0.0; stride * (height + 2)] }
    }

    fn start(&self, y: usize) -> usize {
        (y + 1) * self.stride + 1
    }

    fn row(&self, y: usize) -> &[f32] {
        &self.values[self.start(y)..self.start(y + 1) - 2]
    }
}

fn halves(width: usize, height: usize, value: impl Fn(usize) -> f32) -> [Half; 2] {
    let mut halves = [Half::new(width, height), Half::new(width, height)];
    for at in 0..width * height {
        let (x, y) = (at % width, at / width);
        let half = &mut halves[x % 2];
        let place = half.start(y) + x / 2;
        half.values[place] = value(at);
    }
    halves
}

impl RandomWalk {
    pub(crate) fn of(colors: &[Color], width: usize, height: usize) -> Self {
        let has_right = |at: usize| at % width + 1 < width;
        let has_below = |at: usize| at / width + 1 < height;
        let step = |at: usize, other: usize| squared_distance(colors[at], colors[other]);
        let all = || 0..colors.len();
        let right = all().map(|at| if has_right(at) { step(at, at + 1) } else { 0.0 });
        let below = all().map(|at| if has_below(at) { step(at, at + width) } else { 0.0 });
        let (right, below): (Vec<f32>, Vec<f32>) = (right.collect(), below.collect());
        let mean = (right.iter().chain(&below).sum::<f32>() / (2 * colors.len()) as f32).max(1e-6);
        let similarity = |step: f32| (-step / (2.0 * mean)).exp() + 1e-3;
        let alike = |steps: Vec<f32>, is_there: &dyn Fn(usize) -> bool| -> Vec<f32> {
            let of = |(at, step)| if is_there(at) { similarity(step) } else { 0.0 };
            steps.into_iter().enumerate().map(of).collect()
        };
        let (right, below) = (alike(right, &has_right), alike(below, &has_below));
        let before = |weights: &[f32], at: usize, distance: usize| {
            at.checked_sub(distance).map_or(0.0, |before| weights[before])
        };
        let weights = |at: usize| {
            // Beside the first column is the last one of the row above, whose weight is 0.
            [before(&right, at, 1), right[at], before(&below, at, width), below[at]]
        };
        let total = |at: usize| TRUST + weights(at).iter().sum::<f32>();
        Self {
            width,
            height,
            guess: halves(width, height, |at| TRUST / total(at)),
            near: [0, 1, 2, 3].map(|side| halves(width, height, |at| weights(at)[side] / total(at))),
        }
    }

    /// Spreads each guess to similar neighbors: the result is the mean guess of the pixels where a walker stops.
    pub(crate) fn spread(&self, guesses: &[f32], limits: &Limits) -> Result<Plane, Error> {
        let (width, height) = (self.width, self.height);
        let mut field = halves(width, height, |at| guesses[at]);
        let mut fixed = field.clone();
        for (fixed, weight) in fixed.iter_mut().zip(&self.guess) {
            fixed.values.iter_mut().zip(&weight.values).for_each(|(value, weight)| *value *= weight);
        }
        for sweep in 0..2 * SWEEPS {
            limits.check_time()?;
            for y in 0..height {
                let odd = (y + sweep) % 2;
                let [even_half, odd_half] = &mut field;
                let (half, other) = if odd == 0 { (even_half, odd_half) } else { (odd_half, even_half) };
                let (start, stride) = (half.start(y), half.stride);
                let count = stride - 2;
                let (above, rest) = half.values.split_at_mut(start);
                let (row, below) = rest.split_at_mut(count);
                // Columns of the other half at both sides of these.
                let left = start - 1 + odd;
                let near = [
                    &other.values[left..left + count],
                    &other.values[left + 1..left + 1 + count],
                    &above[start - stride..start - 2],
                    &below[2..stride],
                ];
                let weights = self.near.each_ref().map(|halves| halves[odd].row(y));
                relax(row, fixed[odd].row(y), weights, near);
            }
        }
        let value = |at: usize| field[at % width % 2].row(at / width)[at % width / 2];
        Ok(Plane { width, height, values: (0..width * height).map(value).collect() })
    }
}

/// Moves each value beyond the weighted mean of its guess and its neighbors.
#[multiversion(targets("x86_64+avx2"))]
fn relax(row: &mut [f32], fixed: &[f32], weights: [&[f32]; 4], near: [&[f32]; 4]) {
    let count = row.len();
    let fixed = &fixed[..count];
    let weights = weights.map(|weights| &weights[..count]);
    let near = near.map(|near| &near[..count]);
    for x in 0..count {
        let pairs = weights[0][x] * near[0][x] + weights[1][x] * near[1][x];
        let mean = fixed[x] + pairs + (weights[2][x] * near[2][x] + weights[3][x] * near[3][x]);
        row[x] += OVERRELAXATION * (mean - row[x]);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn each_pixel_is_the_weighted_mean_of_its_guess_and_its_neighbors() {
        for (width, height) in [(1, 1), (1, 7), (6, 1), (9, 8), (8, 9)] {
            let colors: Vec<Color> =
                (0..width * height).map(|at| [((at * 7919) % 101) as f32 / 300.0, 0.1, 0.0]).collect();
            let guesses: Vec<f32> = (0..width * height).map(|at| ((at * 31) % 17) as f32 / 16.0).collect();
            let walk = RandomWalk::of(&colors, width, height);
            let result = walk.spread(&guesses, &Limits::default()).unwrap();
            let pairs = |at: usize, other: usize| squared_distance(colors[at], colors[other]);
            let steps = |at: usize| {
                let right = (at % width + 1 < width).then(|| at + 1);
                let below = (at / width + 1 < height).then(|| at + width);
                [right, below].into_iter().flatten()
            };
            let all = (0..colors.len()).flat_map(|at| steps(at).map(move |other| pairs(at, other)));
            let mean = (all.sum::<f32>() / (2 * colors.len()) as f32).max(1e-6);
            for (at, guess) in guesses.iter().enumerate() {
                let (mut sum, mut weights) = (TRUST * guess, TRUST);
                for other in 0..colors.len() {
                    if steps(at).any(|near| near == other) || steps(other).any(|near| near == at) {
                        let weight = (-pairs(at, other) / (2.0 * mean)).exp() + 1e-3;
                        sum += weight * result.values[other];
                        weights += weight;
                    }
                }
                let [is, wanted] = [result.values[at], sum / weights];
                assert!((is - wanted).abs() < 1e-4, "{width} x {height}, {at}: {is} is not {wanted}");
            }
        }
    }
}
