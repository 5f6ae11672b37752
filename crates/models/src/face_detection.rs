//! Face detection: finds frontal faces with a cascade of Haar features and draws a box around each.

use std::borrow::Cow;
use std::sync::OnceLock;

use crate::cascade::{Cascade, WINDOW};
use crate::draw;
use crate::memory::Need;
use crate::model::{BuiltIn, Outputs};
use crate::picture::Picture;
use crate::plane::Plane;
use crate::pyramid::halved;
use crate::{Error, Inputs, Limits};

const NEED: Need = Need { pixel: 14, reduced_pixel: 28, least: 0 };
/// Ratio of successive face sizes.
const GROWTH: f64 = 1.1;
/// Difference of two windows of the same face, as a share of their size.
const SAME: f32 = 0.2;
/// Number of overlapping windows for a confidence of one half.
const HALF_SURE: f64 = 4.0;
const GREEN: [f32; 3] = [0.1, 0.95, 0.3];
const BLACK: [f32; 3] = [0.0; 3];

/// Smallest face, as a share of the shorter side of the picture: people nearby look large.
const RANGES: &[(&str, f64)] = &[
    ("Short-range model (best for faces within 2 meters)", 1.0 / 7.0),
    ("Full-range model (best for faces within 5 meters)", 1.0 / 30.0),
];

pub(crate) const MODEL: BuiltIn = BuiltIn { kind: "face-detection", need: NEED, run };

fn run(inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
    let share = inputs.choice("model", RANGES)?;
    let confidence = inputs.number("confidence", 0.0..=1.0)?;
    let mut picture = Picture::read(inputs, "input", NEED, limits)?;
    let size = searched_size(&picture, share);
    let scale = picture.width as f32 / size.0 as f32;
    let faces = faces(&picture.luma(size, limits)?, share, confidence, limits)?;
    if faces.is_empty() {
        draw::label(&mut picture, "no face found");
    }
    let thickness = (picture.shorter_side() as f32 / 300.0).max(1.5);
    for Window { left, top, size } in faces {
        let [left, top, size] = [left, top, size].map(|value| value * scale);
        let corners = ((left, top), (left + size, top + size));
        // A dark rim keeps the box visible on bright and on green things.
        draw::rectangle(&mut picture, corners.0, corners.1, thickness + 2.0, BLACK);
        draw::rectangle(&mut picture, corners.0, corners.1, thickness, GREEN);
    }
    Ok(vec![("output", picture.into_file()?)])
}

/// Returns the size at which the smallest faces are 2.5 windows of the cascade large; more finds nothing else.
pub(crate) fn searched_size(picture: &Picture, share: f64) -> (usize, usize) {
    picture.scaled_size((2.5 * WINDOW as f64 / share / picture.shorter_side() as f64).min(1.0))
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) left: f32,
    pub(crate) top: f32,
    pub(crate) size: f32,
}

/// Returns the frontal faces of at least `share` of the shorter side with at least this confidence.
pub(crate) fn faces(
    luma: &Plane,
    share: f64,
    confidence: f64,
    limits: &Limits,
) -> Result<Vec<Window>, Error> {
    static CASCADE: OnceLock<Option<Cascade>> = OnceLock::new();
    let parse = || Cascade::parse(include_str!("../data/frontal-face/cascade.txt"));
    let Some(cascade) = CASCADE.get_or_init(parse) else {
        return Err(Error::Failed { reason: "the cascade of the face detector is damaged".to_owned() });
    };
    let shorter = luma.width.min(luma.height) as f64;
    let mut size = (shorter * share).max(WINDOW as f64);
    let (mut windows, mut base) = (Vec::new(), Cow::Borrowed(luma));
    while size <= shorter {
        let scale = size / WINDOW as f64;
        let [width, height] = [luma.width, luma.height].map(|side| (side as f64 / scale).round() as usize);
        // Scales down from the nearest half: scaling the whole picture each time would dominate the run time.
        while width * 2 <= base.width && height * 2 <= base.height {
            base = Cow::Owned(halved(&base, limits)?);
        }
        let small = base.resized(width, height, limits)?;
        // Small faces are sampled at every second pixel: they are many, and their pixels are fine.
        let step = if scale > 2.0 { 1 } else { 2 };
        for (left, top) in cascade.passing(&small, step, limits)? {
            let [left, top] = [left, top].map(|at| (at as f64 * scale) as f32);
            windows.push(Window { left, top, size: size as f32 });
        }
        size *= GROWTH;
    }
    let sure = |group: &Vec<Window>| {
        let agreeing = group.len() as f64;
        agreeing / (agreeing + HALF_SURE) >= confidence
    };
    Ok(without_inner(
        groups(&windows, limits)?
            .iter()
            .filter(|group| sure(group))
            .filter_map(|group| mean(group))
            .collect(),
    ))
}

fn groups(windows: &[Window], limits: &Limits) -> Result<Vec<Vec<Window>>, Error> {
    let mut groups: Vec<Vec<Window>> = Vec::new();
    for window in windows {
        limits.check_time()?;
        let same = |other: &Window| {
            let near = SAME * 0.5 * (window.size.min(other.size) * 2.0);
            [window.left - other.left, window.top - other.top, window.size - other.size]
                .into_iter()
                .all(|difference| difference.abs() <= near)
        };
        // A window may join groups that were apart before.
        let (joined, mut rest): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.iter().any(same));
        let mut group: Vec<Window> = joined.into_iter().flatten().collect();
        group.push(*window);
        rest.push(group);
        groups = rest;
    }
    Ok(groups)
}

fn mean(group: &[Window]) -> Option<Window> {
    let count = group.len() as f32;
    let of = |part: fn(&Window) -> f32| group.iter().map(part).sum::<f32>() / count;
    (count > 0.0).then(|| Window {
        left: of(|window| window.left),
        top: of(|window| window.top),
        size: of(|window| window.size),
    })
}

/// Removes boxes inside the middle of a larger one, which are false positives.
fn without_inner(faces: Vec<Window>) -> Vec<Window> {
    let holds = |outer: &Window, inner: &Window| {
        let middle = (inner.left + inner.size / 2.0, inner.top + inner.size / 2.0);
        outer.size > inner.size
            && (outer.left..outer.left + outer.size).contains(&middle.0)
            && (outer.top..outer.top + outer.size).contains(&middle.1)
    };
    faces.iter().filter(|inner| !faces.iter().any(|outer| holds(outer, inner))).copied().collect()
}
