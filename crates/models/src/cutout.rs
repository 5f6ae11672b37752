//! Segmentation of the subject: the opacity of each pixel, and its color without the background that shines through.
//!
//! Pixels at the border of a picture are mostly background; pixels of other colors are the first guess of the
//! subject. Color models of both sides and a random walk that stops at edges (Grady, 2005) then refine each
//! other. A neural network finds people whose colors resemble the background.

use crate::color_model::{Color, ColorModel};
use crate::guided::GuidedFilter;
use crate::oklab;
use crate::people;
use crate::picture::{Picture, luma, to_byte};
use crate::plane::{Plane, pixels};
use crate::random_walk::RandomWalk;
use crate::resample::Enlarged;
use crate::{Error, Limits};

/// Longer side of the reduced picture used for segmentation.
const SMALL: usize = 320;
/// Width of the border that counts as background, as a share of the shorter side.
const BORDER: f32 = 0.06;
const ROUNDS: usize = 5;
/// Weight of the prior that subjects are in the middle.
const CENTER: f32 = 1.2;
/// Plausible share of the picture for a subject.
const PLAUSIBLE: std::ops::Range<f32> = 0.005..0.97;
/// Above this confusion, subject and background have the same colors, and the result would be arbitrary.
const MAX_CONFUSION: f32 = 0.15;
/// Overlap from which the color model and the network for people agree.
const MIN_OVERLAP: f32 = 0.8;
/// Opacity from which a pixel is fully subject.
const SURE: f32 = 0.97;
/// Size below which a piece is a speck, as a share of the largest piece.
const SPECK: f32 = 0.05;

/// Returns the opacity of each pixel. Colors at the edge of the subject become those of the subject nearby.
pub(crate) fn cut(picture: &mut Picture, input: &str, limits: &Limits) -> Result<Vec<u8>, Error> {
    let rough = rough(picture, input, limits)?;
    // Guided filter: edges are fitted at the reduced size and drawn at the full size.
    let size = picture.reduced_size();
    let colors = picture.planes(size, limits)?;
    let guide = Plane::of_pixels(&colors, luma);
    let radius = (2 * size.0.max(size.1)).div_ceil(rough.width.max(rough.height));
    let edges = GuidedFilter::fit(&rough.resized(size.0, size.1, limits)?, &guide, radius, 1e-4, limits)?;
    let inner = Inner::of(colors, &edges.over(&guide), limits)?;
    drop(guide);
    let (width, height) = (picture.width, picture.height);
    let mut planes = Enlarged::new(
        [&edges.slope, &edges.offset, &inner.near].into_iter().chain(&inner.colors).collect(),
        width,
        height,
    );
    let mut rows = [(); 6].map(|()| vec![0.0; width]);
    let mut subject = Vec::with_capacity(width * height);
    picture.change_rows(limits, |y, [red, green, blue]| {
        for (number, row) in rows.iter_mut().enumerate() {
            planes.row(number, y, row);
        }
        let [slopes, offsets, near, inner @ ..] = &rows;
        for x in 0..width {
            let belongs = sharpened(slopes[x] * luma([red[x], green[x], blue[x]]) + offsets[x]);
            if near[x] > 1e-3 && belongs < SURE {
                for (values, inner) in [&mut *red, green, blue].into_iter().zip(inner) {
                    values[x] += (1.0 - belongs) * (inner[x] / near[x] - values[x]);
                }
            }
            subject.push(to_byte(belongs));
        }
    })?;
    if let Some(alpha) = &picture.alpha {
        subject.iter_mut().zip(alpha).for_each(|(subject, alpha)| *subject = (*subject).min(*alpha));
    }
    Ok(subject)
}

fn sharpened(belongs: f32) -> f32 {
    ((belongs - 0.5) * 2.2 + 0.5).clamp(0.0, 1.0)
}

/// Colors of the sure parts of the subject near each pixel, and their amount.
struct Inner {
    near: Plane,
    colors: [Plane; 3],
}

impl Inner {
    fn of(colors: [Plane; 3], belongs: &Plane, limits: &Limits) -> Result<Self, Error> {
        let radius = (belongs.width.max(belongs.height) / 150).max(2);
        let sure = belongs.map(|belongs| f32::from(sharpened(belongs) > SURE));
        let [red, green, blue] = colors.map(|mut plane| {
            plane.change(&sure, |value, sure| value * sure);
            plane.box_mean(radius, limits)
        });
        Ok(Self { near: sure.box_mean(radius, limits)?, colors: [red?, green?, blue?] })
    }
}

fn rough(picture: &Picture, input: &str, limits: &Limits) -> Result<Plane, Error> {
    let (width, height) = picture.scaled_size((SMALL as f64 / picture.longer_side() as f64).min(1.0));
    let colors: Vec<Color> =
        pixels(&picture.planes((width, height), limits)?).map(oklab::from_srgb).collect();
    let (found, confused) = search(&colors, width, height, limits)?;
    let rough = without_specks(&found);
    let is_clear = PLAUSIBLE.contains(&rough.mean()) && confused <= MAX_CONFUSION;
    let people = people::find(picture, limits)?.filter(|people| people.confidence >= people::LIKELY);
    let Some(people) = people else {
        return is_clear.then_some(rough).ok_or_else(|| unclear(input));
    };
    // The color model has better edges than the network, if both see the same subject.
    let is_certain = people.confidence >= people::CERTAIN;
    let agree = is_clear && overlap(&rough, &people.mask.resized(width, height, limits)?) >= MIN_OVERLAP;
    Ok(if agree || (is_clear && !is_certain) { rough } else { people.mask })
}

fn unclear(input: &str) -> Error {
    let reason = "it shows no person, and nothing in it stands out clearly from its border; send a picture whose \
                      subject differs from its background in color";
    Error::Unusable { input: input.to_owned(), reason: reason.to_owned() }
}

/// Returns the intersection over union of two masks.
fn overlap(one: &Plane, other: &Plane) -> f32 {
    let both = one.zip(other, |one, other| f32::from(one > 0.5 && other > 0.5)).mean();
    let either = one.zip(other, |one, other| f32::from(one > 0.5 || other > 0.5)).mean();
    both / either.max(f32::EPSILON)
}

/// Returns the subject mask, and the confusion between the colors of both sides.
fn search(colors: &[Color], width: usize, height: usize, limits: &Limits) -> Result<(Plane, f32), Error> {
    let failed = || Error::Failed { reason: "the colors of the picture cannot be modeled".to_owned() };
    let border = border(width, height);
    let place = place(&border);
    let weighted = |weight: &dyn Fn(usize) -> f32| -> Vec<(Color, f32)> {
        colors.iter().enumerate().map(|(at, color)| (*color, weight(at))).collect()
    };
    let background = ColorModel::fit(&weighted(&|at| border.values[at])).ok_or_else(failed)?;
    // First guess: pixels some deviations away from the border's colors.
    let first = |at: usize| {
        let away = (background.distance(colors[at]).sqrt() - 3.0).clamp(-4.0, 4.0);
        sigmoid(away + place.values[at])
    };
    let guesses: Vec<f32> = (0..colors.len()).map(first).collect();
    let walk = RandomWalk::of(colors, width, height);
    let mut subject = walk.spread(&guesses, limits)?;
    let mut confused = 0.0;
    for _ in 0..ROUNDS {
        let belongs: Vec<f32> =
            subject.values.iter().map(|value| ((value - 0.5) * 4.0 + 0.5).clamp(0.0, 1.0)).collect();
        let (Some(ours), Some(theirs)) = (
            ColorModel::fit(&weighted(&|at| belongs[at])),
            ColorModel::fit(&weighted(&|at| 1.0 - belongs[at])),
        ) else {
            break;
        };
        let odds: Vec<f32> = colors.iter().map(|c| ours.log_density(*c) - theirs.log_density(*c)).collect();
        confused = confusion(&odds, &subject);
        let guesses = odds.iter().enumerate().map(|(at, odds)| {
            let colors_say = odds.clamp(-4.0, 4.0);
            let so_far = 2.0 * (2.0 * subject.values[at] - 1.0);
            sigmoid(colors_say + so_far + place.values[at])
        });
        subject = walk.spread(&guesses.collect::<Vec<f32>>(), limits)?;
    }
    Ok((subject.map(|value| sigmoid((value - 0.5) * 16.0)), confused))
}

/// Returns the confusion: the share of each side whose colors fit the other side better, summed.
fn confusion(odds: &[f32], subject: &Plane) -> f32 {
    let share = |ours: bool| {
        let side = odds.iter().zip(&subject.values).filter(|(_, value)| (**value > 0.5) == ours);
        let (wrong, all) =
            side.fold((0, 0), |(wrong, all), (odds, _)| (wrong + u32::from((*odds > 0.0) != ours), all + 1));
        wrong as f32 / (all as f32).max(1.0)
    };
    share(true) + share(false)
}

fn sigmoid(odds: f32) -> f32 {
    1.0 / (1.0 + (-odds).exp())
}

/// Returns 1 at the left, right and upper border. Subjects often stand on the lower one.
fn border(width: usize, height: usize) -> Plane {
    let wide = (width.min(height) as f32 * BORDER).max(1.0) as usize;
    let mut border = Plane::filled(width, height, 0.0);
    for (y, row) in border.rows_mut().enumerate() {
        for (x, value) in row.iter_mut().enumerate() {
            if y < wide || ((x < wide || x + wide >= width) && y < height * 9 / 10) {
                *value = 1.0;
            }
        }
    }
    border
}

/// Returns the prior of each pixel by its position: subjects are rarely at the border.
fn place(border: &Plane) -> Plane {
    let mut place = border.map(|value| -2.5 * value);
    let (width, height) = (place.width as f32, place.height as f32);
    for (y, row) in place.rows_mut().enumerate() {
        let down = (y as f32 + 0.5) / height - 0.55;
        for (x, value) in row.iter_mut().enumerate() {
            let across = (x as f32 + 0.5) / width - 0.5;
            *value += CENTER * (2.0 * (-8.0 * (across * across + down * down)).exp() - 1.0);
        }
    }
    place
}

/// Removes small pieces and fills small holes.
fn without_specks(subject: &Plane) -> Plane {
    let mut cleaned = subject.clone();
    for is_piece in [true, false] {
        let pieces = pieces(&cleaned, is_piece);
        let largest = pieces.iter().map(Vec::len).max().unwrap_or(0) as f32;
        for piece in pieces.iter().filter(|piece| (piece.len() as f32) < SPECK * largest) {
            for at in piece {
                cleaned.values[*at] = if is_piece { 0.0 } else { 1.0 };
            }
        }
    }
    cleaned
}

fn pieces(subject: &Plane, above: bool) -> Vec<Vec<usize>> {
    let (width, height) = (subject.width, subject.height);
    let mut open: Vec<bool> = subject.values.iter().map(|value| (*value >= 0.5) == above).collect();
    let mut pieces = Vec::new();
    for start in 0..open.len() {
        let mut piece = Vec::new();
        let mut next = vec![start];
        while let Some(at) = next.pop() {
            if std::mem::take(&mut open[at]) {
                piece.push(at);
                let (x, y) = (at % width, at / width);
                next.extend((x > 0).then(|| at - 1));
                next.extend((x + 1 < width).then(|| at + 1));
                next.extend((y > 0).then(|| at - width));
                next.extend((y + 1 < height).then(|| at + width));
            }
        }
        if !piece.is_empty() {
            pieces.push(piece);
        }
    }
    pieces
}
