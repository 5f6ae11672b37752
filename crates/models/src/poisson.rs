//! Poisson solver inside a mask, by multigrid: coarse grids reach far, fine grids near, so the run time is linear.

use crate::plane::Plane;
use crate::{Error, Limits};

/// Correction that is invisible in eight bits.
const PRECISION: f32 = 3e-4;
const MAX_CYCLES: usize = 10;
const SMOOTHINGS: usize = 2;
/// Smoothings on the coarsest grid, which is tiny.
const LAST_SMOOTHINGS: usize = 60;

/// Region of the equation, without the edge of the picture: the solution needs known values around it.
pub(crate) struct Domain {
    width: usize,
    inside: Vec<bool>,
}

impl Domain {
    pub(crate) fn new(width: usize, height: usize, is_inside: impl Fn(usize) -> bool) -> Self {
        let edge = |at: usize| {
            let (x, y) = (at % width, at / width);
            x == 0 || y == 0 || x + 1 == width || y + 1 == height
        };
        Self { width, inside: (0..width * height).map(|at| !edge(at) && is_inside(at)).collect() }
    }

    pub(crate) fn contains(&self, at: usize) -> bool {
        self.inside.get(at).copied().unwrap_or(false)
    }

    fn height(&self) -> usize {
        self.inside.len() / self.width
    }

    /// Returns every second grid line; a coarse pixel is inside if all of its fine pixels are.
    fn coarse(&self) -> Self {
        let (width, height) = (self.width.div_ceil(2), self.height().div_ceil(2));
        Self::new(width, height, |at| {
            let fine = 2 * (at / width) * self.width + 2 * (at % width);
            [0, 1, self.width, self.width + 1].into_iter().all(|step| self.contains(fine + step))
        })
    }

    fn places(&self) -> impl Iterator<Item = usize> {
        self.inside.iter().enumerate().filter_map(|(at, inside)| inside.then_some(at))
    }
}

/// Changes `field` inside the domain until four times each value, minus its four neighbors, equals `source`.
pub(crate) fn solve(
    field: &mut Plane,
    source: &[f32],
    domain: &Domain,
    limits: &Limits,
) -> Result<(), Error> {
    let mut domains = Vec::new();
    let mut next = domain.coarse();
    while next.width > 2 && next.height() > 2 && next.inside.contains(&true) {
        let coarser = next.coarse();
        domains.push(next);
        next = coarser;
    }
    for _ in 0..MAX_CYCLES {
        if cycle(&mut field.values, source, domain, &domains, limits)? < PRECISION {
            break;
        }
    }
    Ok(())
}

/// Runs one multigrid cycle. Returns the largest correction of the coarser grids.
fn cycle(
    field: &mut [f32],
    source: &[f32],
    domain: &Domain,
    coarser: &[Domain],
    limits: &Limits,
) -> Result<f32, Error> {
    let Some((coarse, rest)) = coarser.split_first() else {
        smooth(field, source, domain, LAST_SMOOTHINGS, limits)?;
        return Ok(0.0);
    };
    smooth(field, source, domain, SMOOTHINGS, limits)?;
    let mut residual = vec![0.0; coarse.inside.len()];
    for at in domain.places() {
        let (x, y) = (at % domain.width, at / domain.width);
        // A coarse pixel covers four fine ones; twice the grid spacing makes the source count fourfold.
        residual[y / 2 * coarse.width + x / 2] +=
            source[at] + neighbors(field, domain.width, at) - 4.0 * field[at];
    }
    let mut correction = vec![0.0; residual.len()];
    cycle(&mut correction, &residual, coarse, rest, limits)?;
    let mut largest = 0.0_f32;
    let (last_column, last_row) = (coarse.width - 1, coarse.height() - 1);
    for at in domain.places() {
        let (x, y) = (at % domain.width, at / domain.width);
        // Bilinear interpolation: three quarters of the nearest coarse pixel, one of the next.
        let column = x / 2;
        let other_column = if x % 2 == 0 { column.saturating_sub(1) } else { (column + 1).min(last_column) };
        let row = y / 2;
        let other_row = if y % 2 == 0 { row.saturating_sub(1) } else { (row + 1).min(last_row) };
        let value = |row: usize, column: usize| correction[row * coarse.width + column];
        let near = 0.75 * value(row, column) + 0.25 * value(row, other_column);
        let far = 0.75 * value(other_row, column) + 0.25 * value(other_row, other_column);
        let change = 0.75 * near + 0.25 * far;
        largest = largest.max(change.abs());
        field[at] += change;
    }
    smooth(field, source, domain, SMOOTHINGS, limits)?;
    Ok(largest)
}

/// Red-black Gauss–Seidel: first one color of a chessboard, then the other.
fn smooth(
    field: &mut [f32],
    source: &[f32],
    domain: &Domain,
    rounds: usize,
    limits: &Limits,
) -> Result<(), Error> {
    let width = domain.width;
    for color in (0..2 * rounds).map(|half| half % 2) {
        limits.check_time()?;
        for y in 1..domain.height().saturating_sub(1) {
            for at in (y * width + 1 + (y + color) % 2..(y + 1) * width - 1).step_by(2) {
                if domain.inside[at] {
                    field[at] = (source[at] + neighbors(field, width, at)) / 4.0;
                }
            }
        }
    }
    Ok(())
}

/// Returns the sum of the four neighbors of a position inside the border.
pub(crate) fn neighbors(field: &[f32], width: usize, at: usize) -> f32 {
    field[at - width] + field[at - 1] + field[at + 1] + field[at + width]
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_plane_that_is_harmonic_is_found_from_its_border() {
        for (width, height) in [(3, 3), (4, 7), (65, 40), (200, 201)] {
            let harmonic = |at: usize| {
                let (x, y) = ((at % width) as f32 / width as f32, (at / width) as f32 / width as f32);
                x * x - y * y + 0.5 * x
            };
            // A disc, so that the coarse grids do not align with it.
            let disc = |at: usize| {
                let (x, y) =
                    ((at % width) as f32 / width as f32 - 0.5, (at / width) as f32 / height as f32 - 0.5);
                x.hypot(y) < 0.49
            };
            let domain = Domain::new(width, height, disc);
            let mut field = Plane::filled(width, height, 0.0);
            for (at, value) in field.values.iter_mut().enumerate().filter(|(at, _)| !domain.contains(*at)) {
                *value = harmonic(at);
            }
            solve(&mut field, &vec![0.0; width * height], &domain, &Limits::default()).unwrap();
            for (at, value) in field.values.iter().enumerate() {
                assert!((value - harmonic(at)).abs() < 1e-3, "{width} x {height}: {value} at {at}");
            }
        }
    }
}
