//! A picture of more than 5 MiB, drawn instead of kept in the repository: hills under an
//! evening sky, as an uncompressed bitmap.

use std::io::Cursor;

use image::{ImageFormat, Rgb, RgbImage};

const WIDTH: u32 = 1_600;
const HEIGHT: u32 = 1_200;

/// The picture as a BMP file of 5,760,054 bytes.
pub(super) fn bitmap() -> Vec<u8> {
    let picture = RgbImage::from_fn(WIDTH, HEIGHT, |column, row| {
        Rgb(color(column as f32 / WIDTH as f32, row as f32 / HEIGHT as f32))
    });
    let mut file = Cursor::new(Vec::new());
    // Writing into memory cannot fail.
    let _ = picture.write_to(&mut file, ImageFormat::Bmp);
    file.into_inner()
}

/// The color at a point: x from the left, y from the top, both from 0 to 1.
fn color(x: f32, y: f32) -> [u8; 3] {
    let sun = ((x - 0.68) * 1.33).hypot(y - 0.40);
    let ridge = |height: f32, wave: f32, phase: f32| {
        height + 0.05 * (wave * x + phase).sin() + 0.02 * (2.7 * wave * x + phase).sin()
    };
    let hills = [
        (ridge(0.52, 7.0, 0.4), [0.42, 0.38, 0.55]),
        (ridge(0.64, 9.0, 2.1), [0.25, 0.36, 0.38]),
        (ridge(0.78, 6.0, 4.0), [0.16, 0.30, 0.18]),
    ];
    // The nearest hill that reaches so high hides the others.
    let hill = hills.iter().rev().find(|(top, _)| y > *top);
    let color = match hill {
        Some((top, color)) => {
            let shade = 1.0 - 0.5 * (y - top);
            color.map(|part| part * shade)
        }
        None if sun < 0.055 => [1.0, 0.93, 0.72],
        None => {
            let glow = 0.35 * (-6.0 * sun).exp();
            let above = [0.23, 0.35, 0.66];
            let below = [0.97, 0.62, 0.42];
            std::array::from_fn(|part| above[part] + (below[part] - above[part]) * (y / 0.6) + glow)
        }
    };
    color.map(|part| (part.clamp(0.0, 1.0) * 255.0) as u8)
}

#[cfg(test)]
mod tests {
    use super::bitmap;

    #[test]
    fn the_picture_is_large_enough_for_the_second_tier() {
        let bitmap = bitmap();
        assert_eq!(bitmap.len(), 5_760_054);
        assert!(bitmap.len() > 5_242_880);
    }
}
