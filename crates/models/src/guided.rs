//! Guided filter: smooths a plane but keeps the edges of a second one, the guide (He, Sun and Tang, "Guided
//! Image Filtering", 2013).

use crate::plane::Plane;
use crate::{Error, Limits};

/// Fitted filter: around each pixel, the result is `slope * guide + offset`. A filter fitted at a reduced
/// size has the edges of the full-size guide after enlargement ("Fast Guided Filter", 2015).
pub(crate) struct GuidedFilter {
    pub(crate) slope: Plane,
    pub(crate) offset: Plane,
}

impl GuidedFilter {
    /// Fits a filter that smooths `source` within `radius` where the guide is smooth: where its deviation is
    /// well below the square root of `epsilon`.
    pub(crate) fn fit(
        source: &Plane,
        guide: &Plane,
        radius: usize,
        epsilon: f32,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let mean = |plane: &Plane| plane.box_mean(radius, limits);
        let guide_mean = mean(guide)?;
        let source_mean = mean(source)?;
        let mut variance = mean(&guide.map(|value| value * value))?;
        variance.change(&guide_mean, |square, mean| square - mean * mean);
        let mut slope = mean(&guide.zip(source, |guide, source| guide * source))?;
        slope.change(&guide_mean.zip(&source_mean, |guide, source| guide * source), |both, product| {
            both - product
        });
        slope.change(&variance, |covariance, variance| covariance / (variance.max(0.0) + epsilon));
        drop(variance);
        let mut offset = source_mean;
        offset.change(&slope.zip(&guide_mean, |slope, mean| slope * mean), |source, moved| source - moved);
        drop(guide_mean);
        Ok(Self { slope: mean(&slope)?, offset: mean(&offset)? })
    }

    /// Applies the filter to a guide of the same size.
    pub(crate) fn over(&self, guide: &Plane) -> Plane {
        let mut followed = self.slope.zip(guide, |slope, guide| slope * guide);
        followed.change(&self.offset, |followed, offset| followed + offset);
        followed
    }
}
