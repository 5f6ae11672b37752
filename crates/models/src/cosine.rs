//! Quantized cosine transforms of JPEG blocks, sixteen at once: a vector has a 16-bit fixed-point value of each.

/// Side of a block.
pub(crate) const SIDE: usize = 8;

/// Blocks that are computed at once.
pub(crate) const LANES: usize = 16;

pub(crate) const COLUMNS: usize = LANES * SIDE;

/// A value of each of the blocks.
type Lanes = [i16; LANES];

/// Place of each coefficient in a block, in the order of the file.
pub(crate) const ZIGZAG: [usize; 64] = [
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

/// Factors by which `transform` exceeds the transform of the standard, per row and column.
const EXCESS: [f64; SIDE] =
    [1.0, 1.387_039_845, 1.306_562_965, 1.175_875_602, 1.0, 0.785_694_958, 0.541_196_100, 0.275_899_379];

/// Half of each step in results of `transform`, and the factor to quantized ones (`fixed`), in the order of the file.
pub(crate) type Factors = [(i16, i16); 64];

pub(crate) fn factors(table: &[u8; 64]) -> Factors {
    ZIGZAG.map(|place| {
        let excess = EXCESS[place / SIDE] * EXCESS[place % SIDE] * (SIDE as i16 * STEPS) as f64;
        let step = f64::from(table[place]) * excess;
        ((step / 2.0).round() as i16, fixed(1.0 / step))
    })
}

pub(crate) struct Blocks {
    /// Quantized coefficients, in the order of the file.
    pub(crate) quantized: [Lanes; 64],
    /// A bit for each coefficient that is not zero, in four parts.
    pub(crate) nonzero: [[u16; LANES]; 4],
}

impl Blocks {
    pub(crate) const fn new() -> Self {
        Self { quantized: [[0; LANES]; 64], nonzero: [[0; LANES]; 4] }
    }

    #[inline(always)]
    pub(crate) fn fill(&mut self, rows: &[&[u8]; SIDE], left: usize, factors: &Factors) {
        let mut words = [0; COLUMNS];
        for (row, words) in rows.iter().zip(words.as_chunks_mut::<LANES>().0) {
            let row = &row[left..];
            if let Some(row) = row.first_chunk() {
                read_words(row, words);
            } else {
                let mut padded = [row[row.len() - 1]; COLUMNS];
                padded[..row.len()].copy_from_slice(row);
                read_words(&padded, words);
            }
        }
        let (mut values, mut half) = ([[0; COLUMNS]; SIDE], [[0; COLUMNS]; SIDE]);
        deal(&words, &mut values);
        transform(&values, &mut half, 1);
        let mut coefficients = [[[0; LANES]; SIDE]; SIDE];
        for (from, to) in half.as_flattened().as_chunks().0.as_chunks().0.iter().zip(&mut coefficients) {
            transform(from, to, VALUE_STEPS / STEPS);
        }
        let coefficients = coefficients.as_flattened_mut();
        // JPEG centers the values around 0 before the transform. Their mean is in the first coefficient alone.
        for value in &mut coefficients[0] {
            *value = value.wrapping_sub(128 * STEPS * 64);
        }
        quantize(coefficients, factors, &mut self.quantized, &mut self.nonzero);
    }
}

#[inline(always)]
fn read_words(row: &[u8; COLUMNS], words: &mut [u64; LANES]) {
    for (word, bytes) in words.iter_mut().zip(row.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
}

/// Steps of a value for one step of a byte, until its columns are transformed. With more, a sum could exceed 16 bits.
const VALUE_STEPS: i16 = 16;

/// Steps of a value after that.
const STEPS: i16 = 2;

/// Deals the columns of eight rows of blocks out: the first ones of each block, the second ones, and so on.
#[inline(always)]
fn deal(words: &[u64; COLUMNS], columns: &mut [[i16; COLUMNS]; SIDE]) {
    const MASK: u16 = 0xff * VALUE_STEPS as u16;
    let (mut fours, mut twos) = ([[0_u32; COLUMNS]; 2], [[0_u16; COLUMNS]; 4]);
    let [low, high] = &mut fours;
    for at in 0..COLUMNS {
        low[at] = words[at] as u32;
        high[at] = (words[at] >> 32) as u32;
    }
    for (fours, twos) in fours.iter().zip(twos.as_chunks_mut().0) {
        let [low, high] = twos;
        for at in 0..COLUMNS {
            low[at] = fours[at] as u16;
            high[at] = (fours[at] >> 16) as u16;
        }
    }
    for (twos, columns) in twos.iter().zip(columns.as_chunks_mut().0) {
        let [low, high] = columns;
        for at in 0..COLUMNS {
            low[at] = (twos[at] << 4 & MASK) as i16;
            high[at] = (twos[at] >> 4 & MASK) as i16;
        }
    }
}

/// Writes the cosine transforms of eight parts by a divisor, too large by `EXCESS` (Arai, Agui and Nakajima, 1988).
#[inline(always)]
fn transform<const LENGTH: usize>(
    from: &[[i16; LENGTH]; SIDE],
    to: &mut [[i16; LENGTH]; SIDE],
    divisor: i16,
) {
    let divided = |value: i16| value.wrapping_add(divisor / 2) >> divisor.trailing_zeros();
    let [a, b, c, d, e, f, g, h] = from;
    let [i, j, k, l, m, n, o, p] = to;
    for at in 0..LENGTH {
        [i[at], j[at], k[at], l[at], m[at], n[at], o[at], p[at]] =
            transformed([a[at], b[at], c[at], d[at], e[at], f[at], g[at], h[at]].map(divided));
    }
}

#[inline(always)]
fn transformed(values: [i16; SIDE]) -> [i16; SIDE] {
    /// One less the root of one half.
    const LESS_HALF_ROOT: i16 = fixed(0.292_893_219);
    let [a, b, c, d] = [0, 1, 2, 3].map(|at| values[at].wrapping_add(values[SIDE - 1 - at]));
    let [h, g, f, e] = [0, 1, 2, 3].map(|at| values[at].wrapping_sub(values[SIDE - 1 - at]));
    let (outer, inner) = (a.wrapping_add(d), b.wrapping_add(c));
    let (off, half) = (a.wrapping_sub(d), b.wrapping_sub(c));
    let turned = half.wrapping_add(off);
    let turned = turned.wrapping_sub(product(turned, LESS_HALF_ROOT));
    let (low, middle, high) = (e.wrapping_add(f), f.wrapping_add(g), g.wrapping_add(h));
    let middle = middle.wrapping_sub(product(middle, LESS_HALF_ROOT));
    let shared = product(low.wrapping_sub(high), fixed(0.382_683_433));
    let low = low.wrapping_sub(product(low, fixed(1.0 - 0.541_196_100))).wrapping_add(shared);
    let high = high.wrapping_sub(product(high, fixed(-0.306_562_965))).wrapping_add(shared);
    let (plus, minus) = (h.wrapping_add(middle), h.wrapping_sub(middle));
    [
        outer.wrapping_add(inner),
        plus.wrapping_add(high),
        off.wrapping_add(turned),
        minus.wrapping_sub(low),
        outer.wrapping_sub(inner),
        minus.wrapping_add(low),
        off.wrapping_sub(turned),
        plus.wrapping_sub(high),
    ]
}

/// Returns a number from minus to plus one half with sixteen bits behind the point.
const fn fixed(number: f64) -> i16 {
    (number * 65_536.0).round() as i16
}

/// Returns the product with a number of `fixed`, rounded down: one instruction of the processor.
#[inline(always)]
fn product(value: i16, factor: i16) -> i16 {
    ((i32::from(value) * i32::from(factor)) >> 16) as i16
}

#[inline(always)]
fn quantize(
    coefficients: &[Lanes],
    factors: &Factors,
    quantized: &mut [Lanes; 64],
    nonzero: &mut [[u16; LANES]; 4],
) {
    for (at, (quantized, (half, factor))) in quantized.iter_mut().zip(factors).enumerate() {
        let from = &coefficients[TURNED_ZIGZAG[at]];
        for lane in 0..LANES {
            quantized[lane] = product(from[lane].wrapping_add(*half), *factor);
        }
    }
    for (nonzero, quantized) in nonzero.iter_mut().zip(quantized.as_chunks::<16>().0) {
        for lane in 0..LANES {
            let mut flags = 0;
            for (bit, quantized) in quantized.iter().enumerate() {
                flags |= u16::from(quantized[lane] != 0) << bit;
            }
            nonzero[lane] = flags;
        }
    }
}
