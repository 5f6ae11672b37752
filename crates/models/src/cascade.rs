//! A cascade of boosted Haar features (Viola and Jones, 2001): many cheap tests on sums of rectangles,
//! ordered so that nearly every window fails one of the first.

use crate::plane::Plane;
use crate::{Error, Limits};

/// Side of the training windows.
pub(crate) const WINDOW: usize = 20;

/// Rectangle within the window, with the weight of its sum.
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
        let sums = Sums::of(luma);
        let mut passing = Vec::new();
        for top in (0..(luma.height + 1).saturating_sub(WINDOW)).step_by(step) {
            limits.check_time()?;
            for left in (0..(luma.width + 1).saturating_sub(WINDOW)).step_by(step) {
                if self.passes(&sums, left, top) {
                    passing.push((left, top));
                }
            }
        }
        Ok(passing)
    }

    fn passes(&self, sums: &Sums, left: usize, top: usize) -> bool {
        /// The contrast is measured without the border of the window.
        const INNER: usize = WINDOW - 2;
        let area = (INNER * INNER) as f64;
        let inner = Part { left: 1, top: 1, width: INNER, height: INNER, weight: 1.0 };
        let (sum, squares) = (Sums::sum(&sums.values, sums.width, left, top, &inner), {
            Sums::sum(&sums.squares, sums.width, left, top, &inner)
        });
        let contrast = (area * squares - sum * sum).max(0.0).sqrt();
        // A window without contrast would only test noise.
        if contrast < area * 2.0 {
            return false;
        }
        self.stages.iter().all(|stage| {
            let vote = |stump: &Stump| {
                let value: f64 = stump
                    .parts
                    .iter()
                    .map(|part| f64::from(part.weight) * Sums::sum(&sums.values, sums.width, left, top, part))
                    .sum();
                if value / contrast < f64::from(stump.threshold) { stump.below } else { stump.above }
            };
            stage.stumps.iter().map(vote).sum::<f32>() >= stage.threshold - 1e-5
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

/// Integral image: the sum of any rectangle takes four reads. Values are steps of 255, as in the training.
struct Sums {
    width: usize,
    values: Vec<f64>,
    squares: Vec<f64>,
}

impl Sums {
    fn of(luma: &Plane) -> Self {
        let width = luma.width + 1;
        let mut values = vec![0.0; width * (luma.height + 1)];
        let mut squares = values.clone();
        for (y, row) in luma.rows().enumerate() {
            let (mut sum, mut square) = (0.0, 0.0);
            for (x, value) in row.iter().enumerate() {
                let value = f64::from(*value * 255.0).round();
                sum += value;
                square += value * value;
                let at = (y + 1) * width + x + 1;
                values[at] = values[at - width] + sum;
                squares[at] = squares[at - width] + square;
            }
        }
        Self { width, values, squares }
    }

    fn sum(sums: &[f64], width: usize, left: usize, top: usize, part: &Part) -> f64 {
        let first = (top + part.top) * width + left + part.left;
        let last = first + part.height * width;
        sums[last + part.width] - sums[last] - sums[first + part.width] + sums[first]
    }
}
