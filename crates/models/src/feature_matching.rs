//! Feature matching: finds the same points in two views and draws lines between them.

use crate::draw;
use crate::features::{self, Feature};
use crate::memory::Need;
use crate::model::{BuiltIn, Outputs};
use crate::picture::Picture;
use crate::{Error, Inputs, Limits};

/// For two pictures and their combined drawing.
const NEED: Need = Need { pixel: 26, reduced_pixel: 30, least: 0 };
const MAX_FEATURES: usize = 1500;
/// Ratio test: maximum distance of the best match relative to the second best.
const RATIO: f32 = 0.85;
/// Maximum Hamming distance of a match.
const MAX_DISTANCE: u32 = 72;
const MAX_LINES: usize = 80;
/// RANSAC: number of guesses of the change of view, and tolerance of a match as a share of the picture.
const GUESSES: usize = 2000;
const TOLERANCE: f32 = 0.02;
/// Maximum size of the drawing, as a multiple of the larger picture.
const MAX_DRAWING: usize = 4;
/// Fewer matches than this agree by chance.
const LEAST_AGREEING: usize = 8;

pub(crate) const MODEL: BuiltIn = BuiltIn { kind: "feature-matching", need: NEED, run };

fn run(inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
    let first = Picture::read(inputs, "input_1", NEED, limits)?;
    let second = Picture::read(inputs, "input_2", NEED, limits)?;
    check_shapes(&first, &second)?;
    let ours = found(&first, limits)?;
    let theirs = found(&second, limits)?;
    let size = second.longer_side() as f32;
    let matches = agreeing(matches(&ours, &theirs, limits)?, TOLERANCE * size, limits)?;
    Ok(vec![("output", drawn(first, second, &matches).into_file()?)])
}

fn found(picture: &Picture, limits: &Limits) -> Result<Vec<Feature>, Error> {
    let size = picture.reduced_size();
    let mut features = features::find(&picture.luma(size, limits)?, MAX_FEATURES, limits)?;
    let scale = picture.width as f32 / size.0 as f32;
    for feature in &mut features {
        feature.place = (feature.place.0 * scale, feature.place.1 * scale);
    }
    Ok(features)
}

/// Rejects pictures whose drawing would be mostly empty: it would take more memory than both.
fn check_shapes(first: &Picture, second: &Picture) -> Result<(), Error> {
    let area = |picture: &Picture| picture.width * picture.height;
    let (width, height) = side_by_side_size(first, second);
    if width * height <= MAX_DRAWING * area(first).max(area(second)) {
        return Ok(());
    }
    let reason = format!(
        "beside `input_1` it makes a drawing of {width} x {height} pixels; send two pictures of a similar shape"
    );
    Err(Error::Unusable { input: "input_2".to_owned(), reason })
}

#[derive(Debug, Clone, Copy)]
struct Match {
    first: (f32, f32),
    second: (f32, f32),
    difference: u32,
}

/// Returns mutual best matches that pass the ratio test.
fn matches(ours: &[Feature], theirs: &[Feature], limits: &Limits) -> Result<Vec<Match>, Error> {
    let forth = best(ours, theirs, limits)?;
    let back = best(theirs, ours, limits)?;
    let mut matches = Vec::new();
    for (index, (feature, found)) in ours.iter().zip(&forth).enumerate() {
        if let Some((other, difference)) = *found
            && let Some(Some((returned, _))) = back.get(other)
            && *returned == index
        {
            matches.push(Match { first: feature.place, second: theirs[other].place, difference });
        }
    }
    matches.sort_by_key(|found| found.difference);
    Ok(matches)
}

/// Returns the index of the nearest feature for each feature, unless the second nearest is almost as near.
fn best(
    features: &[Feature],
    among: &[Feature],
    limits: &Limits,
) -> Result<Vec<Option<(usize, u32)>>, Error> {
    let mut found = Vec::with_capacity(features.len());
    for feature in features {
        limits.check_time()?;
        let (mut nearest, mut least, mut next) = (None, u32::MAX, u32::MAX);
        for (index, other) in among.iter().enumerate() {
            let difference = features::distance(&feature.descriptor, &other.descriptor);
            // The same point on another scale is no competitor.
            let same = |index: usize| {
                let (a, b) = (among[index].place, other.place);
                (a.0 - b.0).hypot(a.1 - b.1) < 6.0
            };
            if difference < least {
                if !nearest.is_some_and(same) {
                    next = least;
                }
                (nearest, least) = (Some(index), difference);
            } else if difference < next && !nearest.is_some_and(same) {
                next = difference;
            }
        }
        let clear = least <= MAX_DISTANCE && (least as f32) < RATIO * next as f32;
        found.push(nearest.filter(|_| clear).map(|index| (index, least)));
    }
    Ok(found)
}

/// Affine transformation between the views: factors of both coordinates, and an offset.
type Affine = [[f32; 3]; 2];

/// RANSAC: returns the matches that agree with the best guess; none if the agreement could be chance.
fn agreeing(matches: Vec<Match>, tolerance: f32, limits: &Limits) -> Result<Vec<Match>, Error> {
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let fits = |affine: &Affine, found: &Match| {
        let [x, y] =
            affine.map(|[across, down, shift]| across * found.first.0 + down * found.first.1 + shift);
        (x - found.second.0).hypot(y - found.second.1) < tolerance
    };
    let (mut most, mut best) = (LEAST_AGREEING - 1, None);
    for _ in 0..GUESSES {
        limits.check_time()?;
        if matches.len() < LEAST_AGREEING {
            break;
        }
        // Prefer good matches, which come first.
        let mut pick = || {
            let within = random(matches.len()) + 1;
            matches[random(within)]
        };
        if let Some(affine) = affine([pick(), pick(), pick()]) {
            let count = matches.iter().filter(|found| fits(&affine, found)).count();
            if count > most {
                (most, best) = (count, Some(affine));
            }
        }
    }
    let Some(best) = best else { return Ok(Vec::new()) };
    Ok(matches.into_iter().filter(|found| fits(&best, found)).collect())
}

/// Returns the affine transformation of three matches, unless it is implausible: mirrored, or much larger or smaller.
fn affine([a, b, c]: [Match; 3]) -> Option<Affine> {
    let side = |from: (f32, f32), to: (f32, f32)| (to.0 - from.0, to.1 - from.1);
    let (u, v) = (side(a.first, b.first), side(a.first, c.first));
    let area = u.0 * v.1 - u.1 * v.0;
    if area.abs() < 100.0 {
        return None;
    }
    let (p, q) = (side(a.second, b.second), side(a.second, c.second));
    let change = (p.0 * q.1 - p.1 * q.0) / area;
    let row = |p: f32, q: f32, end: f32| {
        let across = (p * v.1 - q * u.1) / area;
        let down = (q * u.0 - p * v.0) / area;
        [across, down, end - across * a.first.0 - down * a.first.1]
    };
    (0.05..20.0).contains(&change).then(|| [row(p.0, q.0, a.second.0), row(p.1, q.1, a.second.1)])
}

/// Draws both views side by side, with a line for each match, clearest last.
fn drawn(first: Picture, second: Picture, matches: &[Match]) -> Picture {
    let offset = first.width as f32;
    let mut both = side_by_side(first, second);
    let thickness = (both.height as f32 / 400.0).max(1.0);
    if matches.is_empty() {
        draw::label(&mut both, "no match found");
    }
    let shown = matches.len().min(MAX_LINES);
    // Evenly spaced, so that the lines cover the picture.
    for index in 0..shown {
        let found = matches[index * matches.len() / shown];
        let hue = index as f32 * 137.5;
        let color = [0.0, 120.0, 240.0].map(|shift| 0.55 + 0.45 * (hue + shift).to_radians().cos());
        let (from, to) = (found.first, (found.second.0 + offset, found.second.1));
        draw::line(&mut both, from, to, thickness, color);
        for end in [from, to] {
            draw::dot(&mut both, end, 4.0 * thickness, color);
        }
    }
    both
}

fn side_by_side_size(first: &Picture, second: &Picture) -> (usize, usize) {
    (first.width + second.width, first.height.max(second.height))
}

fn side_by_side(first: Picture, second: Picture) -> Picture {
    const PAPER: u8 = 255;
    let (width, height) = side_by_side_size(&first, &second);
    let mut colors = vec![PAPER; 3 * width * height];
    for (y, row) in colors.chunks_exact_mut(3 * width).enumerate() {
        let (left, right) = row.split_at_mut(3 * first.width);
        for (picture, part) in [(&first, left), (&second, right)] {
            if y < picture.height {
                part.copy_from_slice(picture.row(y));
            }
        }
    }
    // Opaque, so that lines are visible over transparent areas.
    Picture { width, height, colors, alpha: None, form: first.form }
}
