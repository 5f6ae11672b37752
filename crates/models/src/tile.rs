//! Doubling of a picture by tiles that fit into the cache, in 16-bit fixed point: sixteen numbers per instruction.

use std::ops::Range;

use multiversion::multiversion;

use crate::encode::Bands;
use crate::jpeg;
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channels {
    /// Red, green and blue.
    Colors,
    /// Luma and both chromas, as a JPEG has them.
    Luma,
}

/// Returns the file of a picture of twice the width and height. `upscale` gets tiles with up to `halo` more pixels at
/// each side. The channels of a JPEG are `jpeg_channels`; those of other files are colors.
pub(crate) fn doubled(
    mut small: Picture,
    halo: usize,
    limits: &Limits,
    jpeg_channels: Channels,
    upscale: impl Fn(&[Tile; 3], Channels) -> [Columns; 3],
) -> Result<Output, Error> {
    const SIDES: (usize, usize) = (512, 64);
    let size = (2 * small.width, 2 * small.height);
    let resized =
        |alpha: Vec<u8>| picture::resized_bytes::<1>(&alpha, (small.width, small.height), size, limits);
    let alpha = small.alpha.take().map(resized).transpose()?;
    let mut file = Bands::new(size, alpha, std::mem::take(&mut small.form));
    let channels = if matches!(file, Bands::Jpeg(_)) { jpeg_channels } else { Channels::Colors };
    let mut band = vec![0; 3 * size.0 * size.1.min(2 * SIDES.1)];
    for top in (0..small.height).step_by(SIDES.1) {
        let lines = size.1.min(2 * (top + SIDES.1)) - 2 * top;
        let band = &mut band[..3 * size.0 * lines];
        for left in (0..small.width).step_by(SIDES.0) {
            limits.check_time()?;
            let (right, bottom) = ((left + SIDES.0).min(small.width), (top + SIDES.1).min(small.height));
            let columns = left.saturating_sub(halo)..(right + halo).min(small.width);
            let rows = top.saturating_sub(halo)..(bottom + halo).min(small.height);
            let (first_column, first_row) = (columns.start, rows.start);
            let large = upscale(&tiles(&small, columns, rows, channels), channels);
            for y in 2 * top..2 * bottom {
                let kept = |tile: &Tile| -> Range<usize> {
                    let start = (y - 2 * first_row) * tile.stride() + MARGIN + left - first_column;
                    start..start + right - left
                };
                let line = large
                    .each_ref()
                    .map(|channel| [&channel.even, &channel.odd].map(|tile| &tile.values[kept(tile)]));
                let start = (y - 2 * top) * size.0 + 2 * left;
                let count = 2 * (right - left);
                match channels {
                    Channels::Colors => pack(line, &mut band[3 * start..][..3 * count]),
                    Channels::Luma => {
                        for (columns, plane) in line.into_iter().zip(band.chunks_exact_mut(size.0 * lines)) {
                            pack_channel(columns, &mut plane[start..][..count]);
                        }
                    }
                }
            }
        }
        match (&mut file, channels) {
            (Bands::Jpeg(writer), Channels::Luma) => {
                writer.write_planes(
                    [0, 1, 2].map(|channel| &band[channel * size.0 * lines..][..size.0 * lines]),
                );
            }
            _ => file.write(band),
        }
    }
    file.into_file()
}

fn tiles(picture: &Picture, columns: Range<usize>, rows: Range<usize>, channels: Channels) -> [Tile; 3] {
    let mut tiles = [(); 3].map(|()| Tile::new(columns.len(), rows.len()));
    for (y, from) in rows.enumerate() {
        let pixels = &picture.row(from).as_chunks::<3>().0[columns.clone()];
        let row = tiles.each_mut().map(|tile| tile.row_mut(y));
        match channels {
            Channels::Colors => write_colors(pixels, row),
            Channels::Luma => write_luma(pixels, row),
        }
    }
    tiles.iter_mut().for_each(Tile::pad);
    tiles
}

#[multiversion(targets("x86_64+avx2"))]
fn write_colors(pixels: &[[u8; 3]], [reds, greens, blues]: [&mut [i16]; 3]) {
    let places = reds.iter_mut().zip(greens).zip(blues);
    for (&[r, g, b], ((red, green), blue)) in pixels.iter().zip(places) {
        [*red, *green, *blue] = [r, g, b].map(|value| i16::from(value) * STEPS);
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn write_luma(pixels: &[[u8; 3]], [lumas, blue_chromas, red_chromas]: [&mut [i16]; 3]) {
    let places = lumas.iter_mut().zip(blue_chromas).zip(red_chromas);
    for (&[red, green, blue], ((luma, blue_chroma), red_chroma)) in pixels.iter().zip(places) {
        [*luma, *blue_chroma, *red_chroma] =
            jpeg::converted([red, green, blue]).map(|value| (value.wrapping_add(8) >> 4) as i16);
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn pack([red, green, blue]: [[&[i16]; 2]; 3], bytes: &mut [u8]) {
    const PART: usize = 64;
    let line = [red[0], green[0], blue[0], red[1], green[1], blue[1]];
    let mut narrow = [[0_u8; PART]; 6];
    for (number, bytes) in bytes.chunks_mut(6 * PART).enumerate() {
        let count = bytes.len() / 6;
        for (narrow, values) in narrow.iter_mut().zip(line) {
            for (byte, value) in narrow.iter_mut().zip(&values[number * PART..][..count]) {
                *byte = rounded(*value);
            }
        }
        let [a, b, c, d, e, f] = &narrow;
        for (at, pair) in bytes.as_chunks_mut::<6>().0.iter_mut().enumerate().take(PART) {
            *pair = [a[at], b[at], c[at], d[at], e[at], f[at]];
        }
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn pack_channel([even, odd]: [&[i16]; 2], bytes: &mut [u8]) {
    for (pair, (even, odd)) in bytes.as_chunks_mut().0.iter_mut().zip(even.iter().zip(odd)) {
        *pair = [rounded(*even), rounded(*odd)];
    }
}

#[inline(always)]
fn rounded(value: i16) -> u8 {
    (value.wrapping_add(STEPS / 2) >> STEPS.trailing_zeros()).clamp(0, 255) as u8
}
