//! Gaussian and Laplacian pyramids (Burt and Adelson, 1983).

use crate::plane::{Plane, clamp};
use crate::{Error, Limits};

/// Halves a plane, with a low-pass filter against aliasing.
pub(crate) fn halved(plane: &Plane, limits: &Limits) -> Result<Plane, Error> {
    let mut half = Plane::filled(plane.width.div_ceil(2), plane.height.div_ceil(2), 0.0);
    let mut smooth = vec![0.0; plane.width];
    for (y, row) in half.rows_mut().enumerate() {
        limits.check_time()?;
        let near = [-2, -1, 0, 1, 2].map(|step| plane.row(2 * y as isize + step));
        for (x, value) in smooth.iter_mut().enumerate() {
            *value = binomial(near.map(|row| row[x]));
        }
        for (x, value) in row.iter_mut().enumerate() {
            *value =
                binomial([-2, -1, 0, 1, 2].map(|step| smooth[clamp(2 * x as isize + step, smooth.len())]));
        }
    }
    Ok(half)
}

fn binomial([a, b, c, d, e]: [f32; 5]) -> f32 {
    (a + e) / 16.0 + (b + d) / 4.0 + c * 0.375
}

/// Calls `put` with each row of twice the size, or one less if the halved plane had an odd size.
fn double(
    plane: &Plane,
    (width, height): (usize, usize),
    limits: &Limits,
    mut put: impl FnMut(usize, &[f32]),
) -> Result<(), Error> {
    let mut smooth = vec![0.0; plane.width];
    let mut row = vec![0.0; width];
    for y in 0..height {
        limits.check_time()?;
        let near = [-1, 0, 1].map(|step| plane.row((y / 2) as isize + step));
        for (x, value) in smooth.iter_mut().enumerate() {
            *value = between(y, near.map(|row| row[x]));
        }
        for (x, value) in row.iter_mut().enumerate() {
            *value = between(x, [-1, 0, 1].map(|step| smooth[clamp((x / 2) as isize + step, smooth.len())]));
        }
        put(y, &row);
    }
    Ok(())
}

fn between(at: usize, [before, here, after]: [f32; 3]) -> f32 {
    if at.is_multiple_of(2) { (before + after) / 8.0 + here * 0.75 } else { (here + after) / 2.0 }
}

pub(crate) fn masks(mask: Plane, levels: usize, limits: &Limits) -> Result<Vec<Plane>, Error> {
    let mut masks = vec![mask];
    for _ in 0..levels {
        if let Some(last) = masks.last() {
            masks.push(halved(last, limits)?);
        }
    }
    Ok(masks)
}

/// Multiplies a plane by the mask, on every scale by the mask of that scale: each has its own seam width.
pub(crate) fn masked(mut plane: Plane, masks: &[Plane], limits: &Limits) -> Result<Plane, Error> {
    let Some((mask, smaller)) = masks.split_first() else { return Ok(plane) };
    if smaller.is_empty() {
        plane.change(mask, |value, mask| value * mask);
        return Ok(plane);
    }
    let (width, size) = (plane.width, (plane.width, plane.height));
    let rest = halved(&plane, limits)?;
    // Details of this scale: the plane minus the enlarged rest.
    double(&rest, size, limits, |y, smooth| {
        let row = &mut plane.values[y * width..(y + 1) * width];
        for ((value, smooth), mask) in row.iter_mut().zip(smooth).zip(mask.row(y as isize)) {
            *value = (*value - smooth) * mask;
        }
    })?;
    double(&masked(rest, smaller, limits)?, size, limits, |y, smooth| {
        let row = &mut plane.values[y * width..(y + 1) * width];
        row.iter_mut().zip(smooth).for_each(|(value, smooth)| *value += smooth);
    })?;
    Ok(plane)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_mask_of_ones_keeps_the_plane() {
        let limits = Limits::default();
        for (width, height) in [(1, 1), (2, 3), (17, 9), (64, 31)] {
            let values = (0..width * height).map(|at| ((at * 7919) % 101) as f32 / 100.0).collect();
            let plane = Plane { width, height, values };
            let ones = masks(Plane::filled(width, height, 1.0), 3, &limits).unwrap();
            let back = masked(plane.clone(), &ones, &limits).unwrap();
            for (there, back) in plane.values.iter().zip(&back.values) {
                assert!((there - back).abs() < 1e-5);
            }
        }
    }
}
