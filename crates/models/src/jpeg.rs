//! JPEG encoder: baseline, chroma not subsampled, with the Huffman tables of the standard (ITU-T T.81, Annex K). Its
//! loops over blocks of floats and bytes compile to vector instructions.

use std::f32::consts::FRAC_1_SQRT_2;

use multiversion::multiversion;

/// Side of a block.
const SIDE: usize = 8;

type Block<Value> = [[Value; SIDE]; SIDE];

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

/// Place of each coefficient in a block, in the order of the file.
const ZIGZAG: [usize; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// `ZIGZAG` for a transposed block, as `transform` leaves it.
const TURNED_ZIGZAG: [usize; 64] = {
    let mut turned = ZIGZAG;
    let mut at = 0;
    while at < turned.len() {
        turned[at] = ZIGZAG[at] % SIDE * SIDE + ZIGZAG[at] / SIDE;
        at += 1;
    }
    turned
};

/// Bits at the places of the file, for each row of a transposed block and each set of its columns.
static ORDERED: [[u64; 256]; SIDE] = {
    let mut ordered = [[0; 256]; SIDE];
    let mut at = 0;
    while at < TURNED_ZIGZAG.len() {
        let [row, column] = [TURNED_ZIGZAG[at] / SIDE, TURNED_ZIGZAG[at] % SIDE];
        let mut set = 0;
        while set < 256 {
            if set >> column & 1 == 1 {
                ordered[row][set] |= 1 << at;
            }
            set += 1;
        }
        at += 1;
    }
    ordered
};

/// Factors by which `transform` exceeds the transform of the standard, per row and column.
const EXCESS: [f32; SIDE] =
    [1.0, 1.387_039_9, 1.306_563, 1.175_875_6, 1.0, 0.785_694_96, 0.541_196_1, 0.275_899_38];

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

/// File of a picture whose rows come in parts.
pub(crate) struct Writer {
    width: usize,
    components: [Component; 3],
    bits: Bits,
    /// Blocks of one line of them.
    blocks: Vec<[Block<f32>; 3]>,
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
        let blocks = vec![[[[0.0; SIDE]; SIDE]; 3]; sides[0].div_ceil(SIDE)];
        Self { width: sides[0], components, bits: Bits { file, waiting: 0, count: 0 }, blocks }
    }

    /// Writes the next rows: a multiple of eight, except for the last ones.
    pub(crate) fn write(&mut self, colors: &[u8]) {
        let Self { width, components, bits, blocks } = self;
        let height = colors.len() / (3 * *width);
        let mut padded = Vec::new();
        for top in (0..height).step_by(SIDE) {
            for line in 0..SIDE {
                let start = 3 * *width * (top + line).min(height - 1);
                padded.clear();
                padded.extend_from_slice(&colors[start..start + 3 * *width]);
                while padded.len() < 3 * SIDE * blocks.len() {
                    padded.extend_from_within(padded.len() - 3..);
                }
                convert_line(&padded, blocks, line);
            }
            transform(blocks.as_flattened_mut());
            write_blocks(blocks, components, bits);
        }
    }

    pub(crate) fn finished(self) -> Vec<u8> {
        let mut file = self.bits.finished();
        file.extend_from_slice(b"\xff\xd9");
        file
    }
}

/// Writes a line of the blocks of luma and both chromas, each around 0.
#[multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt"))]
fn convert_line(pixels: &[u8], blocks: &mut [[Block<f32>; 3]], line: usize) {
    /// Blocks whose colors are separated at once.
    const COUNT: usize = 8;
    let mut colors = [[0.0_f32; COUNT * SIDE]; 3];
    for (pixels, blocks) in pixels.chunks(3 * SIDE * COUNT).zip(blocks.chunks_mut(COUNT)) {
        let [luma, blue_chroma, red_chroma] = &mut colors;
        let places = luma.iter_mut().zip(blue_chroma).zip(red_chroma);
        for (&[red, green, blue], ((luma, blue_chroma), red_chroma)) in
            pixels.as_chunks::<3>().0.iter().zip(places)
        {
            let [red, green, blue] = [red, green, blue].map(f32::from);
            *luma = 0.299 * red + 0.587 * green + 0.114 * blue - 128.0;
            *blue_chroma = -0.168_735_9 * red - 0.331_264_1 * green + 0.5 * blue;
            *red_chroma = 0.5 * red - 0.418_687_6 * green - 0.081_312_4 * blue;
        }
        for (channel, values) in colors.iter().enumerate() {
            for (block, values) in blocks.iter_mut().zip(values.as_chunks::<SIDE>().0) {
                block[channel][line] = *values;
            }
        }
    }
}

#[multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt"))]
fn write_blocks(blocks: &[[Block<f32>; 3]], components: &mut [Component; 3], bits: &mut Bits) {
    for block in blocks {
        for (component, block) in components.iter_mut().zip(block) {
            component.write(block, bits);
        }
    }
}

/// Returns the quantization step at a quality from 50.
fn scaled(step: u8, quality: u8) -> u8 {
    let percent = 200 - 2 * u16::from(quality.clamp(50, 100));
    ((u16::from(step) * percent + 50) / 100).clamp(1, 255) as u8
}

/// Returns the factor from each result of `transform` to its quantized coefficient.
fn factors(table: &[u8; 64]) -> Block<f32> {
    std::array::from_fn(|column| {
        std::array::from_fn(|row| {
            let step = f32::from(table[row * SIDE + column]);
            1.0 / (step * EXCESS[row] * EXCESS[column] * SIDE as f32)
        })
    })
}

/// Writes everything before the coefficients.
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

/// Replaces each block by its cosine transform, transposed, with each result too large by `EXCESS` (Arai, Agui and
/// Nakajima, 1988). Each step has a loop of its own, because the compiler does not vectorize them together.
#[multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt"))]
fn transform(blocks: &mut [Block<f32>]) {
    // As many as fit into the cache.
    for blocks in blocks.chunks_mut(64) {
        blocks.iter_mut().for_each(|block| *block = columns_transformed(block));
        blocks.iter_mut().for_each(|block| *block = transposed(block));
        blocks.iter_mut().for_each(|block| *block = columns_transformed(block));
    }
}

#[inline(always)]
fn transposed(block: &Block<f32>) -> Block<f32> {
    std::array::from_fn(|y| std::array::from_fn(|x| block[x][y]))
}

#[inline(always)]
fn columns_transformed(block: &Block<f32>) -> Block<f32> {
    let [a, b, c, d] = [0, 1, 2, 3].map(|y| sum(&block[y], &block[SIDE - 1 - y]));
    let [h, g, f, e] = [0, 1, 2, 3].map(|y| difference(&block[y], &block[SIDE - 1 - y]));
    let (outer, inner) = (sum(&a, &d), sum(&b, &c));
    let (off, half) = (difference(&a, &d), difference(&b, &c));
    let turned = product(&sum(&half, &off), FRAC_1_SQRT_2);
    let (low, middle, high) = (sum(&e, &f), product(&sum(&f, &g), FRAC_1_SQRT_2), sum(&g, &h));
    let shared = product(&difference(&low, &high), 0.382_683_43);
    let low = sum(&product(&low, 0.541_196_1), &shared);
    let high = sum(&product(&high, 1.306_563), &shared);
    let (plus, minus) = (sum(&h, &middle), difference(&h, &middle));
    [
        sum(&outer, &inner),
        sum(&plus, &high),
        sum(&off, &turned),
        difference(&minus, &low),
        difference(&outer, &inner),
        sum(&minus, &low),
        difference(&off, &turned),
        difference(&plus, &high),
    ]
}

#[inline(always)]
fn sum(one: &[f32; SIDE], other: &[f32; SIDE]) -> [f32; SIDE] {
    std::array::from_fn(|at| one[at] + other[at])
}

#[inline(always)]
fn difference(one: &[f32; SIDE], other: &[f32; SIDE]) -> [f32; SIDE] {
    std::array::from_fn(|at| one[at] - other[at])
}

#[inline(always)]
fn product(values: &[f32; SIDE], factor: f32) -> [f32; SIDE] {
    values.map(|value| value * factor)
}

/// Luma or chroma.
struct Component {
    factors: Block<f32>,
    constants: &'static Codes,
    others: &'static Codes,
    /// Constant term of the block before.
    last: i16,
}

impl Component {
    #[inline(always)]
    fn write(&mut self, block: &Block<f32>, bits: &mut Bits) {
        const END: usize = 0x00;
        const SIXTEEN_ZEROS: usize = 0xf0;
        let quantized = self.quantized(block);
        let constant = quantized[0];
        bits.write_number(constant - self.last, 0, self.constants);
        self.last = constant;
        let mut places = nonzero_places(&quantized) & !1;
        let mut before = 0;
        while places != 0 {
            let place = places.trailing_zeros() as usize % 64;
            places &= places - 1;
            let mut run = place - before - 1;
            while run > 15 {
                bits.write_symbol(SIXTEEN_ZEROS, self.others);
                run -= 16;
            }
            bits.write_number(quantized[TURNED_ZIGZAG[place]], run, self.others);
            before = place;
        }
        if before < 63 {
            bits.write_symbol(END, self.others);
        }
    }

    #[inline(always)]
    fn quantized(&self, block: &Block<f32>) -> [i16; 64] {
        /// Added to a number, rounds it: its fraction is beyond the 24 bits of a sum of this size.
        const ROUNDER: f32 = (3 << 22) as f32;
        let mut quantized = [0; 64];
        let values = block.as_flattened().iter().zip(self.factors.as_flattened());
        for (quantized, (value, factor)) in quantized.iter_mut().zip(values) {
            *quantized = (value * factor + ROUNDER).to_bits() as i16;
        }
        quantized
    }
}

/// Returns a bit for each coefficient that is not zero, in the order of the file.
#[inline(always)]
fn nonzero_places(quantized: &[i16; 64]) -> u64 {
    /// Moves the lowest bit of each byte into the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut places = 0;
    for (row, ordered) in quantized.as_chunks::<SIDE>().0.iter().zip(&ORDERED) {
        let flags = u64::from_le_bytes(row.map(|value| u8::from(value != 0)));
        places |= ordered[(flags.wrapping_mul(GATHER) >> 56) as usize];
    }
    places
}

/// Bits of the coefficients, written as whole bytes.
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

    /// Returns the mean squared difference of two pictures.
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
