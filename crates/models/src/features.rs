//! Features that can be found again in another view: corners on several scales, each with an orientation and
//! a binary descriptor (after ORB, Rublee et al., 2011).

use multiversion::multiversion;

use crate::plane::Plane;
use crate::{Error, Limits};

/// Ratio of successive scales.
const SCALE: f32 = 1.25;
const SCALES: usize = 7;
/// Radius of a descriptor, in pixels.
const REACH: usize = 16;
/// Circle around a tested pixel: a corner has nine consecutive pixels that are all brighter or all darker
/// (FAST-9, Rosten and Drummond, 2006).
const CIRCLE: [(isize, isize); 16] = [
    (0, -3),
    (1, -3),
    (2, -2),
    (3, -1),
    (3, 0),
    (3, 1),
    (2, 2),
    (1, 3),
    (0, 3),
    (-1, 3),
    (-2, 2),
    (-3, 1),
    (-3, 0),
    (-3, -1),
    (-2, -2),
    (-1, -3),
];
const ARC: u32 = 9;
const CONTRAST: f32 = 0.04;
const PAIRS: usize = 256;

/// Binary descriptor: one comparison of brightness per pair of pixels.
pub(crate) type Descriptor = [u64; PAIRS / 64];

#[derive(Debug, Clone)]
pub(crate) struct Feature {
    pub(crate) place: (f32, f32),
    pub(crate) descriptor: Descriptor,
    strength: f32,
}

/// Returns at most `most` features, spread over the picture.
pub(crate) fn find(luma: &Plane, most: usize, limits: &Limits) -> Result<Vec<Feature>, Error> {
    let pairs = pairs();
    let mut features = Vec::new();
    let mut scale = 1.0;
    for _ in 0..SCALES {
        let [width, height] = [luma.width, luma.height].map(|size| (size as f32 / scale).round() as usize);
        if width <= 2 * REACH || height <= 2 * REACH {
            break;
        }
        let level = luma.resized(width, height, limits)?;
        let smooth = level.box_mean(1, limits)?.box_mean(1, limits)?;
        // Each scale has a share by its number of pixels.
        let share = (most as f32 / (scale * scale) * (1.0 - 1.0 / (SCALE * SCALE))) as usize;
        for (x, y, strength) in spread(corners(&level, limits)?, &level, share.max(8)) {
            let angle = orientation(&smooth, x, y);
            let place = ((x as f32 + 0.5) * scale, (y as f32 + 0.5) * scale);
            features.push(Feature { place, descriptor: describe(&smooth, x, y, angle, &pairs), strength });
        }
        scale *= SCALE;
    }
    features.sort_by(|a, b| b.strength.total_cmp(&a.strength));
    features.truncate(most);
    Ok(features)
}

type Corner = (usize, usize, f32);

fn corners(level: &Plane, limits: &Limits) -> Result<Vec<Corner>, Error> {
    let mut strengths = Plane::filled(level.width, level.height, 0.0);
    let steps = CIRCLE.map(|(dx, dy)| dy * level.width as isize + dx);
    let mut possible = vec![false; level.width];
    for y in REACH..level.height - REACH {
        limits.check_time()?;
        mark_possible([-3, 0, 3].map(|step| level.row(y as isize + step)), &mut possible);
        for x in (REACH..level.width - REACH).filter(|x| possible[*x]) {
            let at = y * level.width + x;
            let center = level.values[at];
            let differences = steps.map(|step| level.values[at.wrapping_add_signed(step)] - center);
            let mask = |is: &dyn Fn(f32) -> bool| {
                differences
                    .iter()
                    .enumerate()
                    .fold(0_u32, |mask, (bit, value)| mask | u32::from(is(*value)) << bit)
            };
            if has_arc(mask(&|value| value > CONTRAST)) || has_arc(mask(&|value| value < -CONTRAST)) {
                strengths.values[at] =
                    differences.iter().map(|value| (value.abs() - CONTRAST).max(0.0)).sum();
            }
        }
    }
    let mut corners = Vec::new();
    for y in REACH..level.height - REACH {
        for x in REACH..level.width - REACH {
            let at = y * level.width + x;
            let strength = strengths.values[at];
            let rows = [at - level.width, at, at + level.width];
            let is_strongest =
                || rows.iter().all(|row| strengths.values[row - 1..=row + 1].iter().all(|s| *s <= strength));
            if strength > 0.0 && is_strongest() {
                corners.push((x, y, strength));
            }
        }
    }
    Ok(corners)
}

/// Marks the pixels of a row that differ from one of the pixels above and below, and from one of those beside them: an
/// arc has one of each. `rows` are those of the circle's ends and the row itself.
#[multiversion(targets("x86_64+avx2"))]
fn mark_possible([above, row, below]: [&[f32]; 3], possible: &mut [bool]) {
    let centers = row.iter().skip(3).zip(above.iter().zip(below).skip(3));
    let beside = row.iter().zip(row.iter().skip(6));
    for (possible, ((center, (above, below)), (left, right))) in
        possible.iter_mut().skip(3).zip(centers.zip(beside))
    {
        let differs = |value: &f32| (value - center).abs() > CONTRAST;
        *possible = (differs(above) | differs(below)) & (differs(left) | differs(right));
    }
}

/// Returns true if `ARC` consecutive bits are set around the circle.
fn has_arc(mask: u32) -> bool {
    let twice = mask | mask << 16;
    (1..ARC).fold(twice, |runs, step| runs & (twice >> step)) & 0xFFFF != 0
}

/// Returns the strongest corners of each grid cell, about `most` in all: coverage is worth more than clusters.
fn spread(mut corners: Vec<Corner>, level: &Plane, most: usize) -> Vec<Corner> {
    const CELLS: usize = 12;
    let cell = |(x, y, _): &Corner| y * CELLS / level.height * CELLS + x * CELLS / level.width;
    corners.sort_by(|a, b| b.2.total_cmp(&a.2));
    let mut taken = vec![0; CELLS * CELLS];
    let fair = (3 * most / (CELLS * CELLS)).max(2);
    corners.retain(|corner| {
        taken[cell(corner)] += 1;
        taken[cell(corner)] <= fair
    });
    corners.truncate(most);
    corners
}

/// Returns the direction from a corner towards brighter pixels.
fn orientation(level: &Plane, x: usize, y: usize) -> f32 {
    let reach = REACH as isize - 1;
    let (mut right, mut down) = (0.0, 0.0);
    for dy in -reach..=reach {
        let row = level.row(y as isize + dy);
        for dx in -reach..=reach {
            if dx * dx + dy * dy <= reach * reach {
                let value = row[x.wrapping_add_signed(dx)];
                right += value * dx as f32;
                down += value * dy as f32;
            }
        }
    }
    f32::atan2(down, right)
}

fn describe(level: &Plane, x: usize, y: usize, angle: f32, pairs: &[[f32; 4]]) -> Descriptor {
    let (sin, cos) = angle.sin_cos();
    let value = |dx: f32, dy: f32| {
        let [right, down] = [dx * cos - dy * sin, dx * sin + dy * cos].map(|step| step.round() as isize);
        level.row(y as isize + down)[x.wrapping_add_signed(right)]
    };
    let mut descriptor = [0; PAIRS / 64];
    for (bit, [ax, ay, bx, by]) in pairs.iter().enumerate() {
        if value(*ax, *ay) < value(*bx, *by) {
            descriptor[bit / 64] |= 1 << (bit % 64);
        }
    }
    descriptor
}

/// Returns the compared pairs of pixels of all features: dense near the corner, within the radius in every orientation.
fn pairs() -> Vec<[f32; 4]> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32
    };
    let mut place = || {
        // The sum of three uniform values is roughly normal.
        let mut offset = || (random() + random() + random() - 1.5) * 0.66 * (REACH - 2) as f32;
        (offset(), offset())
    };
    (0..PAIRS)
        .map(|_| {
            let ((ax, ay), (bx, by)) = (place(), place());
            let within = |x: f32, y: f32| 1.0_f32.min((REACH - 2) as f32 / x.hypot(y).max(1.0));
            let (a, b) = (within(ax, ay), within(bx, by));
            [ax * a, ay * a, bx * b, by * b]
        })
        .collect()
}

pub(crate) fn distance(one: &Descriptor, other: &Descriptor) -> u32 {
    one.iter().zip(other).map(|(a, b)| (a ^ b).count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arc_needs_nine_in_a_row_around_the_circle() {
        assert!(has_arc(0b0000_0001_1111_1111));
        assert!(has_arc(0b1111_0000_0001_1111));
        assert!(!has_arc(0b0000_0000_1111_1111));
        assert!(!has_arc(0b0101_0101_0101_0101));
    }
}
