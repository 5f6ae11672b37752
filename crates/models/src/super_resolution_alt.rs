//! Super-resolution, second method: doubles the size by directional cubic convolution (Zhou, Shen and Dong,
//! 2012), which interpolates every new pixel along its edge, never across it.

use multiversion::multiversion;

use crate::memory::Need;
use crate::model::{BuiltIn, Outputs};
use crate::picture::Picture;
use crate::tile::{Channels, Columns, STEPS, Tile, doubled};
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
    let large = doubled(small, HALO, limits, Channels::Luma, upscaled)?;
    Ok(vec![("output_image", large)])
}

/// Doubles the channels, along the edges of their luma.
fn upscaled(channels: &[Tile; 3], kind: Channels) -> [Columns; 3] {
    let (width, height) = (channels[0].width, channels[0].height);
    let luma = (kind == Channels::Colors).then(|| luma(channels));
    // The first one is luma.
    let sources: Vec<&Tile> = luma.iter().chain(channels).collect();
    // First the centers of four source pixels, by diagonals; the rest then have four neighbors, by rows and columns.
    let mut centers: Vec<Tile> = sources.iter().map(|_| Tile::new(width, height)).collect();
    let mut shares = vec![0; width];
    for y in 0..height {
        let lines = [RISING, FALLING].map(|direction| direction.lines(sources[0], sources[0], y));
        write_shares(lines, &mut shares);
        for (source, center) in sources.iter().zip(&mut centers) {
            write_along([RISING.line(source, y), FALLING.line(source, y)], &shares, center.row_mut(y));
        }
    }
    centers.iter_mut().for_each(Tile::pad);
    let (luma, center_luma) = (sources[0], &centers[0]);
    let centers = &centers[centers.len() - channels.len()..];
    let mut large = [(); 3].map(|()| Columns::new(width, 2 * height));
    for y in 0..height {
        let lines = [BESIDE_ACROSS.lines(luma, center_luma, y), BESIDE_DOWN.lines(center_luma, luma, y)];
        write_shares(lines, &mut shares);
        for ((source, center), large) in channels.iter().zip(centers).zip(&mut large) {
            large.even.row_mut(2 * y).copy_from_slice(source.row(y as isize, 0));
            large.odd.row_mut(2 * y + 1).copy_from_slice(center.row(y as isize, 0));
            let lines = [BESIDE_ACROSS.line(source, y), BESIDE_DOWN.line(center, y)];
            write_along(lines, &shares, large.odd.row_mut(2 * y));
        }
        let lines = [BELOW_ACROSS.lines(center_luma, luma, y), BELOW_DOWN.lines(luma, center_luma, y)];
        write_shares(lines, &mut shares);
        for ((source, center), large) in channels.iter().zip(centers).zip(&mut large) {
            let lines = [BELOW_ACROSS.line(center, y), BELOW_DOWN.line(source, y)];
            write_along(lines, &shares, large.even.row_mut(2 * y + 1));
        }
    }
    large
}

fn luma(colors: &[Tile; 3]) -> Tile {
    let mut luma = Tile::new(colors[0].width, colors[0].height);
    for y in 0..luma.height {
        write_luma(colors.each_ref().map(|color| color.row(y as isize, 0)), luma.row_mut(y));
    }
    luma.pad();
    luma
}

/// Direction through a new pixel: known pixels, to the right of and below that with the same number.
struct Direction {
    /// On the line through the new pixel: two before it, and two behind it.
    line: [(isize, isize); 4],
    /// On the parallel lines at both sides, among the other known pixels where there are two kinds.
    beside: [[(isize, isize); 3]; 2],
}

/// Diagonals through the center right of and below each pixel.
const FALLING: Direction = Direction {
    line: [(-1, -1), (0, 0), (1, 1), (2, 2)],
    beside: [[(-1, 0), (0, 1), (1, 2)], [(0, -1), (1, 0), (2, 1)]],
};
const RISING: Direction = Direction {
    line: [(-1, 2), (0, 1), (1, 0), (2, -1)],
    beside: [[(0, 2), (1, 1), (2, 0)], [(-1, 1), (0, 0), (1, -1)]],
};

/// The row of source pixels and the column of centers through the new pixel right of each pixel.
const BESIDE_ACROSS: Direction = Direction {
    line: [(-1, 0), (0, 0), (1, 0), (2, 0)],
    beside: [[(-1, -1), (0, -1), (1, -1)], [(-1, 0), (0, 0), (1, 0)]],
};
const BESIDE_DOWN: Direction = Direction {
    line: [(0, -2), (0, -1), (0, 0), (0, 1)],
    beside: [[(0, -1), (0, 0), (0, 1)], [(1, -1), (1, 0), (1, 1)]],
};

/// The row of centers and the column of source pixels through the new pixel below each pixel.
const BELOW_ACROSS: Direction = Direction {
    line: [(-2, 0), (-1, 0), (0, 0), (1, 0)],
    beside: [[(-1, 0), (0, 0), (1, 0)], [(-1, 1), (0, 1), (1, 1)]],
};
const BELOW_DOWN: Direction = Direction {
    line: [(0, -1), (0, 0), (0, 1), (0, 2)],
    beside: [[(-1, -1), (-1, 0), (-1, 1)], [(0, -1), (0, 0), (0, 1)]],
};

impl Direction {
    #[inline(always)]
    fn line<'a>(&self, tile: &'a Tile, y: usize) -> [&'a [i16]; 4] {
        rows(tile, y, self.line)
    }

    #[inline(always)]
    fn lines<'a>(&self, on: &'a Tile, beside: &'a Tile, y: usize) -> Lines<'a> {
        Lines { line: self.line(on, y), beside: self.beside.map(|offsets| rows(beside, y, offsets)) }
    }
}

#[inline(always)]
fn rows<const COUNT: usize>(tile: &Tile, y: usize, offsets: [(isize, isize); COUNT]) -> [&[i16]; COUNT] {
    offsets.map(|(aside, down)| tile.row(y as isize + down, aside))
}

struct Lines<'a> {
    line: [&'a [i16]; 4],
    beside: [[&'a [i16]; 3]; 2],
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
fn write_shares<'a>(lines: [Lines<'a>; 2], shares: &mut [i16]) {
    let length = shares.len();
    let [one, other] = lines.map(|lines| lines.cut(length));
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
        let beside = self.beside.map(|line| line.map(|row| &row[..length]));
        Self { line: self.line.map(|row| &row[..length]), beside }
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
fn write_along(lines: [[&[i16]; 4]; 2], shares: &[i16], into: &mut [i16]) {
    let length = into.len();
    let [[a, b, c, d], [e, f, g, h]] = lines.map(|line| line.map(|row| &row[..length]));
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
