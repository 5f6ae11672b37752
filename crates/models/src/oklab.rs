//! Oklab: a color space with perceptual distances (Ottosson, 2020).

use std::sync::LazyLock;

use multiversion::multiversion;

/// Size of the tables; values between are interpolated.
const STEPS: usize = 4096;

/// Function over 0 to 1, as a table.
type Table = LazyLock<Vec<f32>>;

static TO_LINEAR: Table = LazyLock::new(|| table(to_linear));
static FROM_LINEAR: Table = LazyLock::new(|| table(from_linear));

fn table(function: fn(f32) -> f32) -> Vec<f32> {
    // One more entry, for the interpolation of the last step.
    (0..=STEPS + 1).map(|at| function(at as f32 / STEPS as f32)).collect()
}

fn look_up(table: &[f32], value: f32) -> f32 {
    let place = value.clamp(0.0, 1.0) * STEPS as f32;
    let at = place as usize;
    table[at] + (place - at as f32) * (table[at + 1] - table[at])
}

/// Converts sRGB from 0 to 1 into lightness, green–red and blue–yellow.
pub(crate) fn from_srgb(color: [f32; 3]) -> [f32; 3] {
    from_light(color.map(|value| look_up(&TO_LINEAR, value)))
}

/// Converts a row of sRGB, each channel by itself.
pub(crate) fn row_from_srgb(mut row: [&mut [f32]; 3]) {
    let table: &[f32] = &TO_LINEAR;
    for values in &mut row {
        values.iter_mut().for_each(|value| *value = look_up(table, *value));
    }
    row_from_light(row);
}

#[multiversion(targets("x86_64+avx2"))]
fn row_from_light(row: [&mut [f32]; 3]) {
    let [red, green, blue] = row;
    for ((red, green), blue) in red.iter_mut().zip(green).zip(blue) {
        [*red, *green, *blue] = from_light([*red, *green, *blue]);
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
    to_light(color).map(|value| look_up(&FROM_LINEAR, value))
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
pub(crate) fn row_to_shown_srgb([lightness, a, b]: [&mut [f32]; 3]) {
    const PART: usize = 64;
    let table: &[f32] = &FROM_LINEAR;
    let mut light = [[0.0; 3]; PART];
    for ((lightness, a), b) in lightness.chunks_mut(PART).zip(a.chunks_mut(PART)).zip(b.chunks_mut(PART)) {
        write_light([&*lightness, &*a, &*b], &mut light);
        for (((lightness, a), b), light) in lightness.iter_mut().zip(a).zip(b).zip(light) {
            let shown = if is_shown(light) { light } else { reduced([*lightness, *a, *b]) };
            [*lightness, *a, *b] = shown.map(|value| look_up(table, value));
        }
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn write_light([lightness, a, b]: [&[f32]; 3], light: &mut [[f32; 3]]) {
    for (light, ((lightness, a), b)) in light.iter_mut().zip(lightness.iter().zip(a).zip(b)) {
        *light = to_light([*lightness, *a, *b]);
    }
}

/// Returns true for light within the gamut, but for rounding.
fn is_shown(light: [f32; 3]) -> bool {
    light.iter().all(|value| (-1.5e-4..=1.004_5).contains(value))
}

/// Returns the light of a color whose chroma is reduced until it fits into the gamut.
fn reduced([lightness, a, b]: [f32; 3]) -> [f32; 3] {
    let light = |share: f32| to_light([lightness, a * share, b * share]);
    let (mut fitting, mut too_much) = (0.0, 1.0);
    for _ in 0..6 {
        let middle = (fitting + too_much) / 2.0;
        if is_shown(light(middle)) {
            fitting = middle;
        } else {
            too_much = middle;
        }
    }
    light(fitting)
}

fn to_linear(value: f32) -> f32 {
    if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
}

fn from_linear(value: f32) -> f32 {
    if value <= 0.003_130_8 { value * 12.92 } else { 1.055 * value.powf(1.0 / 2.4) - 0.055 }
}

#[cfg(test)]
mod tests {
    use super::*;

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
