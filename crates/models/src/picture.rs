//! Pictures in bytes, and iteration over their pixels: by rows, by strips, and as planes at a reduced size.

use std::ops::Range;

use image::DynamicImage;
use multiversion::multiversion;

use crate::decode::{FileFormat, decode};
use crate::memory::{Need, REDUCED};
use crate::oklab;
use crate::plane::Plane;
use crate::resample::resample;
use crate::{Error, Inputs, Limits};

/// Picture in sRGB, with eight bits per channel.
#[derive(Debug)]
pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// Red, green and blue of each pixel, row by row.
    pub(crate) colors: Vec<u8>,
    /// Opacity of each pixel. `None`: all are opaque.
    pub(crate) alpha: Option<Vec<u8>>,
    pub(crate) form: FileFormat,
}

/// Row of a picture: red, green and blue, from 0 to 1.
pub(crate) type Row = [Vec<f32>; 3];

impl Picture {
    /// Decodes an input and applies its orientation. Rejects a file by its header if a run would need too much memory.
    pub(crate) fn read(inputs: &Inputs, name: &str, need: Need, limits: &Limits) -> Result<Self, Error> {
        let (image, form) = decode(inputs, name, need, limits)?;
        Ok(Self { form, ..Self::from_image(image) })
    }

    pub(crate) fn from_image(image: DynamicImage) -> Self {
        let (width, height) = (image.width() as usize, image.height() as usize);
        if !image.color().has_alpha() {
            let colors = image.into_rgb8().into_raw();
            return Self { width, height, colors, alpha: None, form: FileFormat::default() };
        }
        let mut colors = image.into_rgba8().into_raw();
        let alpha: Vec<u8> = colors.as_chunks::<4>().0.iter().map(|pixel| pixel[3]).collect();
        for at in 0..width * height {
            colors.copy_within(4 * at..4 * at + 3, 3 * at);
        }
        colors.truncate(3 * width * height);
        colors.shrink_to_fit();
        let alpha = alpha.iter().any(|value| *value < 255).then_some(alpha);
        Self { width, height, colors, alpha, form: FileFormat::default() }
    }

    pub(crate) fn shorter_side(&self) -> usize {
        self.width.min(self.height)
    }

    pub(crate) fn longer_side(&self) -> usize {
        self.width.max(self.height)
    }

    pub(crate) fn strip_rows(&self) -> usize {
        const MAX_PIXELS: usize = 600_000;
        (MAX_PIXELS / self.width).clamp(16, 128)
    }

    pub(crate) fn row(&self, y: usize) -> &[u8] {
        &self.colors[3 * y * self.width..3 * (y + 1) * self.width]
    }

    /// Returns the reduced size, in the shape of this picture, at which most methods estimate.
    pub(crate) fn reduced_size(&self) -> (usize, usize) {
        self.scaled_size((REDUCED as f64 / (self.width * self.height) as f64).sqrt().min(1.0))
    }

    pub(crate) fn scaled_size(&self, scale: f64) -> (usize, usize) {
        let scaled = |side: usize| ((side as f64 * scale).round() as usize).max(1);
        (scaled(self.width), scaled(self.height))
    }

    pub(crate) fn strip(&self, rows: Range<usize>) -> [Plane; 3] {
        let pixels = self.colors[3 * rows.start * self.width..3 * rows.end * self.width].as_chunks::<3>().0;
        let plane = |channel: usize| {
            let values = pixels.iter().map(|pixel| from_byte(pixel[channel])).collect();
            Plane { width: self.width, height: rows.len(), values }
        };
        [0, 1, 2].map(plane)
    }

    pub(crate) fn planes(
        &self,
        (width, height): (usize, usize),
        limits: &Limits,
    ) -> Result<[Plane; 3], Error> {
        if (width, height) == (self.width, self.height) {
            return Ok(self.strip(0..height));
        }
        let mut planes =
            [(); 3].map(|()| Plane { width, height, values: Vec::with_capacity(width * height) });
        self.resample((width, height), limits, |row| {
            for (channel, plane) in planes.iter_mut().enumerate() {
                plane.values.extend(row.as_chunks::<3>().0.iter().map(|pixel| pixel[channel]));
            }
        })?;
        Ok(planes)
    }

    pub(crate) fn oklab(&self, size: (usize, usize), limits: &Limits) -> Result<[Plane; 3], Error> {
        let mut planes = self.planes(size, limits)?;
        oklab::row_from_srgb(planes.each_mut().map(|plane| &mut *plane.values));
        Ok(planes)
    }

    /// Returns the luma at this size, by the weights of Rec. 709 on the encoded values.
    pub(crate) fn luma(&self, size: (usize, usize), limits: &Limits) -> Result<Plane, Error> {
        if size == (self.width, self.height) {
            let pixels = self.colors.as_chunks::<3>().0.iter();
            let values = pixels.map(|pixel| luma(pixel.map(from_byte))).collect();
            return Ok(Plane { width: size.0, height: size.1, values });
        }
        let mut bytes = vec![0; self.width * self.height];
        write_luma(&self.colors, &mut bytes);
        let mut values = Vec::with_capacity(size.0 * size.1);
        let put = |row: &[f32]| values.extend_from_slice(row);
        resample_bytes::<1>(&bytes, (self.width, self.height), size, limits, put)?;
        Ok(Plane { width: size.0, height: size.1, values })
    }

    fn resample(&self, size: (usize, usize), limits: &Limits, put: impl FnMut(&[f32])) -> Result<(), Error> {
        resample_bytes::<3>(&self.colors, (self.width, self.height), size, limits, put)
    }

    pub(crate) fn cut(mut self, left: usize, top: usize, width: usize, height: usize) -> Self {
        let (whole_width, whole_height) = (self.width, self.height);
        if (width, height) == (whole_width, whole_height) {
            return self;
        }
        let cut = |bytes: &mut Vec<u8>, channels: usize| {
            for y in 0..height {
                let from = channels * ((top + y) * whole_width + left);
                bytes.copy_within(from..from + channels * width, channels * y * width);
            }
            bytes.truncate(channels * width * height);
        };
        cut(&mut self.colors, 3);
        self.alpha.iter_mut().for_each(|alpha| cut(alpha, 1));
        (self.width, self.height) = (width, height);
        self
    }

    pub(crate) fn resized(self, size: (usize, usize), limits: &Limits) -> Result<Self, Error> {
        let Self { width, height, colors, alpha, form } = self;
        if size == (width, height) {
            return Ok(Self { width, height, colors, alpha, form });
        }
        let colors = resized_bytes::<3>(&colors, (width, height), size, limits)?;
        let alpha =
            alpha.map(|alpha| resized_bytes::<1>(&alpha, (width, height), size, limits)).transpose()?;
        Ok(Self { width: size.0, height: size.1, colors, alpha, form })
    }

    pub(crate) fn change_rows(
        &mut self,
        limits: &Limits,
        mut change: impl FnMut(usize, &mut Row),
    ) -> Result<(), Error> {
        let mut row = [(); 3].map(|()| vec![0.0; self.width]);
        for (y, bytes) in self.colors.chunks_exact_mut(3 * self.width).enumerate() {
            limits.check_time()?;
            unpack(bytes, row.each_mut().map(|values| &mut **values));
            change(y, &mut row);
            pack(&row, bytes);
        }
        Ok(())
    }

    /// Replaces the colors strip by strip. A strip has up to `halo` more rows above and below; `change` gets the number
    /// of its first row, the range of rows that are kept, and the strip.
    pub(crate) fn change_strips(
        &mut self,
        halo: usize,
        limits: &Limits,
        mut change: impl FnMut(usize, Range<usize>, &mut [Plane; 3]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let length = 3 * self.width;
        // Original rows above the strip.
        let mut above: Vec<u8> = Vec::new();
        let rows = self.strip_rows();
        for top in (0..self.height).step_by(rows) {
            limits.check_time()?;
            let bottom = (top + rows).min(self.height);
            let first = top - above.len() / length;
            let below = &self.colors[top * length..(bottom + halo).min(self.height) * length];
            let height = (above.len() + below.len()) / length;
            let pixels = || above.as_chunks::<3>().0.iter().chain(below.as_chunks::<3>().0);
            let plane = |channel: usize| {
                let values = pixels().map(|pixel| from_byte(pixel[channel])).collect();
                Plane { width: self.width, height, values }
            };
            let mut strip = [0, 1, 2].map(plane);
            change(first, top - first..bottom - first, &mut strip)?;
            above = self.colors[bottom.saturating_sub(halo).max(top) * length..bottom * length].to_vec();
            for y in top..bottom {
                let row = strip.each_ref().map(|plane| plane.row((y - first) as isize));
                pack(&row, &mut self.colors[y * length..(y + 1) * length]);
            }
        }
        Ok(())
    }
}

pub(crate) fn resized_bytes<const CHANNELS: usize>(
    bytes: &[u8],
    from: (usize, usize),
    to: (usize, usize),
    limits: &Limits,
) -> Result<Vec<u8>, Error> {
    let mut resized = Vec::with_capacity(CHANNELS * to.0 * to.1);
    let put = |row: &[f32]| resized.extend(row.iter().copied().map(to_byte));
    resample_bytes::<CHANNELS>(bytes, from, to, limits, put)?;
    Ok(resized)
}

/// Calls `put` with each row of bytes, `CHANNELS` per pixel, at another size and from 0 to 1.
fn resample_bytes<const CHANNELS: usize>(
    bytes: &[u8],
    from: (usize, usize),
    to: (usize, usize),
    limits: &Limits,
    put: impl FnMut(&[f32]),
) -> Result<(), Error> {
    /// Size of the shrunk picture, as a multiple of the new size. Beyond it, its filter makes no difference.
    const FINE: usize = 3;
    let factor = (from.0 / (FINE * to.0)).min(from.1 / (FINE * to.1));
    if factor > 1 {
        let (shrunk, size) = shrunk::<CHANNELS>(bytes, from, factor, limits)?;
        let lengths = (from.0 as f64 / factor as f64, from.1 as f64 / factor as f64);
        let add = |y: usize, weight: f32, sums: &mut [f32]| {
            let length = CHANNELS * size.0;
            add_bytes(&shrunk[y * length..(y + 1) * length], weight / 255.0, sums);
        };
        return resample::<CHANNELS>(size, lengths, to, limits, add, put);
    }
    let length = CHANNELS * from.0;
    let add = |y: usize, weight: f32, sums: &mut [f32]| {
        add_bytes(&bytes[y * length..(y + 1) * length], weight / 255.0, sums);
    };
    resample::<CHANNELS>(from, (from.0 as f64, from.1 as f64), to, limits, add, put)
}

#[multiversion(targets("x86_64+avx2"))]
fn add_bytes(bytes: &[u8], weight: f32, sums: &mut [f32]) {
    for (sum, byte) in sums.iter_mut().zip(bytes) {
        *sum += weight * f32::from(*byte);
    }
}

/// Returns bytes averaged over squares of this side, the last of which may be incomplete, and their size.
fn shrunk<const CHANNELS: usize>(
    bytes: &[u8],
    (width, height): (usize, usize),
    side: usize,
    limits: &Limits,
) -> Result<(Vec<u8>, (usize, usize)), Error> {
    let size = (width.div_ceil(side), height.div_ceil(side));
    let mut shrunk = Vec::with_capacity(CHANNELS * size.0 * size.1);
    let mut columns = vec![0_u32; CHANNELS * width];
    for rows in bytes.chunks(CHANNELS * width * side) {
        limits.check_time()?;
        columns.fill(0);
        for row in rows.chunks_exact(CHANNELS * width) {
            sum_bytes(row, &mut columns);
        }
        let count = (rows.len() / (CHANNELS * width)) as u32;
        for square in columns.as_chunks::<CHANNELS>().0.chunks(side) {
            let count = count * square.len() as u32;
            let mut sums = [count / 2; CHANNELS];
            for pixel in square {
                sums.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += value);
            }
            shrunk.extend(sums.map(|sum| (sum / count) as u8));
        }
    }
    Ok((shrunk, size))
}

#[multiversion(targets("x86_64+avx2"))]
fn sum_bytes(bytes: &[u8], sums: &mut [u32]) {
    for (sum, byte) in sums.iter_mut().zip(bytes) {
        *sum += u32::from(*byte);
    }
}

/// Writes the luma of each pixel, by the weights of Rec. 709 in steps of 256.
#[multiversion(targets("x86_64+avx2"))]
fn write_luma(colors: &[u8], bytes: &mut [u8]) {
    for (byte, pixel) in bytes.iter_mut().zip(colors.as_chunks::<3>().0) {
        let [red, green, blue] = pixel.map(u16::from);
        *byte = ((54 * red + 183 * green + 19 * blue + 128) >> 8) as u8;
    }
}

pub(crate) fn pack<Values: AsRef<[f32]>>(row: &[Values; 3], bytes: &mut [u8]) {
    pack_row(row.each_ref().map(AsRef::as_ref), bytes);
}

#[multiversion(targets("x86_64+avx2"))]
fn pack_row(row: [&[f32]; 3], bytes: &mut [u8]) {
    const PART: usize = 64;
    let mut narrow = [[0_u8; PART]; 3];
    for (number, bytes) in bytes.chunks_mut(3 * PART).enumerate() {
        for (narrow, values) in narrow.iter_mut().zip(row) {
            for (byte, value) in narrow.iter_mut().zip(&values[number * PART..]) {
                *byte = to_byte(*value);
            }
        }
        let [red, green, blue] = &narrow;
        for (at, pixel) in bytes.as_chunks_mut::<3>().0.iter_mut().enumerate().take(PART) {
            *pixel = [red[at], green[at], blue[at]];
        }
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn unpack(bytes: &[u8], [red, green, blue]: [&mut [f32]; 3]) {
    for (pixel, ((red, green), blue)) in
        bytes.as_chunks::<3>().0.iter().zip(red.iter_mut().zip(green).zip(blue))
    {
        [*red, *green, *blue] = pixel.map(from_byte);
    }
}

pub(crate) fn luma([red, green, blue]: [f32; 3]) -> f32 {
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

#[inline(always)]
pub(crate) fn from_byte(byte: u8) -> f32 {
    f32::from(byte) / 255.0
}

/// Converts a value from 0 to 1 into a byte, clamped.
#[inline(always)]
pub(crate) fn to_byte(value: f32) -> u8 {
    rounded(value * 255.0, 255.0) as u8
}

/// Rounds a number from 0 to `most`, clamped, in fewer instructions than a conversion.
#[inline(always)]
pub(crate) fn rounded(value: f32, most: f32) -> usize {
    /// Its sum with a smaller number has no bits for a fraction, and that number in its lower bits.
    const ROUNDER: f32 = (1 << 23) as f32;
    ((value.max(0.0).min(most) + ROUNDER).to_bits() - ROUNDER.to_bits()) as usize
}
