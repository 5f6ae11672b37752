//! Oklab: a color space with perceptual distances (Ottosson, 2020).

use multiversion::multiversion;

/// Converts sRGB from 0 to 1 into lightness, green–red and blue–yellow.
pub(crate) fn from_srgb(color: [f32; 3]) -> [f32; 3] {
    from_light(color.map(to_linear))
}

#[multiversion(targets("x86_64+avx2"))]
pub(crate) fn row_from_srgb([red, green, blue]: [&mut [f32]; 3]) {
    for ((red, green), blue) in red.iter_mut().zip(green).zip(blue) {
        [*red, *green, *blue] = from_light([*red, *green, *blue].map(to_linear));
    }
}

#[inline(always)]
fn from_light([r, g, b]: [f32; 3]) -> [f32; 3] {
    let l = cube_root(0.412_221_46 * r + 0.536_332_55 * g + 0.051_445_995 * b);
    let m = cube_root(0.211_903_5 * r + 0.680_699_5 * g + 0.107_396_96 * b);
    let s = cube_root(0.088_302_46 * r + 0.281_718_85 * g + 0.629_978_7 * b);
    [
        0.210_454_26 * l + 0.793_617_8 * m - 0.004_072_047 * s,
        1.977_998_5 * l - 2.428_592_2 * m + 0.450_593_7 * s,
        0.025_904_037 * l + 0.782_771_77 * m - 0.808_675_77 * s,
    ]
}

/// Returns the cube root of a number from 0 to about 1, by two steps of Halley's method from a third of its exponent.
/// Unlike `cbrt`, it compiles to vector instructions.
#[inline(always)]
fn cube_root(value: f32) -> f32 {
    /// Two thirds of the exponent of 1, corrected for the mean error.
    const BASE: u32 = 709_921_077;
    // The cube of the first guess for 0 would be too small for a number.
    let value = value.max(1e-15);
    let step = |root: f32| {
        let cube = root * root * root;
        root * (cube + 2.0 * value) / (2.0 * cube + value)
    };
    step(step(f32::from_bits(value.to_bits() / 3 + BASE)))
}

/// Converts to sRGB; clamps each channel of a color outside the gamut.
pub(crate) fn to_srgb(color: [f32; 3]) -> [f32; 3] {
    to_light(color).map(from_linear)
}

/// Converts to linear light, outside 0 to 1 for colors outside the sRGB gamut.
#[inline(always)]
fn to_light([lightness, a, b]: [f32; 3]) -> [f32; 3] {
    let cube = |value: f32| value * value * value;
    let l = cube(lightness + 0.396_337_78 * a + 0.215_803_76 * b);
    let m = cube(lightness - 0.105_561_346 * a - 0.063_854_17 * b);
    let s = cube(lightness - 0.089_484_18 * a - 1.291_485_5 * b);
    [
        4.076_741_7 * l - 3.307_711_6 * m + 0.230_969_94 * s,
        -1.268_438 * l + 2.609_757_4 * m - 0.341_319_38 * s,
        -0.004_196_086_3 * l - 0.703_418_6 * m + 1.707_614_7 * s,
    ]
}

/// Converts a row to sRGB; reduces the chroma of a color outside the gamut.
#[multiversion(targets("x86_64+avx2"))]
pub(crate) fn row_to_shown_srgb([lightness, a, b]: [&mut [f32]; 3]) {
    const PART: usize = 64;
    for ((lightness, a), b) in lightness.chunks_mut(PART).zip(a.chunks_mut(PART)).zip(b.chunks_mut(PART)) {
        let mut outside = 0;
        for ((lightness, a), b) in lightness.iter().zip(&*a).zip(&*b) {
            outside += u32::from(!is_shown(to_light([*lightness, *a, *b])));
        }
        if outside > 0 {
            let mut shares = [0.0_f32; PART];
            for step in [1.0, 0.5, 0.25, 0.125, 0.062_5, 0.031_25, 0.015_625] {
                raise_shares(&mut shares, step, [&*lightness, &*a, &*b]);
            }
            for ((a, b), share) in a.iter_mut().zip(&mut *b).zip(shares) {
                (*a, *b) = (*a * share, *b * share);
            }
        }
        for ((lightness, a), b) in lightness.iter_mut().zip(a).zip(b) {
            [*lightness, *a, *b] = to_light([*lightness, *a, *b]).map(from_linear);
        }
    }
}

/// Returns true for light within the gamut, but for rounding.
#[inline(always)]
fn is_shown([red, green, blue]: [f32; 3]) -> bool {
    let least = red.min(green).min(blue);
    let most = red.max(green).max(blue);
    (least >= -1.5e-4) & (most <= 1.004_5)
}

/// Adds a step to each share of the chroma of a color, if the color then fits into the gamut.
#[inline(always)]
fn raise_shares(shares: &mut [f32], step: f32, [lightness, a, b]: [&[f32]; 3]) {
    for (share, ((lightness, a), b)) in shares.iter_mut().zip(lightness.iter().zip(a).zip(b)) {
        let more = *share + step;
        let is_fitting = (more <= 1.0) & is_shown(to_light([*lightness, a * more, b * more]));
        *share = if is_fitting { more } else { *share };
    }
}

/// Converts sRGB into linear light, both from 0 to 1. The polynomial is exact to a fiftieth of a step of a byte.
#[inline(always)]
fn to_linear(value: f32) -> f32 {
    let value = value.clamp(0.0, 1.0);
    let curve = [0.087_282_47, -0.307_377_81, 0.667_160_8, 0.519_381_9, 0.032_746_09, 0.000_916_89];
    if value <= 0.040_45 { value / 12.92 } else { polynomial(value, curve) }
}

/// Converts linear light into sRGB, as exactly.
#[inline(always)]
fn from_linear(value: f32) -> f32 {
    let value = value.clamp(0.0, 1.0);
    let curve = [0.081_332_31, -0.335_507_72, 1.122_687_4, 0.196_133_58, -0.064_611_22];
    if value <= 0.003_130_8 { value * 12.92 } else { polynomial(value.sqrt().sqrt(), curve) }
}

/// Returns the value of a polynomial, whose highest power comes first.
#[inline(always)]
fn polynomial<const COUNT: usize>(value: f32, factors: [f32; COUNT]) -> f32 {
    factors.into_iter().fold(0.0, |sum, factor| sum * value + factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_polynomials_are_the_curves_of_srgb() {
        for byte in 0..=255_u8 {
            let value = f32::from(byte) / 255.0;
            let linear = if byte <= 10 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) };
            // Steps of a byte are larger where it is bright.
            let step = (0.02 / 255.0) * 2.4 * value.max(0.04);
            assert!((to_linear(value) - linear).abs() < step, "{byte} is {} of light", to_linear(value));
            assert!((from_linear(linear) - value).abs() < 0.02 / 255.0, "{linear} of light is not {byte}");
        }
    }

    #[test]
    fn a_color_of_a_row_beyond_the_gamut_keeps_lightness_and_hue() {
        let colors = [[0.6, 0.1, 0.05], [0.5, 0.5, -0.2], [0.99, 0.0, 0.1], [0.3, 0.02, 0.01]];
        let [mut lightness, mut a, mut b] = [0, 1, 2].map(|channel| colors.map(|color| color[channel]));
        row_to_shown_srgb([&mut lightness, &mut a, &mut b]);
        let [mut back_l, mut back_a, mut back_b] = [lightness, a, b];
        row_from_srgb([&mut back_l, &mut back_a, &mut back_b]);
        for (at, color) in colors.into_iter().enumerate() {
            let is_inside = is_shown(to_light(color));
            assert_eq!(is_inside, at == 0 || at == 3);
            if is_inside {
                assert!((to_srgb(color)[0] - lightness[at]).abs() < 1e-6);
            }
            assert!((back_l[at] - color[0]).abs() < 0.01, "{color:?} has the lightness {}", back_l[at]);
            let turn = back_b[at].atan2(back_a[at]) - color[2].atan2(color[1]);
            assert!(turn.abs() < 0.05, "{color:?} is turned by {turn}");
            assert!(back_a[at].hypot(back_b[at]) < color[1].hypot(color[2]) + 0.002);
        }
    }

    #[test]
    fn colors_come_back_and_white_is_white() {
        for color in [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.2, 0.5, 0.9], [0.01, 0.9, 0.0]] {
            for (there, back) in color.iter().zip(to_srgb(from_srgb(color))) {
                assert!((there - back).abs() < 2e-3, "{color:?} came back with {back}");
            }
        }
        for value in [0.0, 1e-9, 1e-4, 0.02, 0.3, 0.999, 1.0] {
            let root = cube_root(value);
            assert!((root - value.cbrt()).abs() < 2e-5, "{root} is the cube root of {value}");
        }
        let [lightness, a, b] = from_srgb([1.0, 1.0, 1.0]);
        assert!((lightness - 1.0).abs() < 1e-4 && a.abs() < 1e-4 && b.abs() < 1e-4);
    }
}
