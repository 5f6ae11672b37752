//! Color extraction: the dominant colors of a picture, by k-means clustering in Oklab.

use crate::color_model::squared_distance;
use crate::memory::Need;
use crate::model::{BuiltIn, Outputs};
use crate::oklab;
use crate::picture::{Picture, to_byte};
use crate::{Error, Inputs, Limits, Output};

/// Initial number of clusters; similar clusters are merged afterwards.
const CLUSTERS: usize = 12;
const COLORS: usize = 8;
/// Distance below which two colors look alike.
const ALIKE: f32 = 0.1;
/// Smallest share of the picture that is no noise.
const LEAST_SHARE: f64 = 0.01;
const ROUNDS: usize = 20;
const NEED: Need = Need { pixel: 14, reduced_pixel: 2, least: 0 };

pub(crate) const MODEL: BuiltIn = BuiltIn { kind: "color-extraction", need: NEED, run };

fn run(inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
    let picture = Picture::read(inputs, "input", NEED, limits)?;
    let samples = samples(&picture);
    if samples.is_empty() {
        let reason = "every pixel is transparent; send a picture that shows something".to_owned();
        return Err(Error::Unusable { input: "input".to_owned(), reason });
    }
    let codes: Vec<String> = palette(&samples, limits)?.into_iter().map(code).collect();
    Ok(vec![("output", Output::Text(codes.join(", ")))])
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    color: [f32; 3],
    weight: f64,
}

/// Returns the opaque colors of the picture in quantized cells, so that a large picture takes no longer to cluster.
fn samples(picture: &Picture) -> Vec<Sample> {
    const BITS: usize = 5;
    type Cell = [u64; 4];
    let mut cells = vec![Cell::default(); 1 << (3 * BITS)];
    let mut alphas = picture.alpha.iter().flatten().copied();
    for color in picture.colors.as_chunks::<3>().0 {
        let weight = u64::from(alphas.next().unwrap_or(255));
        let index = color.iter().fold(0, |index, byte| index << BITS | usize::from(byte >> (8 - BITS)));
        let [red, green, blue, total] = &mut cells[index];
        for (sum, byte) in [red, green, blue].into_iter().zip(color) {
            *sum += weight * u64::from(*byte);
        }
        *total += weight;
    }
    let mean = |[red, green, blue, total]: Cell| {
        let color = [red, green, blue].map(|sum| (sum as f64 / total as f64 / 255.0) as f32);
        Sample { color: oklab::from_srgb(color), weight: total as f64 }
    };
    cells.into_iter().filter(|cell| cell[3] > 0).map(mean).collect()
}

/// Returns the dominant colors, most frequent first.
fn palette(samples: &[Sample], limits: &Limits) -> Result<Vec<[f32; 3]>, Error> {
    let mut centers = far_apart(samples);
    let mut clusters = assign(samples, &centers);
    for _ in 0..ROUNDS {
        limits.check_time()?;
        let moved: Vec<[f32; 3]> = clusters.iter().map(|cluster| cluster.color).collect();
        let still = moved.iter().zip(&centers).all(|(new, old)| squared_distance(*new, *old) < 1e-6);
        centers = moved;
        clusters = assign(samples, &centers);
        if still {
            break;
        }
    }
    merge_alike(&mut clusters);
    clusters.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let total: f64 = clusters.iter().map(|cluster| cluster.weight).sum();
    let mut main: Vec<_> = clusters.iter().filter(|cluster| cluster.weight >= LEAST_SHARE * total).collect();
    main.truncate(COLORS);
    Ok(main.into_iter().map(|cluster| cluster.color).collect())
}

/// Farthest-point initialization: first the most frequent color, then always the farthest from those taken,
/// weighted by frequency. Deterministic, so equal pictures give equal colors.
fn far_apart(samples: &[Sample]) -> Vec<[f32; 3]> {
    let heaviest = samples.iter().max_by(|a, b| a.weight.total_cmp(&b.weight));
    let mut centers: Vec<[f32; 3]> = heaviest.map(|sample| sample.color).into_iter().collect();
    while centers.len() < CLUSTERS {
        let worth = |sample: &Sample| {
            let nearest =
                centers.iter().map(|center| squared_distance(sample.color, *center)).fold(f32::MAX, f32::min);
            f64::from(nearest) * sample.weight.sqrt()
        };
        match samples.iter().max_by(|a, b| worth(a).total_cmp(&worth(b))) {
            Some(best) if worth(best) > 0.0 => centers.push(best.color),
            _ => break,
        }
    }
    centers
}

/// Assigns every sample to its nearest center. Returns the means of the nonempty clusters.
fn assign(samples: &[Sample], centers: &[[f32; 3]]) -> Vec<Sample> {
    let mut sums = vec![([0.0_f64; 3], 0.0); centers.len()];
    for sample in samples {
        let far = |center: &[f32; 3]| squared_distance(sample.color, *center);
        let nearest = centers.iter().zip(&mut sums).min_by(|(a, _), (b, _)| far(a).total_cmp(&far(b)));
        if let Some((_, (sum, weight))) = nearest {
            for (sum, value) in sum.iter_mut().zip(sample.color) {
                *sum += f64::from(value) * sample.weight;
            }
            *weight += sample.weight;
        }
    }
    let filled = sums.into_iter().filter(|(_, weight)| *weight > 0.0);
    filled.map(|(sum, weight)| Sample { color: sum.map(|sum| (sum / weight) as f32), weight }).collect()
}

fn merge_alike(clusters: &mut Vec<Sample>) {
    while let Some((one, other)) = nearest_pair(clusters) {
        let gone = clusters.swap_remove(other);
        if let Some(kept) = clusters.get_mut(one) {
            let total = kept.weight + gone.weight;
            let share = (gone.weight / total) as f32;
            for (value, added) in kept.color.iter_mut().zip(gone.color) {
                *value += share * (added - *value);
            }
            kept.weight = total;
        }
    }
}

/// Returns the two most similar clusters if their distance is below `ALIKE`, smaller index first.
fn nearest_pair(clusters: &[Sample]) -> Option<(usize, usize)> {
    let pairs = clusters.iter().enumerate().flat_map(|(other, b)| {
        clusters
            .iter()
            .enumerate()
            .take(other)
            .map(move |(one, a)| (squared_distance(a.color, b.color), one, other))
    });
    let (nearest, one, other) = pairs.min_by(|(a, ..), (b, ..)| a.total_cmp(b))?;
    (nearest < ALIKE * ALIKE).then_some((one, other))
}

fn code(color: [f32; 3]) -> String {
    let [r, g, b] = oklab::to_srgb(color).map(to_byte);
    format!("#{r:02x}{g:02x}{b:02x}")
}
