//! Oklab: a color space with perceptual distances (Ottosson, 2020).

use std::sync::LazyLock;

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
    let [r, g, b] = color.map(|value| look_up(&TO_LINEAR, value));
    let l = (0.412_221_46 * r + 0.536_332_55 * g + 0.051_445_995 * b).cbrt();
    let m = (0.211_903_5 * r + 0.680_699_5 * g + 0.107_396_96 * b).cbrt();
    let s = (0.088_302_46 * r + 0.281_718_85 * g + 0.629_978_7 * b).cbrt();
    [
        0.210_454_26 * l + 0.793_617_8 * m - 0.004_072_047 * s,
        1.977_998_5 * l - 2.428_592_2 * m + 0.450_593_7 * s,
        0.025_904_037 * l + 0.782_771_77 * m - 0.808_675_77 * s,
    ]
}

/// Converts to sRGB; clamps each channel of a color outside the gamut.
pub(crate) fn to_srgb(color: [f32; 3]) -> [f32; 3] {
    to_light(color).map(|value| look_up(&FROM_LINEAR, value))
}

/// Converts to linear light, outside 0 to 1 for colors outside the sRGB gamut.
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

/// Converts to sRGB; reduces the chroma of a color outside the gamut.
pub(crate) fn to_shown_srgb([lightness, a, b]: [f32; 3]) -> [f32; 3] {
    let fits = |share: f32| {
        to_light([lightness, a * share, b * share]).iter().all(|value| (-1.5e-4..=1.004_5).contains(value))
    };
    if fits(1.0) {
        return to_srgb([lightness, a, b]);
    }
    let (mut fitting, mut too_much) = (0.0, 1.0);
    for _ in 0..6 {
        let middle = (fitting + too_much) / 2.0;
        if fits(middle) {
            fitting = middle;
        } else {
            too_much = middle;
        }
    }
    to_srgb([lightness, a * fitting, b * fitting])
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
        let [lightness, a, b] = from_srgb([1.0, 1.0, 1.0]);
        assert!((lightness - 1.0).abs() < 1e-4 && a.abs() < 1e-4 && b.abs() < 1e-4);
    }
}
