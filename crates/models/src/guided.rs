//! The guided filter: smooths a plane but keeps the edges that a second one, the guide, has
//! (He, Sun and Tang, "Guided Image Filtering", 2013).

use crate::plane::Plane;
use crate::{Error, Limits};

/// `source`, smoothed within `radius` wherever the guide is smooth. Where the guide varies by much less
/// than the square root of `epsilon`, it counts as smooth.
pub(crate) fn guided_filter(
    source: &Plane,
    guide: &Plane,
    radius: usize,
    epsilon: f32,
    limits: &Limits,
) -> Result<Plane, Error> {
    let mean = |plane: &Plane| plane.box_mean(radius, limits);
    let guide_mean = mean(guide)?;
    let source_mean = mean(source)?;
    let variance =
        mean(&guide.map(|value| value * value))?.zip(&guide_mean, |square, mean| square - mean * mean);
    let products = guide_mean.zip(&source_mean, |guide, source| guide * source);
    let covariance = mean(&guide.zip(source, |guide, source| guide * source))?
        .zip(&products, |both, product| both - product);
    // Within each window the result is a line over the guide: slope * guide + offset.
    let slope = covariance.zip(&variance, |covariance, variance| covariance / (variance.max(0.0) + epsilon));
    let moved = slope.zip(&guide_mean, |slope, mean| slope * mean);
    let offset = source_mean.zip(&moved, |source, moved| source - moved);
    let followed = mean(&slope)?.zip(guide, |slope, guide| slope * guide);
    Ok(followed.zip(&mean(&offset)?, |followed, offset| followed + offset))
}
