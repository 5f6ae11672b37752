//! Halving and doubling planes, for methods that work on every scale at once (Burt and Adelson, 1983).

use crate::plane::{Plane, clamp};
use crate::{Error, Limits};

/// Half the size, after smoothing what would alias.
pub(crate) fn halved(plane: &Plane, limits: &Limits) -> Result<Plane, Error> {
    Ok(halved_across(&halved_across(plane, limits)?.transposed(), limits)?.transposed())
}

fn halved_across(plane: &Plane, limits: &Limits) -> Result<Plane, Error> {
    let mut half = Plane::filled(plane.width.div_ceil(2), plane.height, 0.0);
    for (from, to) in plane.rows().zip(half.rows_mut()) {
        limits.check_time()?;
        for (at, value) in to.iter_mut().enumerate() {
            let near = |offset: isize| from[clamp(2 * at as isize + offset, from.len())];
            *value = (near(-2) + near(2)) / 16.0 + (near(-1) + near(1)) / 4.0 + near(0) * 0.375;
        }
    }
    Ok(half)
}

/// Twice the size, or one less where the plane that was halved had an odd size.
pub(crate) fn doubled(plane: &Plane, width: usize, height: usize, limits: &Limits) -> Result<Plane, Error> {
    let wide = doubled_across(plane, width, limits)?.transposed();
    Ok(doubled_across(&wide, height, limits)?.transposed())
}

fn doubled_across(plane: &Plane, width: usize, limits: &Limits) -> Result<Plane, Error> {
    let mut double = Plane::filled(width, plane.height, 0.0);
    for (from, to) in plane.rows().zip(double.rows_mut()) {
        limits.check_time()?;
        for (at, value) in to.iter_mut().enumerate() {
            let near = |offset: isize| from[clamp((at / 2) as isize + offset, from.len())];
            *value = if at % 2 == 0 {
                (near(-1) + near(1)) / 8.0 + near(0) * 0.75
            } else {
                (near(0) + near(1)) / 2.0
            };
        }
    }
    Ok(double)
}

/// The plane as details of ever larger scale, and what remains in the end. Adding up gives it back.
pub(crate) struct Laplacian {
    details: Vec<Plane>,
    rest: Plane,
}

impl Laplacian {
    pub(crate) fn of(plane: Plane, levels: usize, limits: &Limits) -> Result<Self, Error> {
        let (mut details, mut rest) = (Vec::new(), plane);
        for _ in 0..levels {
            let half = halved(&rest, limits)?;
            let smooth = doubled(&half, rest.width, rest.height, limits)?;
            details.push(rest.zip(&smooth, |all, smooth| all - smooth));
            rest = half;
        }
        Ok(Self { details, rest })
    }

    /// Where `mask` is 1, `self`; where it is 0, `other`; every scale with a seam of its own width.
    pub(crate) fn blended(self, other: &Self, mask: &Plane, limits: &Limits) -> Result<Self, Error> {
        let mix = |mine: &Plane, other: &Plane, mask: &Plane| {
            let mixed = mine.values.iter().zip(&other.values).zip(&mask.values);
            let values = mixed.map(|((mine, other), mask)| other + mask * (mine - other)).collect();
            Plane { values, width: mine.width, height: mine.height }
        };
        let (mut details, mut mask) = (Vec::new(), mask.clone());
        for (mine, other) in self.details.iter().zip(&other.details) {
            details.push(mix(mine, other, &mask));
            mask = halved(&mask, limits)?;
        }
        Ok(Self { details, rest: mix(&self.rest, &other.rest, &mask) })
    }

    pub(crate) fn sum(self, limits: &Limits) -> Result<Plane, Error> {
        let mut sum = self.rest;
        for detail in self.details.into_iter().rev() {
            sum = doubled(&sum, detail.width, detail.height, limits)?
                .zip(&detail, |smooth, detail| smooth + detail);
        }
        Ok(sum)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn details_and_rest_add_up_to_the_plane() {
        let limits = Limits::default();
        for (width, height) in [(1, 1), (2, 3), (17, 9), (64, 31)] {
            let values = (0..width * height).map(|at| ((at * 7919) % 101) as f32 / 100.0).collect();
            let plane = Plane { width, height, values };
            let sum = Laplacian::of(plane.clone(), 3, &limits).unwrap().sum(&limits).unwrap();
            for (there, back) in plane.values.iter().zip(&sum.values) {
                assert!((there - back).abs() < 1e-5);
            }
        }
    }
}
