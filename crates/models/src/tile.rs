//! Doubling of a picture by tiles that fit into the cache, in 16-bit fixed point: an instruction computes sixteen such
//! numbers.

use std::ops::Range;

use multiversion::multiversion;

use crate::encode::Bands;
use crate::picture::{self, Picture};
use crate::plane::clamp;
use crate::{Error, Limits, Output};

/// Steps of a fixed-point number for one step of a byte.
pub(crate) const STEPS: i16 = 16;

/// Columns that a row has beyond each of its ends.
pub(crate) const MARGIN: usize = 3;

/// One channel of a part of a picture. Its first and last columns repeat in the margins.
#[derive(Clone)]
pub(crate) struct Tile {
    pub(crate) width: usize,
    pub(crate) height: usize,
    values: Vec<i16>,
}

impl Tile {
    pub(crate) fn new(width: usize, height: usize) -> Self {
        Self { width, height, values: vec![0; (width + 2 * MARGIN) * height] }
    }

    pub(crate) fn stride(&self) -> usize {
        self.width + 2 * MARGIN
    }

    /// Returns the row at `y`, clamped, from `aside` columns to the right: at most the margin.
    pub(crate) fn row(&self, y: isize, aside: isize) -> &[i16] {
        let start = clamp(y, self.height) * self.stride() + MARGIN;
        &self.values[start.wrapping_add_signed(aside)..][..self.width]
    }

    /// Returns the row at `y`, clamped, with its margins.
    pub(crate) fn whole_row(&self, y: isize) -> &[i16] {
        let start = clamp(y, self.height) * self.stride();
        &self.values[start..start + self.stride()]
    }

    pub(crate) fn row_mut(&mut self, y: usize) -> &mut [i16] {
        let start = y * self.stride() + MARGIN;
        &mut self.values[start..start + self.width]
    }

    /// Fills the margins.
    pub(crate) fn pad(&mut self) {
        let (stride, width) = (self.stride(), self.width);
        for row in self.values.chunks_exact_mut(stride) {
            let [first, last] = [row[MARGIN], row[MARGIN + width - 1]];
            row[..MARGIN].fill(first);
            row[MARGIN + width..].fill(last);
        }
    }
}

/// Tile of twice the width and height, with even and odd columns separate.
pub(crate) struct Columns {
    pub(crate) even: Tile,
    pub(crate) odd: Tile,
}

impl Columns {
    pub(crate) fn new(width: usize, height: usize) -> Self {
        Self { even: Tile::new(width, height), odd: Tile::new(width, height) }
    }
}

/// Returns the file of a picture of twice the width and height. `upscale` gets tiles with up to `halo` more pixels at
/// each side.
pub(crate) fn doubled(
    mut small: Picture,
    halo: usize,
    limits: &Limits,
    upscale: impl Fn(&[Tile; 3]) -> [Columns; 3],
) -> Result<Output, Error> {
    const SIDES: (usize, usize) = (256, 128);
    let size = (2 * small.width, 2 * small.height);
    let resized =
        |alpha: Vec<u8>| picture::resized_bytes::<1>(&alpha, (small.width, small.height), size, limits);
    let alpha = small.alpha.take().map(resized).transpose()?;
    let mut file = Bands::new(size, alpha, std::mem::take(&mut small.form));
    let mut band = vec![0; 3 * size.0 * size.1.min(2 * SIDES.1)];
    for top in (0..small.height).step_by(SIDES.1) {
        for left in (0..small.width).step_by(SIDES.0) {
            limits.check_time()?;
            let (right, bottom) = ((left + SIDES.0).min(small.width), (top + SIDES.1).min(small.height));
            let columns = left.saturating_sub(halo)..(right + halo).min(small.width);
            let rows = top.saturating_sub(halo)..(bottom + halo).min(small.height);
            let (first_column, first_row) = (columns.start, rows.start);
            let large = upscale(&tiles(&small, columns, rows));
            for y in 2 * top..2 * bottom {
                let kept = |tile: &Tile| -> Range<usize> {
                    let start = (y - 2 * first_row) * tile.stride() + MARGIN + left - first_column;
                    start..start + right - left
                };
                let [red, green, blue] = &large;
                let line = [&red.even, &green.even, &blue.even, &red.odd, &green.odd, &blue.odd]
                    .map(|tile| &tile.values[kept(tile)]);
                pack(line, &mut band[3 * ((y - 2 * top) * size.0 + 2 * left)..][..6 * (right - left)]);
            }
        }
        let rows = size.1.min(2 * (top + SIDES.1)) - 2 * top;
        file.write(&band[..3 * size.0 * rows]);
    }
    file.into_file()
}

/// Returns a part of a picture.
fn tiles(picture: &Picture, columns: Range<usize>, rows: Range<usize>) -> [Tile; 3] {
    let mut tiles = [(); 3].map(|()| Tile::new(columns.len(), rows.len()));
    for (channel, tile) in tiles.iter_mut().enumerate() {
        for (y, from) in rows.clone().enumerate() {
            let pixels = &picture.row(from).as_chunks::<3>().0[columns.clone()];
            for (value, pixel) in tile.row_mut(y).iter_mut().zip(pixels) {
                *value = i16::from(pixel[channel]) * STEPS;
            }
        }
        tile.pad();
    }
    tiles
}

/// Writes the bytes of a line from the colors of its even and of its odd columns.
#[multiversion(targets("x86_64+avx2"))]
fn pack(line: [&[i16]; 6], bytes: &mut [u8]) {
    const PART: usize = 64;
    let mut narrow = [[0_u8; PART]; 6];
    for (number, bytes) in bytes.chunks_mut(6 * PART).enumerate() {
        let count = bytes.len() / 6;
        for (narrow, values) in narrow.iter_mut().zip(line) {
            for (byte, value) in narrow.iter_mut().zip(&values[number * PART..][..count]) {
                *byte = (value.wrapping_add(STEPS / 2) >> STEPS.trailing_zeros()).clamp(0, 255) as u8;
            }
        }
        let [a, b, c, d, e, f] = &narrow;
        for (at, pair) in bytes.as_chunks_mut::<6>().0.iter_mut().enumerate().take(PART) {
            *pair = [a[at], b[at], c[at], d[at], e[at], f[at]];
        }
    }
}
