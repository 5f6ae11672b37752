//! Super-resolution: twice as large by Lanczos' filter and iterative back-projection (Irani and Peleg,
//! 1991): the large picture is corrected until scaling it down gives the small one.

use crate::picture::Picture;
use crate::plane::{Plane, clamp};
use crate::{Error, Inputs, Limits, Model, Output};

/// Bytes for a pixel of the input at the peak; the output has four times as many.
const NEED: u64 = 160;
const ROUNDS: usize = 8;
/// How far a value may leave those around it: some overshoot is sharpness, more is a halo.
const OVERSHOOT: f32 = 0.02;

pub(crate) struct SuperResolution;

impl Model for SuperResolution {
    fn kind(&self) -> &'static str {
        "super-resolution"
    }

    fn bytes_per_pixel(&self) -> Option<u64> {
        Some(NEED)
    }

    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let small = Picture::read(inputs, "input_image", NEED, limits)?;
        let (width, height) = (2 * small.width(), 2 * small.height());
        let [red, green, blue] = small.colors.map(|plane| upscaled(&plane, limits));
        let alpha = small.alpha.map(|alpha| alpha.resized(width, height));
        Ok(vec![("output_image", Picture { colors: [red?, green?, blue?], alpha }.into_png()?)])
    }
}

fn upscaled(small: &Plane, limits: &Limits) -> Result<Plane, Error> {
    let least = small.minimum(1, limits)?;
    let most = small.map(|value| -value).minimum(1, limits)?.map(|value| -value);
    let mut large = small.clone().resized(2 * small.width, 2 * small.height);
    for _ in 0..ROUNDS {
        let error = small.zip(&averaged(&large), |wanted, is| wanted - is);
        let error = spread_across(&error, limits)?;
        for (y, row) in large.rows_mut().enumerate() {
            let middle = (y / 2) as isize;
            let (near, next) =
                (error.row(middle), error.row(if y % 2 == 0 { middle - 1 } else { middle + 1 }));
            let bounds = least.row(middle).iter().zip(most.row(middle));
            let errors = near.chunks_exact(2).zip(next.chunks_exact(2));
            for ((values, (near, next)), (least, most)) in row.chunks_exact_mut(2).zip(errors).zip(bounds) {
                for ((value, near), next) in values.iter_mut().zip(near).zip(next) {
                    let corrected = *value + 0.75 * near + 0.25 * next;
                    *value = corrected.max(least - OVERSHOOT).min(most + OVERSHOOT);
                }
            }
        }
    }
    Ok(large)
}

/// What a camera of half the resolution would see: the mean of two by two pixels.
fn averaged(large: &Plane) -> Plane {
    let mut small = Plane::filled(large.width / 2, large.height / 2, 0.0);
    for (y, row) in small.rows_mut().enumerate() {
        let (upper, lower) = (large.row(2 * y as isize), large.row(2 * y as isize + 1));
        for ((value, upper), lower) in row.iter_mut().zip(upper.chunks_exact(2)).zip(lower.chunks_exact(2)) {
            *value = (upper.iter().sum::<f32>() + lower.iter().sum::<f32>()) / 4.0;
        }
    }
    small
}

/// Twice as wide, linear between the centers of pixels.
fn spread_across(small: &Plane, limits: &Limits) -> Result<Plane, Error> {
    let mut large = Plane::filled(2 * small.width, small.height, 0.0);
    for (from, to) in small.rows().zip(large.rows_mut()) {
        limits.check_time()?;
        for (at, pair) in to.chunks_exact_mut(2).enumerate() {
            let near = |step: isize| from[clamp(at as isize + step, from.len())];
            for (value, next) in pair.iter_mut().zip([near(-1), near(1)]) {
                *value = 0.75 * near(0) + 0.25 * next;
            }
        }
    }
    Ok(large)
}
