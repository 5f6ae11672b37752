//! A picture of more than 5 MiB, drawn instead of kept in the repository: evening hills as an uncompressed bitmap.

const WIDTH: usize = 1_600;
const HEIGHT: usize = 1_200;

/// Number of bytes before the pixels.
const HEAD: usize = 54;

/// The picture as a BMP file of 5,760,054 bytes.
pub(super) fn bitmap() -> Vec<u8> {
    let pixels = WIDTH * HEIGHT * 3;
    let mut file = Vec::with_capacity(HEAD + pixels);
    file.extend_from_slice(b"BM");
    for field in [HEAD + pixels, 0, HEAD, 40, WIDTH, HEIGHT] {
        file.extend_from_slice(&little_endian(field));
    }
    // One plane of 24 bits.
    file.extend_from_slice(&[1, 0, 24, 0]);
    for field in [0, pixels, 2_835, 2_835, 0, 0] {
        file.extend_from_slice(&little_endian(field));
    }
    // Rows go from the bottom to the top, and a row of 4,800 bytes needs no padding.
    for row in (0..HEIGHT).rev() {
        for column in 0..WIDTH {
            let [red, green, blue] = color(column as f32 / WIDTH as f32, row as f32 / HEIGHT as f32);
            file.extend_from_slice(&[blue, green, red]);
        }
    }
    file
}

fn little_endian(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()
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
