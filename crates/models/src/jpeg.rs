//! JPEG encoder: baseline, chroma not subsampled, with the Huffman tables of the standard (ITU-T T.81, Annex K).

use multiversion::multiversion;

use crate::cosine::{Blocks, COLUMNS, Factors, LANES, SIDE, ZIGZAG, factors};

/// Quantization of luma and of chroma at quality 50.
const QUANTIZATION: [[u8; 64]; 2] = [
    [
        16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14,
        17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49,
        64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
    ],
    [
        17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47,
        66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
        99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    ],
];

/// Huffman table: the number of codes of each length from 1, and the symbols of the codes in turn.
struct Huffman {
    lengths: [u8; 16],
    symbols: &'static [u8],
}

/// Tables of the constant terms, and of the others: of luma and of chroma.
const HUFFMAN: [[Huffman; 2]; 2] = [
    [
        Huffman { lengths: [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], symbols: &SIZES },
        Huffman { lengths: [0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0], symbols: &SIZES },
    ],
    [
        Huffman { lengths: [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125], symbols: &LUMA_RUNS },
        Huffman { lengths: [0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 119], symbols: &CHROMA_RUNS },
    ],
];
const SIZES: [u8; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
const LUMA_RUNS: [u8; 162] = *b"\
\x01\x02\x03\x00\x04\x11\x05\x12\x21\x31\x41\x06\x13\x51\x61\x07\x22\x71\x14\x32\x81\x91\xa1\x08\x23\x42\xb1\xc1\
\x15\x52\xd1\xf0\x24\x33\x62\x72\x82\x09\x0a\x16\x17\x18\x19\x1a\x25\x26\x27\x28\x29\x2a\x34\x35\x36\x37\x38\x39\
\x3a\x43\x44\x45\x46\x47\x48\x49\x4a\x53\x54\x55\x56\x57\x58\x59\x5a\x63\x64\x65\x66\x67\x68\x69\x6a\x73\x74\x75\
\x76\x77\x78\x79\x7a\x83\x84\x85\x86\x87\x88\x89\x8a\x92\x93\x94\x95\x96\x97\x98\x99\x9a\xa2\xa3\xa4\xa5\xa6\xa7\
\xa8\xa9\xaa\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xc2\xc3\xc4\xc5\xc6\xc7\xc8\xc9\xca\xd2\xd3\xd4\xd5\xd6\xd7\xd8\
\xd9\xda\xe1\xe2\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xea\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9\xfa";
const CHROMA_RUNS: [u8; 162] = *b"\
\x00\x01\x02\x03\x11\x04\x05\x21\x31\x06\x12\x41\x51\x07\x61\x71\x13\x22\x32\x81\x08\x14\x42\x91\xa1\xb1\xc1\x09\
\x23\x33\x52\xf0\x15\x62\x72\xd1\x0a\x16\x24\x34\xe1\x25\xf1\x17\x18\x19\x1a\x26\x27\x28\x29\x2a\x35\x36\x37\x38\
\x39\x3a\x43\x44\x45\x46\x47\x48\x49\x4a\x53\x54\x55\x56\x57\x58\x59\x5a\x63\x64\x65\x66\x67\x68\x69\x6a\x73\x74\
\x75\x76\x77\x78\x79\x7a\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x92\x93\x94\x95\x96\x97\x98\x99\x9a\xa2\xa3\xa4\xa5\
\xa6\xa7\xa8\xa9\xaa\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xc2\xc3\xc4\xc5\xc6\xc7\xc8\xc9\xca\xd2\xd3\xd4\xd5\xd6\
\xd7\xd8\xd9\xda\xe2\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xea\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9\xfa";

/// Code and number of bits of each symbol.
type Codes = [(u16, u8); 256];

static CODES: [[Codes; 2]; 2] =
    [[codes(&HUFFMAN[0][0]), codes(&HUFFMAN[0][1])], [codes(&HUFFMAN[1][0]), codes(&HUFFMAN[1][1])]];

const fn codes(table: &Huffman) -> Codes {
    let mut codes = [(0, 0); 256];
    let (mut code, mut symbol, mut length) = (0, 0, 1);
    while length <= table.lengths.len() {
        let mut count = table.lengths[length - 1];
        while count > 0 {
            codes[table.symbols[symbol] as usize] = (code, length as u8);
            code += 1;
            symbol += 1;
            count -= 1;
        }
        code <<= 1;
        length += 1;
    }
    codes
}

/// Writes a picture: rows of red, green and blue. The sides are at most 65,535.
pub(crate) fn write(
    file: Vec<u8>,
    colors: &[u8],
    width: usize,
    profile: Option<&[u8]>,
    quality: u8,
) -> Vec<u8> {
    let mut writer = Writer::new(file, [width, colors.len() / (3 * width)], profile, quality);
    writer.write(colors);
    writer.finished()
}

pub(crate) struct Writer {
    width: usize,
    components: [Component; 3],
    bits: Bits,
    /// Luma and both chromas of a line of blocks.
    planes: [Vec<u8>; 3],
}

impl Writer {
    pub(crate) fn new(mut file: Vec<u8>, sides: [usize; 2], profile: Option<&[u8]>, quality: u8) -> Self {
        let tables = QUANTIZATION.map(|table| table.map(|step| scaled(step, quality)));
        write_header(&mut file, &tables, sides, profile);
        let components = [0, 1, 1].map(|kind| Component {
            factors: factors(&tables[kind]),
            constants: &CODES[0][kind],
            others: &CODES[1][kind],
            last: 0,
        });
        let planes = [(); 3].map(|()| vec![0; SIDE * sides[0]]);
        Self { width: sides[0], components, bits: Bits { file, waiting: 0, count: 0 }, planes }
    }

    /// Writes the next rows: a multiple of eight, except for the last ones.
    pub(crate) fn write(&mut self, colors: &[u8]) {
        let mut planes = std::mem::take(&mut self.planes);
        for colors in colors.chunks(3 * self.width * SIDE) {
            let count = colors.len() / 3;
            separate(colors, planes.each_mut().map(|plane| &mut plane[..count]));
            self.write_planes(planes.each_ref().map(|plane| &plane[..count]));
        }
        self.planes = planes;
    }

    /// Writes the next rows, as many as `write` takes, from their luma and chromas (see `converted`).
    pub(crate) fn write_planes(&mut self, planes: [&[u8]; 3]) {
        let Self { width, components, bits, .. } = self;
        let rows = planes[0].len() / *width;
        for top in (0..rows).step_by(SIDE) {
            let starts: [usize; SIDE] = std::array::from_fn(|line| *width * (top + line).min(rows - 1));
            write_line(
                planes.map(|plane| starts.map(|start| &plane[start..start + *width])),
                components,
                bits,
            );
        }
    }

    pub(crate) fn finished(self) -> Vec<u8> {
        let mut file = self.bits.finished();
        file.extend_from_slice(b"\xff\xd9");
        file
    }
}

/// Returns luma and both chromas of a color, each from 0 to 255 in steps of a 256th.
#[inline(always)]
pub(crate) fn converted(color: [u8; 3]) -> [u16; 3] {
    /// Half a step too little, on average, for each of the products below.
    const LOST: u16 = 1;
    let [red, green, blue] = color.map(|value| u16::from(value) << 8);
    let luma = share(red, 0.299).wrapping_add(share(green, 0.587)).wrapping_add(share(blue, 0.114));
    let blue_chroma = (blue >> 1).wrapping_sub(share(red, 0.168_736)).wrapping_sub(share(green, 0.331_264));
    let red_chroma = (red >> 1).wrapping_sub(share(green, 0.418_688)).wrapping_sub(share(blue, 0.081_312));
    let chroma = |chroma: u16| chroma.wrapping_add((128 << 8) - LOST);
    [luma.wrapping_add(LOST), chroma(blue_chroma), chroma(red_chroma)]
}

#[inline(always)]
fn share(value: u16, share: f32) -> u16 {
    ((u32::from(value) * (share * 65_536.0).round() as u32) >> 16) as u16
}

#[multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt"))]
fn separate(colors: &[u8], planes: [&mut [u8]; 3]) {
    let [luma, blue_chroma, red_chroma] = planes;
    let places = luma.iter_mut().zip(blue_chroma).zip(red_chroma);
    let colors = colors.as_chunks::<3>().0;
    for (&[red, green, blue], ((luma, blue_chroma), red_chroma)) in colors.iter().zip(places) {
        [*luma, *blue_chroma, *red_chroma] =
            converted([red, green, blue]).map(|value| (value.wrapping_add(128) >> 8) as u8);
    }
}

#[multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt"))]
fn write_line(rows: [[&[u8]; SIDE]; 3], components: &mut [Component; 3], bits: &mut Bits) {
    let width = rows[0][0].len();
    // A local copy stays in registers.
    let mut local = std::mem::take(bits);
    let mut blocks = [const { Blocks::new() }; 3];
    for left in (0..width).step_by(COLUMNS) {
        for ((rows, component), blocks) in rows.iter().zip(&*components).zip(&mut blocks) {
            blocks.fill(rows, left, &component.factors);
        }
        let count = (width - left).div_ceil(SIDE).min(LANES);
        for lane in 0..count {
            for (component, blocks) in components.iter_mut().zip(&blocks) {
                component.write(blocks, lane, &mut local);
            }
        }
    }
    *bits = local;
}

/// Returns the quantization step at a quality from 50 to 99.
fn scaled(step: u8, quality: u8) -> u8 {
    let percent = 200 - 2 * u16::from(quality.clamp(50, 99));
    ((u16::from(step) * percent + 50) / 100).clamp(1, 255) as u8
}

fn write_header(file: &mut Vec<u8>, tables: &[[u8; 64]; 2], sides: [usize; 2], profile: Option<&[u8]>) {
    /// Bytes of a profile in one segment, whose length has 16 bits.
    const PROFILE_PART: usize = 65_519;
    file.extend_from_slice(b"\xff\xd8");
    write_segment(file, 0xe0, b"JFIF\0\x01\x02\0\0\x01\0\x01\0\0");
    let parts = profile.map(|profile| profile.chunks(PROFILE_PART)).into_iter().flatten();
    let count = parts.clone().count() as u8;
    for (number, part) in (1..=count).zip(parts) {
        write_segment(file, 0xe2, &[b"ICC_PROFILE\0", &[number, count][..], part].concat());
    }
    for (number, table) in (0..).zip(tables) {
        let steps = ZIGZAG.map(|place| table[place]);
        write_segment(file, 0xdb, &[&[number][..], &steps].concat());
    }
    let [width, height] = sides.map(|side| (side as u16).to_be_bytes());
    let components = [1, 0x11, 0, 2, 0x11, 1, 3, 0x11, 1];
    write_segment(file, 0xc0, &[&[8][..], &height, &width, &[3], &components].concat());
    for (class, tables) in (0..).zip(&HUFFMAN) {
        for (number, Huffman { lengths, symbols }) in (0..).zip(tables) {
            write_segment(file, 0xc4, &[&[class << 4 | number][..], lengths, symbols].concat());
        }
    }
    write_segment(file, 0xda, &[3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0]);
}

fn write_segment(file: &mut Vec<u8>, marker: u8, content: &[u8]) {
    file.extend_from_slice(&[0xff, marker]);
    file.extend_from_slice(&(content.len() as u16 + 2).to_be_bytes());
    file.extend_from_slice(content);
}

/// Luma or chroma.
struct Component {
    factors: Factors,
    constants: &'static Codes,
    others: &'static Codes,
    /// Constant term of the block before.
    last: i16,
}

impl Component {
    #[inline(always)]
    fn write(&mut self, blocks: &Blocks, lane: usize, bits: &mut Bits) {
        const END: usize = 0x00;
        const SIXTEEN_ZEROS: usize = 0xf0;
        let constant = blocks.quantized[0][lane];
        bits.write_number(constant - self.last, 0, self.constants);
        self.last = constant;
        let nonzero = |part: usize| u64::from(blocks.nonzero[part][lane]) << (16 * part);
        let mut places = (nonzero(0) | nonzero(1) | nonzero(2) | nonzero(3)) & !1;
        let mut before = 0;
        while places != 0 {
            let place = places.trailing_zeros() as usize % 64;
            places &= places - 1;
            let mut run = place - before - 1;
            while run > 15 {
                bits.write_symbol(SIXTEEN_ZEROS, self.others);
                run -= 16;
            }
            bits.write_number(blocks.quantized[place][lane], run, self.others);
            before = place;
        }
        if before < 63 {
            bits.write_symbol(END, self.others);
        }
    }
}

#[derive(Default)]
struct Bits {
    file: Vec<u8>,
    /// Bits that wait, in the lower part.
    waiting: u64,
    count: u32,
}

impl Bits {
    /// Writes the symbol of the run of zeros and of the size of a number, and the number.
    #[inline(always)]
    fn write_number(&mut self, number: i16, run: usize, codes: &Codes) {
        let size = 16 - number.unsigned_abs().leading_zeros();
        let (code, length) = codes[(run << 4 | size as usize) % 256];
        // A negative number is one less, without its higher bits.
        let low = (number + (number >> 15)) as u64 & ((1 << size) - 1);
        self.write(u64::from(code) << size | low, u32::from(length) + size);
    }

    #[inline(always)]
    fn write_symbol(&mut self, symbol: usize, codes: &Codes) {
        let (code, length) = codes[symbol];
        self.write(u64::from(code), u32::from(length));
    }

    /// Writes at most 32 bits.
    #[inline(always)]
    fn write(&mut self, bits: u64, count: u32) {
        self.waiting = self.waiting << count | bits;
        self.count += count;
        if self.count >= 32 {
            self.count -= 32;
            self.write_bytes((self.waiting >> self.count) as u32);
        }
    }

    #[inline(always)]
    fn write_bytes(&mut self, bytes: u32) {
        let has_marker = (!bytes).wrapping_sub(0x0101_0101) & bytes & 0x8080_8080 != 0;
        if has_marker {
            bytes.to_be_bytes().into_iter().for_each(|byte| self.write_byte(byte));
        } else {
            self.file.extend_from_slice(&bytes.to_be_bytes());
        }
    }

    /// Writes the last bits, with ones behind them, and returns the file.
    fn finished(mut self) -> Vec<u8> {
        self.write((1 << 7) - 1, 7);
        while self.count >= 8 {
            self.count -= 8;
            self.write_byte((self.waiting >> self.count) as u8);
        }
        self.file
    }

    fn write_byte(&mut self, byte: u8) {
        self.file.push(byte);
        if byte == 0xff {
            // A zero after it says that it is no marker.
            self.file.push(0);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn read(file: &[u8]) -> image::RgbImage {
        image::load_from_memory_with_format(file, image::ImageFormat::Jpeg).unwrap().into_rgb8()
    }

    fn error(one: &[u8], other: &[u8]) -> f64 {
        assert_eq!(one.len(), other.len());
        let squares = one.iter().zip(other).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
        squares.sum::<f64>() / one.len() as f64
    }

    #[test]
    fn a_file_is_as_large_and_as_exact_as_that_of_another_encoder() {
        for (width, height) in [(1, 1), (8, 8), (9, 23), (64, 40), (301, 17)] {
            for noise in [0, 40, 255] {
                let value = |at: usize| {
                    let (x, y) = (at / 3 % width, at / 3 / width);
                    let smooth =
                        128.0 + 100.0 * (x as f32 / 9.0).sin() * (y as f32 / 7.0 + (at % 3) as f32).cos();
                    (smooth as usize + (at * at * 7919 / 13) % 101 * noise / 101).min(255) as u8
                };
                let colors: Vec<u8> = (0..3 * width * height).map(value).collect();
                let file = write(Vec::new(), &colors, width, None, 93);
                let mut other = Vec::new();
                let mut encoder = image::codecs::jpeg::JpegEncoder::new_with_quality(&mut other, 93);
                encoder.encode(&colors, width as u32, height as u32, image::ExtendedColorType::Rgb8).unwrap();
                let picture = read(&file);
                assert_eq!(picture.dimensions(), (width as u32, height as u32));
                let [ours, theirs] = [picture, read(&other)].map(|picture| error(&picture, &colors));
                assert!(ours <= 1.02 * theirs + 0.3, "{width} x {height}, {noise}: {ours} beside {theirs}");
                assert!(
                    file.len() <= other.len() + other.len() / 50 + 20,
                    "{} beside {}",
                    file.len(),
                    other.len()
                );
            }
        }
    }

    #[test]
    fn rows_in_parts_are_the_same_file() {
        let colors: Vec<u8> = (0..3 * 37 * 43).map(|at| ((at * 7919) >> 3) as u8).collect();
        let mut writer = Writer::new(Vec::new(), [37, 43], None, 93);
        colors.chunks(3 * 37 * 16).for_each(|rows| writer.write(rows));
        assert_eq!(writer.finished(), write(Vec::new(), &colors, 37, None, 93));
    }

    #[test]
    fn a_profile_in_several_segments_comes_back() {
        let profile: Vec<u8> = (0..150_000_u32).map(|at| ((at * 31) >> 3) as u8).collect();
        let file = write(Vec::new(), &[90; 3 * 16 * 16], 16, Some(&profile), 93);
        let mut decoder = image::codecs::jpeg::JpegDecoder::new(std::io::Cursor::new(&file)).unwrap();
        assert_eq!(image::ImageDecoder::icc_profile(&mut decoder).unwrap(), Some(profile));
    }
}
