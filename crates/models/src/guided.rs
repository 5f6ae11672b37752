//! Guided filter: smooths a plane but keeps the edges of a guide (He, Sun and Tang, "Guided Image Filtering", 2013).

use crate::plane::Plane;
use crate::{Error, Limits};

/// Fitted filter: around each pixel, the result is `slope * guide + offset`. A filter fitted at a reduced
/// size has the edges of the full-size guide after enlargement ("Fast Guided Filter", 2015).
pub(crate) struct GuidedFilter {
    pub(crate) slope: Plane,
    pub(crate) offset: Plane,
}

impl GuidedFilter {
    /// Fits a filter that smooths `source` within `radius` where the guide deviates well below the root of `epsilon`.
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

    /// Fits a filter that smooths `source` but for its own edges.
    pub(crate) fn fit_itself(
        source: &Plane,
        radius: usize,
        epsilon: f32,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let mean = source.box_mean(radius, limits)?;
        let mut slope = source.map(|value| value * value).box_mean(radius, limits)?;
        slope.change(&mean, |square, mean| {
            let variance = square - mean * mean;
            variance / (variance.max(0.0) + epsilon)
        });
        let offset = slope.zip(&mean, |slope, mean| mean - slope * mean);
        Ok(Self { slope: slope.box_mean(radius, limits)?, offset: offset.box_mean(radius, limits)? })
    }

    pub(crate) fn then(mut self, other: &Self) -> Self {
        self.slope.change(&other.slope, |first, second| first * second);
        self.offset.change(&other.slope, |first, second| first * second);
        self.offset.change(&other.offset, |first, second| first + second);
        self
    }

    /// Applies the filter to a guide of the same size.
    pub(crate) fn over(&self, guide: &Plane) -> Plane {
        let mut followed = self.slope.zip(guide, |slope, guide| slope * guide);
        followed.change(&self.offset, |followed, offset| followed + offset);
        followed
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_itself_is_that_of_a_guide_and_two_in_turn_are_one() {
        let limits = Limits::default();
        let values = (0..40 * 30).map(|at| ((at * 7919) % 101) as f32 / 100.0).collect();
        let plane = Plane { width: 40, height: 30, values };
        let by_guide = GuidedFilter::fit(&plane, &plane, 3, 0.01, &limits).unwrap();
        let by_itself = GuidedFilter::fit_itself(&plane, 3, 0.01, &limits).unwrap();
        let smooth = by_guide.over(&plane);
        let second = GuidedFilter::fit_itself(&smooth, 2, 0.02, &limits).unwrap();
        let [wanted, other, in_turn] = [
            second.over(&smooth),
            second.over(&by_itself.over(&plane)),
            by_itself.then(&second).over(&plane),
        ];
        for ((wanted, other), in_turn) in wanted.values.iter().zip(&other.values).zip(&in_turn.values) {
            assert!((wanted - other).abs() < 1e-4 && (wanted - in_turn).abs() < 1e-4);
        }
    }
}
