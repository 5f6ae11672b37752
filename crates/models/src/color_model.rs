//! Color model: a Gaussian mixture, as GrabCut uses it (Rother, Kolmogorov and Blake, 2004).

pub(crate) type Color = [f32; 3];

const PARTS: usize = 5;
const ROUNDS: usize = 8;
/// Added to every variance, so that no component is infinitely narrow.
const LEAST_VARIANCE: f32 = 2e-4;

#[derive(Debug, Clone)]
struct Part {
    mean: Color,
    /// Inverse of the covariance, which is symmetric.
    inverse: [[f32; 3]; 3],
    /// Logarithm of the weight over the root of the determinant.
    height: f32,
}

#[derive(Debug, Clone)]
pub(crate) struct ColorModel {
    parts: Vec<Part>,
}

impl ColorModel {
    /// Fits the colors, each with its weight. `None` if the weights sum to zero.
    pub(crate) fn fit(colors: &[(Color, f32)]) -> Option<Self> {
        let total: f32 = colors.iter().map(|(_, weight)| weight).sum();
        if total <= 0.0 {
            return None;
        }
        let mut means = first_means(colors);
        let mut parts = Vec::new();
        for _ in 0..ROUNDS {
            let sums = moments(colors, &means);
            parts =
                sums.iter().filter(|sums| sums.weight > 0.0).filter_map(|sums| sums.part(total)).collect();
            means = parts.iter().map(|part: &Part| part.mean).collect();
        }
        (!parts.is_empty()).then_some(Self { parts })
    }

    /// Returns the log density at a color, up to a constant that all models share.
    pub(crate) fn log_density(&self, color: Color) -> f32 {
        let of = |part: &Part| part.height - part.distance(color) / 2.0;
        self.parts.iter().map(of).fold(f32::NEG_INFINITY, f32::max)
    }

    /// Returns the squared Mahalanobis distance of a color from the nearest component.
    pub(crate) fn distance(&self, color: Color) -> f32 {
        self.parts.iter().map(|part| part.distance(color)).fold(f32::INFINITY, f32::min)
    }
}

impl Part {
    fn distance(&self, color: Color) -> f32 {
        let off = difference(color, self.mean);
        let turned = self.inverse.map(|row| row.iter().zip(off).map(|(a, b)| a * b).sum::<f32>());
        turned.iter().zip(off).map(|(a, b)| a * b).sum()
    }
}

fn difference(one: Color, other: Color) -> Color {
    [one[0] - other[0], one[1] - other[1], one[2] - other[2]]
}

pub(crate) fn squared_distance(one: Color, other: Color) -> f32 {
    difference(one, other).iter().map(|value| value * value).sum()
}

/// Returns initial means: the first color, then always the farthest from those taken.
fn first_means(colors: &[(Color, f32)]) -> Vec<Color> {
    let belonging = || colors.iter().filter(|(_, weight)| *weight > 0.5);
    let mut means: Vec<Color> = belonging().chain(colors).map(|(color, _)| *color).take(1).collect();
    while means.len() < PARTS {
        let far =
            |color: Color| means.iter().map(|mean| squared_distance(color, *mean)).fold(f32::MAX, f32::min);
        match belonging().max_by(|(a, _), (b, _)| far(*a).total_cmp(&far(*b))) {
            Some((color, _)) if far(*color) > 1e-5 => means.push(*color),
            _ => break,
        }
    }
    means
}

#[derive(Debug, Clone, Default)]
struct Moments {
    weight: f64,
    sum: [f64; 3],
    products: [[f64; 3]; 3],
}

fn moments(colors: &[(Color, f32)], means: &[Color]) -> Vec<Moments> {
    let mut all = vec![Moments::default(); means.len()];
    for (color, weight) in colors.iter().filter(|(_, weight)| *weight > 0.0) {
        let distances = means.iter().map(|mean| squared_distance(*color, *mean));
        let (nearest, _) = distances.enumerate().fold((0, f32::INFINITY), |nearest, (at, distance)| {
            if distance < nearest.1 { (at, distance) } else { nearest }
        });
        if let Some(moments) = all.get_mut(nearest) {
            let weight = f64::from(*weight);
            let color = color.map(f64::from);
            moments.weight += weight;
            for ((sum, row), a) in moments.sum.iter_mut().zip(&mut moments.products).zip(color) {
                *sum += weight * a;
                for (product, b) in row.iter_mut().zip(color) {
                    *product += weight * a * b;
                }
            }
        }
    }
    all
}

impl Moments {
    fn part(&self, total: f32) -> Option<Part> {
        let mean = self.sum.map(|sum| sum / self.weight);
        let mut c = [[0.0_f32; 3]; 3];
        for (i, row) in c.iter_mut().enumerate() {
            for (j, value) in row.iter_mut().enumerate() {
                let least = if i == j { LEAST_VARIANCE } else { 0.0 };
                *value = (self.products[i][j] / self.weight - mean[i] * mean[j]) as f32 + least;
            }
        }
        let minor = |i: usize, j: usize| {
            let [r, s] = [(i + 1) % 3, (i + 2) % 3];
            let [t, u] = [(j + 1) % 3, (j + 2) % 3];
            c[r][t] * c[s][u] - c[r][u] * c[s][t]
        };
        let determinant: f32 = (0..3).map(|j| c[0][j] * minor(0, j)).sum();
        let inverse = [0, 1, 2].map(|i| [0, 1, 2].map(|j| minor(j, i) / determinant));
        let share = self.weight as f32 / total;
        (determinant > 0.0).then(|| Part {
            mean: mean.map(|value| value as f32),
            inverse,
            height: share.ln() - determinant.ln() / 2.0,
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_model_knows_its_colors_from_others() {
        let near = |center: f32| (0..50).map(move |at| ([center + (at % 7) as f32 * 0.005, 0.4, 0.1], 1.0));
        let colors: Vec<_> = near(0.2).chain(near(0.8)).collect();
        let model = ColorModel::fit(&colors).unwrap();
        assert!(model.distance([0.21, 0.4, 0.1]) < 4.0);
        assert!(model.distance([0.5, 0.4, 0.1]) > 100.0);
        assert!(model.log_density([0.8, 0.4, 0.1]) > model.log_density([0.8, 0.5, 0.1]));
        assert!(ColorModel::fit(&[]).is_none());
    }
}
