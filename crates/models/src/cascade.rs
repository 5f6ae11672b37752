//! A cascade of boosted Haar features (Viola and Jones, 2001): many cheap tests on sums of rectangles,
//! ordered so that nearly every window fails one of the first.

use multiversion::multiversion;

use crate::picture::to_byte;
use crate::plane::Plane;
use crate::{Error, Limits};

/// Side of the training windows.
pub(crate) const WINDOW: usize = 20;

#[derive(Debug, Clone, Copy, Default)]
struct Part {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
    weight: f32,
}

#[derive(Debug)]
struct Stump {
    threshold: f32,
    below: f32,
    above: f32,
    parts: Vec<Part>,
}

#[derive(Debug, Default)]
struct Stage {
    threshold: f32,
    stumps: Vec<Stump>,
}

#[derive(Debug)]
pub(crate) struct Cascade {
    stages: Vec<Stage>,
}

impl Cascade {
    /// Parses the lines of a cascade. `None`: a line is malformed, or a rectangle leaves the window.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut stages: Vec<Stage> = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(threshold) = line.strip_prefix("stage ") {
                stages.push(Stage { threshold: threshold.parse().ok()?, stumps: Vec::new() });
            } else {
                stages.last_mut()?.stumps.push(parse_stump(line)?);
            }
        }
        Some(Self { stages })
    }

    /// Returns the top left corners of the windows that pass all stages.
    pub(crate) fn passing(
        &self,
        luma: &Plane,
        step: usize,
        limits: &Limits,
    ) -> Result<Vec<(usize, usize)>, Error> {
        let Some(count) = (luma.width + 1).checked_sub(WINDOW) else { return Ok(Vec::new()) };
        let sums = Sums::of(luma);
        let placed = self.placed(sums.width);
        let mut passing = Vec::new();
        for top in (0..(luma.height + 1).saturating_sub(WINDOW)).step_by(step) {
            limits.check_time()?;
            placed.pass_row(&sums, top, count, |left| {
                if left % step == 0 {
                    passing.push((left, top));
                }
            });
        }
        Ok(passing)
    }

    fn placed(&self, width: usize) -> Placed {
        let part = |part: &Part| PlacedPart {
            corners: [(0, 0), (part.width, 0), (0, part.height), (part.width, part.height)]
                .map(|(right, down)| (part.top + down) * width + part.left + right),
            weight: part.weight,
        };
        let stump = |stump: &Stump| PlacedStump {
            threshold: stump.threshold,
            below: stump.below,
            above: stump.above,
            parts: stump.parts.iter().map(part).collect(),
        };
        // Rounding must not reject what the training accepted.
        let stage = |stage: &Stage| (stage.threshold - 1e-5, stage.stumps.iter().map(stump).collect());
        let inner = Part { left: 1, top: 1, width: INNER, height: INNER, weight: 1.0 };
        Placed { inner: part(&inner), stages: self.stages.iter().map(stage).collect() }
    }
}

/// Side of the part of a window whose contrast counts.
const INNER: usize = WINDOW - 2;
/// Number of neighboring windows that are tested together.
const LANES: usize = 16;
/// Number of windows that are tested one by one: of all, most fail one of the first stages.
const FEW: u32 = 2;

/// Cascade whose rectangles are offsets into the sums of a picture.
struct Placed {
    inner: PlacedPart,
    stages: Vec<(f32, Vec<PlacedStump>)>,
}

struct PlacedStump {
    threshold: f32,
    below: f32,
    above: f32,
    parts: Vec<PlacedPart>,
}

#[derive(Clone, Copy)]
struct PlacedPart {
    /// Upper left, upper right, lower left, lower right.
    corners: [usize; 4],
    weight: f32,
}

impl Placed {
    /// Calls `found` with the left side of each of the first `count` windows of a row that passes.
    fn pass_row(&self, sums: &Sums, top: usize, count: usize, mut found: impl FnMut(usize)) {
        for left in (0..count).step_by(LANES) {
            let mut passing = passing_lanes(self, sums, top * sums.width + left);
            passing &= (1_u32 << (count - left).min(LANES)) - 1;
            while passing != 0 {
                found(left + passing.trailing_zeros() as usize);
                passing &= passing - 1;
            }
        }
    }
}

/// Returns a bit for each of the neighboring windows from a position that passes all stages.
#[multiversion(targets("x86_64+avx2+bmi1+popcnt"))]
fn passing_lanes(placed: &Placed, sums: &Sums, at: usize) -> u32 {
    const AREA: f64 = (INNER * INNER) as f64;
    let sum = placed.inner.lanes(&sums.values, at);
    let squares = placed.inner.lanes(&sums.squares, at);
    let contrast: [f32; LANES] = std::array::from_fn(|lane| {
        let (sum, squares) = (f64::from(sum[lane]), f64::from(squares[lane]));
        ((AREA * squares - sum * sum).max(0.0) as f32).sqrt()
    });
    // A window without contrast would only test noise.
    let mut passing = mask(&contrast, AREA as f32 * 2.0);
    for (threshold, stumps) in &placed.stages {
        if passing == 0 {
            break;
        }
        if passing.count_ones() > FEW {
            let mut votes = [0.0; LANES];
            for stump in stumps {
                stump.vote_lanes(&sums.values, at, &contrast, &mut votes);
            }
            passing &= mask(&votes, *threshold);
        } else {
            for (lane, contrast) in contrast.iter().enumerate() {
                let is_rejected = || {
                    let vote = |stump: &PlacedStump| stump.vote(&sums.values, at + lane, *contrast);
                    stumps.iter().map(vote).sum::<f32>() < *threshold
                };
                if passing >> lane & 1 == 1 && is_rejected() {
                    passing &= !(1 << lane);
                }
            }
        }
    }
    passing
}

#[inline(always)]
fn mask(values: &[f32; LANES], threshold: f32) -> u32 {
    values.iter().enumerate().fold(0, |mask, (lane, value)| mask | u32::from(*value >= threshold) << lane)
}

impl PlacedStump {
    #[inline(always)]
    fn vote(&self, sums: &[u32], at: usize, contrast: f32) -> f32 {
        let value: f32 = self.parts.iter().map(|part| part.weight * part.sum(sums, at) as f32).sum();
        if value < self.threshold * contrast { self.below } else { self.above }
    }

    #[inline(always)]
    fn vote_lanes(&self, sums: &[u32], at: usize, contrast: &[f32; LANES], votes: &mut [f32; LANES]) {
        let mut values = [0.0; LANES];
        for part in &self.parts {
            let sums = part.lanes(sums, at);
            values = std::array::from_fn(|lane| values[lane] + part.weight * sums[lane] as f32);
        }
        // A choice between floats would be compiled to one for each lane.
        let [below, above] = [self.below, self.above].map(f32::to_bits);
        *votes = std::array::from_fn(|lane| {
            let is_below = u32::from(values[lane] < self.threshold * contrast[lane]).wrapping_neg();
            votes[lane] + f32::from_bits(below & is_below | above & !is_below)
        });
    }
}

impl PlacedPart {
    /// Returns the sum for the window at a position. The sums of the picture may wrap; that of a window does not.
    #[inline(always)]
    fn sum(&self, sums: &[u32], at: usize) -> i32 {
        let [upper_left, upper_right, lower_left, lower_right] = self.corners.map(|corner| sums[at + corner]);
        lower_right.wrapping_sub(lower_left).wrapping_sub(upper_right).wrapping_add(upper_left) as i32
    }

    #[inline(always)]
    fn lanes(&self, sums: &[u32], at: usize) -> [i32; LANES] {
        let near = |corner: usize| sums[at + corner..].first_chunk::<LANES>().unwrap_or(&[0; LANES]);
        let [upper_left, upper_right, lower_left, lower_right] = self.corners.map(near);
        std::array::from_fn(|lane| {
            let lower = lower_right[lane].wrapping_sub(lower_left[lane]);
            lower.wrapping_sub(upper_right[lane]).wrapping_add(upper_left[lane]) as i32
        })
    }
}

fn parse_stump(line: &str) -> Option<Stump> {
    let numbers: Vec<f32> = line.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
    let (&[threshold, below, above], rectangles) = numbers.split_first_chunk()?;
    let part = |numbers: &[f32]| {
        let &[left, top, width, height, weight] = numbers.first_chunk()?;
        let [left, top, width, height] = [left, top, width, height].map(|number| number as usize);
        let fits = left + width <= WINDOW && top + height <= WINDOW;
        fits.then_some(Part { left, top, width, height, weight })
    };
    let parts = rectangles.chunks(5).map(part).collect::<Option<_>>()?;
    Some(Stump { threshold, below, above, parts })
}

/// Integral images of the luma and of its squares, in steps of 255 as in the training: a sum takes four reads.
struct Sums {
    width: usize,
    values: Vec<u32>,
    squares: Vec<u32>,
}

impl Sums {
    fn of(luma: &Plane) -> Self {
        let width = luma.width + 1;
        // The last windows are tested together with some behind the last row.
        let mut values = vec![0_u32; width * (luma.height + 1) + LANES];
        let mut squares = values.clone();
        for (y, row) in luma.rows().enumerate() {
            let (mut sum, mut square) = (0_u32, 0_u32);
            for (x, value) in row.iter().enumerate() {
                let value = u32::from(to_byte(*value));
                sum = sum.wrapping_add(value);
                square = square.wrapping_add(value * value);
                let at = (y + 1) * width + x + 1;
                values[at] = values[at - width].wrapping_add(sum);
                squares[at] = squares[at - width].wrapping_add(square);
            }
        }
        Self { width, values, squares }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn by_definition(cascade: &Cascade, luma: &Plane) -> Vec<(usize, usize)> {
        let bytes = luma.map(|value| f32::from(to_byte(value)));
        let sum = |left: usize, top: usize, part: &Part, power: i32| {
            let rows = bytes.rows().skip(top + part.top).take(part.height);
            let values = rows.flat_map(|row| &row[left + part.left..left + part.left + part.width]);
            values.map(|value| f64::from(*value).powi(power)).sum::<f64>()
        };
        let inner = Part { left: 1, top: 1, width: INNER, height: INNER, weight: 1.0 };
        let passes = |left: usize, top: usize| {
            let area = (INNER * INNER) as f64;
            let [mean, squares] = [1, 2].map(|power| sum(left, top, &inner, power));
            let contrast = (area * squares - mean * mean).sqrt();
            let vote = |stump: &Stump| {
                let parts = stump.parts.iter().map(|part| f64::from(part.weight) * sum(left, top, part, 1));
                let is_below = parts.sum::<f64>() < f64::from(stump.threshold) * contrast;
                f64::from(if is_below { stump.below } else { stump.above })
            };
            let votes = |stage: &Stage| stage.stumps.iter().map(vote).sum::<f64>();
            contrast >= area * 2.0
                && cascade.stages.iter().all(|stage| votes(stage) >= f64::from(stage.threshold) - 1e-5)
        };
        let corners =
            (0..=luma.height - WINDOW).flat_map(|top| (0..=luma.width - WINDOW).map(move |left| (left, top)));
        corners.filter(|(left, top)| passes(*left, *top)).collect()
    }

    #[test]
    fn windows_tested_together_pass_as_each_does_alone() {
        let text = include_str!("../data/frontal-face/cascade.txt");
        // The first stages, so that windows of noise pass.
        let stages = text.match_indices("stage ").nth(3).unwrap().0;
        let cascade = Cascade::parse(&text[..stages]).unwrap();
        for (width, height) in [(WINDOW, WINDOW), (WINDOW + 1, 30), (61, 45), (19, 40)] {
            let values = (0..width * height).map(|at| ((at * at * 7919) % 101) as f32 / 150.0).collect();
            let luma = Plane { width, height, values };
            let together = cascade.passing(&luma, 1, &Limits::default()).unwrap();
            if width < WINDOW {
                assert!(together.is_empty());
                continue;
            }
            let alone = by_definition(&cascade, &luma);
            assert_eq!(together, alone, "{width} x {height}");
            let coarse = cascade.passing(&luma, 2, &Limits::default()).unwrap();
            assert!(coarse.iter().all(|at| together.contains(at) && at.0 % 2 == 0 && at.1 % 2 == 0));
            if width > 60 {
                let all = (width - WINDOW + 1) * (height - WINDOW + 1);
                assert!(!alone.is_empty() && alone.len() < all, "{} of {all}", alone.len());
            }
        }
    }
}
