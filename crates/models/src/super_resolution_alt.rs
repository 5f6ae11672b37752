//! Super-resolution, second method: doubles the size by directional cubic convolution (Zhou, Shen and Dong,
//! 2012), which interpolates every new pixel along its edge, never across it.

use multiversion::multiversion;

use crate::memory::Need;
use crate::model::{BuiltIn, Outputs};
use crate::picture::Picture;
use crate::tile::{Columns, STEPS, Tile, doubled};
use crate::{Error, Inputs, Limits};

/// The output has four times as many pixels as the input.
const NEED: Need = Need { pixel: 36, reduced_pixel: 70, least: 0 };
/// Added to both variations, so that noise is no edge.
const NOISE: i16 = 5 * STEPS;
/// Halo of a pixel in the small picture.
const HALO: usize = 4;

pub(crate) const MODEL: BuiltIn = BuiltIn { kind: "super-resolution-alt", need: NEED, run };

fn run(inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
    let small = Picture::read(inputs, "input_image", NEED, limits)?;
    let large = doubled(small, HALO, limits, upscaled)?;
    Ok(vec![("output_image", large)])
}

/// Doubles the colors, along the edges of their luma.
fn upscaled(colors: &[Tile; 3]) -> [Columns; 3] {
    let (width, height) = (colors[0].width, colors[0].height);
    let mut luma = Tile::new(width, height);
    for y in 0..height {
        write_luma(colors.each_ref().map(|color| color.row(y as isize, 0)), luma.row_mut(y));
    }
    luma.pad();
    let [red, green, blue] = colors;
    let sources = [&luma, red, green, blue];
    // First the pixels between four source pixels, along a diagonal; then the rest, which now have four neighbors, along
    // a row or a column.
    let mut centers = [(); 4].map(|()| Tile::new(width, height));
    let mut shares = vec![0; width];
    for y in 0..height {
        write_shares(rising(&luma, y), falling(&luma, y), &mut shares);
        for (source, center) in sources.iter().zip(&mut centers) {
            let [one, other] = [rising(source, y).line, falling(source, y).line];
            write_along(one, other, &shares, center.row_mut(y));
        }
    }
    centers.iter_mut().for_each(Tile::pad);
    let [center_luma, center_colors @ ..] = &centers;
    let mut large = [(); 3].map(|()| Columns::new(width, 2 * height));
    for y in 0..height {
        write_shares(beside_across(&luma, center_luma, y), beside_down(&luma, center_luma, y), &mut shares);
        for ((source, center), large) in colors.iter().zip(center_colors).zip(&mut large) {
            large.even.row_mut(2 * y).copy_from_slice(source.row(y as isize, 0));
            large.odd.row_mut(2 * y + 1).copy_from_slice(center.row(y as isize, 0));
            let [one, other] = [beside_across(source, center, y).line, beside_down(source, center, y).line];
            write_along(one, other, &shares, large.odd.row_mut(2 * y));
        }
        write_shares(below_across(&luma, center_luma, y), below_down(&luma, center_luma, y), &mut shares);
        for ((source, center), large) in colors.iter().zip(center_colors).zip(&mut large) {
            let [one, other] = [below_across(source, center, y).line, below_down(source, center, y).line];
            write_along(one, other, &shares, large.even.row_mut(2 * y + 1));
        }
    }
    large
}

/// Lines through and beside each new pixel of a row, in one direction. Each is a row of known pixels, which is moved.
struct Lines<'a> {
    /// Known pixels on the line: two before the new one, and two behind it.
    line: [&'a [i16]; 4],
    /// Known pixels on the parallel lines at both sides.
    beside: [[&'a [i16]; 3]; 2],
}

/// Returns the falling diagonals through the center right of and below each pixel of a row.
fn falling(source: &Tile, y: usize) -> Lines<'_> {
    let at = |aside: isize, down: isize| source.row(y as isize + down, aside);
    Lines {
        line: [at(-1, -1), at(0, 0), at(1, 1), at(2, 2)],
        beside: [[at(-1, 0), at(0, 1), at(1, 2)], [at(0, -1), at(1, 0), at(2, 1)]],
    }
}

/// Returns the rising diagonals through the same centers.
fn rising(source: &Tile, y: usize) -> Lines<'_> {
    let at = |aside: isize, down: isize| source.row(y as isize + down, aside);
    Lines {
        line: [at(-1, 2), at(0, 1), at(1, 0), at(2, -1)],
        beside: [[at(0, 2), at(1, 1), at(2, 0)], [at(-1, 1), at(0, 0), at(1, -1)]],
    }
}

/// Returns the rows through the new pixel right of each pixel of a row.
fn beside_across<'a>(source: &'a Tile, center: &'a Tile, y: usize) -> Lines<'a> {
    let y = y as isize;
    let beside = |y: isize| [-1, 0, 1].map(|aside| center.row(y, aside));
    Lines { line: [-1, 0, 1, 2].map(|aside| source.row(y, aside)), beside: [beside(y - 1), beside(y)] }
}

/// Returns the columns through the new pixel right of each pixel of a row.
fn beside_down<'a>(source: &'a Tile, center: &'a Tile, y: usize) -> Lines<'a> {
    let y = y as isize;
    let beside = |aside: isize| [-1, 0, 1].map(|down| source.row(y + down, aside));
    Lines { line: [-2, -1, 0, 1].map(|down| center.row(y + down, 0)), beside: [beside(0), beside(1)] }
}

/// Returns the rows through the new pixel below each pixel of a row.
fn below_across<'a>(source: &'a Tile, center: &'a Tile, y: usize) -> Lines<'a> {
    let y = y as isize;
    let beside = |y: isize| [-1, 0, 1].map(|aside| source.row(y, aside));
    Lines { line: [-2, -1, 0, 1].map(|aside| center.row(y, aside)), beside: [beside(y), beside(y + 1)] }
}

/// Returns the columns through the new pixel below each pixel of a row.
fn below_down<'a>(source: &'a Tile, center: &'a Tile, y: usize) -> Lines<'a> {
    let y = y as isize;
    let beside = |aside: isize| [-1, 0, 1].map(|down| center.row(y + down, aside));
    Lines { line: [-1, 0, 1, 2].map(|down| source.row(y + down, 0)), beside: [beside(-1), beside(0)] }
}

#[multiversion(targets("x86_64+avx2"))]
fn write_luma([red, green, blue]: [&[i16]; 3], luma: &mut [i16]) {
    for (luma, ((red, green), blue)) in luma.iter_mut().zip(red.iter().zip(green).zip(blue)) {
        *luma = ((54 * i32::from(*red) + 183 * i32::from(*green) + 19 * i32::from(*blue)) >> 8) as i16;
    }
}

/// Writes twice the share of the second direction: all where the first one varies clearly more, which crosses an edge,
/// and half where neither does.
#[multiversion(targets("x86_64+avx2"))]
fn write_shares<'a>(one: Lines<'a>, other: Lines<'a>, shares: &mut [i16]) {
    let length = shares.len();
    let (one, other) = (one.cut(length), other.cut(length));
    for (x, share) in shares.iter_mut().enumerate() {
        let (one, other) = (one.variation(x), other.variation(x));
        *share = 1 + i16::from(one > more(other)) - i16::from(other > more(one));
    }
}

/// Returns a seventh more.
#[inline(always)]
fn more(value: i16) -> i16 {
    value.wrapping_add(value >> 3).wrapping_add(value >> 6)
}

impl Lines<'_> {
    #[inline(always)]
    fn cut(&self, length: usize) -> Self {
        let [a, b, c, d] = self.line;
        let [[e, f, g], [h, i, j]] = self.beside;
        Lines {
            line: [&a[..length], &b[..length], &c[..length], &d[..length]],
            beside: [[&e[..length], &f[..length], &g[..length]], [&h[..length], &i[..length], &j[..length]]],
        }
    }

    /// Returns the variation along the line through a new pixel and along the parallel lines beside it.
    #[inline(always)]
    fn variation(&self, x: usize) -> i16 {
        let [a, b, c, d] = self.line;
        let [[e, f, g], [h, i, j]] = self.beside;
        let line = change(a[x], b[x]).wrapping_add(change(b[x], c[x])).wrapping_add(change(c[x], d[x]));
        let left = change(e[x], f[x]).wrapping_add(change(f[x], g[x]));
        let right = change(h[x], i[x]).wrapping_add(change(i[x], j[x]));
        line.wrapping_add(left).wrapping_add(right).wrapping_add(NOISE)
    }
}

#[inline(always)]
fn change(from: i16, to: i16) -> i16 {
    from.wrapping_sub(to).wrapping_abs()
}

/// Writes the cubic interpolation along two lines, in these shares.
#[multiversion(targets("x86_64+avx2"))]
fn write_along(one: [&[i16]; 4], other: [&[i16]; 4], shares: &[i16], into: &mut [i16]) {
    let length = into.len();
    let [a, b, c, d] = one;
    let (a, b, c, d) = (&a[..length], &b[..length], &c[..length], &d[..length]);
    let [e, f, g, h] = other;
    let (e, f, g, h) = (&e[..length], &f[..length], &g[..length], &h[..length]);
    let shares = &shares[..length];
    for x in 0..length {
        let one = cubic(a[x], b[x], c[x], d[x]);
        let other = cubic(e[x], f[x], g[x], h[x]);
        into[x] = one.wrapping_add(other.wrapping_sub(one).wrapping_mul(shares[x]) >> 1);
    }
}

/// Returns nine times the sum of the inner numbers, minus the outer ones, by sixteen.
#[inline(always)]
fn cubic(a: i16, b: i16, c: i16, d: i16) -> i16 {
    let inner = b.wrapping_add(c);
    let outer = a.wrapping_add(d);
    inner.wrapping_add(inner.wrapping_sub(outer) >> 3).wrapping_add(1) >> 1
}
