//! Super-resolution: doubles the size by Lanczos' filter and iterative back-projection (Irani and Peleg,
//! 1991), which corrects the large picture until its reduction equals the small one.

use multiversion::multiversion;

use crate::memory::Need;
use crate::model::{BuiltIn, Outputs};
use crate::picture::Picture;
use crate::tile::{Channels, Columns, MARGIN, STEPS, Tile, doubled};
use crate::{Error, Inputs, Limits};

/// The output has four times as many pixels as the input.
const NEED: Need = Need { pixel: 36, reduced_pixel: 85, least: 0 };
/// Rounds of back-projection, each of which corrects by 1.75 times the error: as good as eight rounds of once the error.
const ROUNDS: usize = 2;
/// Maximum overshoot beyond neighboring values: some is sharpness, more is a halo.
const OVERSHOOT: i16 = 5 * STEPS;
/// Taps of Lanczos' filter for a new pixel between six source pixels, in steps of 65,536. The fourth is one less.
const LANCZOS: [i16; 6] = [484, -4456, 17_761, -7027, -8735, 1973];
/// Halo of a pixel: the filter, and one pixel per round.
const HALO: usize = LANCZOS.len() / 2 + ROUNDS;

pub(crate) const MODEL: BuiltIn = BuiltIn { kind: "super-resolution", need: NEED, run };

fn run(inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
    let small = Picture::read(inputs, "input_image", NEED, limits)?;
    let large = doubled(small, HALO, limits, Channels::Colors, |tiles, _| tiles.each_ref().map(upscaled))?;
    Ok(vec![("output_image", large)])
}

fn upscaled(small: &Tile) -> Columns {
    let mut large = enlarged(small);
    let (least, most) = bounds(small);
    let mut error = Tile::new(small.width, small.height);
    for _ in 0..ROUNDS {
        for y in 0..small.height {
            let rows = [2 * y, 2 * y + 1].map(|y| y as isize);
            let parts = [&large.even, &large.odd].map(|columns| rows.map(|y| columns.row(y, 0)));
            write_error(small.row(y as isize, 0), parts.as_flattened(), error.row_mut(y));
        }
        error.pad();
        correct(&mut large, &error, &least, &most);
    }
    large
}

fn enlarged(small: &Tile) -> Columns {
    const REACH: isize = LANCZOS.len() as isize / 2;
    let mut large = Columns::new(small.width, 2 * small.height);
    let mut high = vec![0; small.stride()];
    for y in 0..2 * small.height {
        // Odd rows and columns mirror the filter of even ones.
        let sign = if y % 2 == 0 { 1 } else { -1 };
        let rows = [0, 1, 2, 3, 4, 5].map(|tap| small.whole_row((y / 2) as isize + sign * (tap - REACH)));
        weigh(rows, &mut high);
        let near = |tap: usize| &high[tap..][..small.width];
        weigh([0, 1, 2, 3, 4, 5].map(near), large.even.row_mut(y));
        weigh([6, 5, 4, 3, 2, 1].map(near), large.odd.row_mut(y));
    }
    large
}

#[multiversion(targets("x86_64+avx2"))]
fn weigh(lines: [&[i16]; 6], into: &mut [i16]) {
    /// Mean of what the shifts of six products cut off.
    const CUT_OFF: i16 = 3;
    let [a, b, c, d, e, f] = lines;
    let outer = a.iter().zip(b).zip(c);
    let inner = d.iter().zip(e).zip(f);
    for (value, (((a, b), c), ((d, e), f))) in into.iter_mut().zip(outer.zip(inner)) {
        let before = product(*a, LANCZOS[0]).wrapping_add(product(*b, LANCZOS[1]));
        let near = product(*c, LANCZOS[2]).wrapping_add(product(*d, LANCZOS[3])).wrapping_add(*d);
        let behind = product(*e, LANCZOS[4]).wrapping_add(product(*f, LANCZOS[5]));
        *value = before.wrapping_add(near).wrapping_add(behind).wrapping_add(CUT_OFF);
    }
}

/// Returns a number times a weight in steps of 65,536.
#[inline(always)]
fn product(value: i16, weight: i16) -> i16 {
    ((i32::from(value) * i32::from(weight)) >> 16) as i16
}

/// Returns the bounds of each pixel: the minimum and the maximum of its 3×3 neighborhood, with some overshoot.
fn bounds(small: &Tile) -> (Tile, Tile) {
    let [mut least, mut most] = [(); 2].map(|()| Tile::new(small.width, small.height));
    let [mut low, mut high] = [(); 2].map(|()| vec![0; small.stride()]);
    for y in 0..small.height {
        let rows = [-1, 0, 1].map(|step| small.whole_row(y as isize + step));
        write_least(rows, 0, &mut low);
        write_least([0, 1, 2].map(|at| &low[MARGIN - 1 + at..][..small.width]), -OVERSHOOT, least.row_mut(y));
        write_most(rows, 0, &mut high);
        write_most([0, 1, 2].map(|at| &high[MARGIN - 1 + at..][..small.width]), OVERSHOOT, most.row_mut(y));
    }
    (least, most)
}

#[multiversion(targets("x86_64+avx2"))]
fn write_least([a, b, c]: [&[i16]; 3], more: i16, into: &mut [i16]) {
    for (value, ((a, b), c)) in into.iter_mut().zip(a.iter().zip(b).zip(c)) {
        *value = (*a).min(*b).min(*c).wrapping_add(more);
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn write_most([a, b, c]: [&[i16]; 3], more: i16, into: &mut [i16]) {
    for (value, ((a, b), c)) in into.iter_mut().zip(a.iter().zip(b).zip(c)) {
        *value = (*a).max(*b).max(*c).wrapping_add(more);
    }
}

/// Writes the error: the small picture minus the large one averaged over 2×2 pixels.
#[multiversion(targets("x86_64+avx2"))]
fn write_error(small: &[i16], parts: &[&[i16]], error: &mut [i16]) {
    let &[a, b, c, d] = parts else { return };
    let large = a.iter().zip(b).zip(c.iter().zip(d));
    for ((error, small), ((a, b), (c, d))) in error.iter_mut().zip(small).zip(large) {
        let sum = a.wrapping_add(*b).wrapping_add(*c).wrapping_add(*d);
        *error = small.wrapping_sub(sum.wrapping_add(2) >> 2);
    }
}

/// Adds 1.75 times the interpolated error, within the bounds.
fn correct(large: &mut Columns, error: &Tile, least: &Tile, most: &Tile) {
    let mut mixed = vec![0; error.stride()];
    for y in 0..large.even.height {
        let middle = (y / 2) as isize;
        let next = if y % 2 == 0 { middle - 1 } else { middle + 1 };
        mix(error.whole_row(middle), error.whole_row(next), &mut mixed);
        let near = |aside: usize| &mixed[MARGIN - 1 + aside..][..error.width];
        let bounds = [least.row(middle, 0), most.row(middle, 0)];
        add_error(near(1), near(0), bounds, large.even.row_mut(y));
        add_error(near(1), near(2), bounds, large.odd.row_mut(y));
    }
}

#[inline(always)]
fn mixture(near: i16, far: i16) -> i16 {
    near.wrapping_add(far.wrapping_sub(near) >> 2)
}

#[multiversion(targets("x86_64+avx2"))]
fn mix(near: &[i16], far: &[i16], into: &mut [i16]) {
    for (value, (near, far)) in into.iter_mut().zip(near.iter().zip(far)) {
        *value = mixture(*near, *far);
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn add_error(near: &[i16], far: &[i16], [least, most]: [&[i16]; 2], row: &mut [i16]) {
    let errors = near.iter().zip(far).map(|(near, far)| mixture(*near, *far));
    for ((value, error), (least, most)) in row.iter_mut().zip(errors).zip(least.iter().zip(most)) {
        let correction = error.wrapping_add(error).wrapping_sub(error >> 2);
        *value = value.wrapping_add(correction).max(*least).min(*most);
    }
}
