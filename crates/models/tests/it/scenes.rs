//! Test scenes, drawn by this project: deterministic at any size.

use image::{Rgb, RgbImage};

pub(crate) type Color = [f32; 3];

/// Draws a landscape: sky and sun, three ranges of hills, a meadow, a house and trees. Returns the picture
/// and the distance of every pixel, from 0 to 1.
pub(crate) fn landscape(width: u32, height: u32) -> (RgbImage, Vec<f32>) {
    let mut depths = Vec::with_capacity((width * height) as usize);
    let picture = draw(width, height, |x, y| {
        let (color, depth) = landscape_at(x, y);
        depths.push(depth);
        color
    });
    (picture, depths)
}

/// Returns color and distance at a point of the landscape; coordinates run from 0 to 1.
fn landscape_at(x: f32, y: f32) -> (Color, f32) {
    let fine = noise(x * 90.0, y * 90.0) - 0.5;
    let mut place = (mix([0.25, 0.5, 0.9], [0.7, 0.82, 0.95], y * 1.8), 1.0);
    if (x - 0.78).hypot((y - 0.14) * 0.8) < 0.05 {
        place.0 = [1.0, 0.95, 0.75];
    }
    let ranges: [(f32, f32, Color, f32, f32); 3] = [
        (0.40, 0.16, [0.34, 0.38, 0.42], 0.72, 3.0),
        (0.52, 0.10, [0.20, 0.34, 0.22], 0.45, 5.0),
        (0.66, 0.06, [0.28, 0.42, 0.12], 0.22, 2.0),
    ];
    for (base, rise, color, depth, frequency) in ranges {
        let ridge = base - rise * (noise(x * frequency + base * 40.0, 3.0) - 0.3);
        if y > ridge {
            place = (shade(color, 1.0 + 0.5 * fine), depth);
        }
    }
    if y > 0.78 {
        place = (shade([0.35, 0.5, 0.14], 1.0 + 0.9 * fine), 0.12 - 0.1 * (y - 0.78));
    }
    for (left, foot, size) in [(0.12, 0.80, 0.22), (0.30, 0.74, 0.14), (0.88, 0.84, 0.28), (0.70, 0.72, 0.10)]
    {
        let up = (foot - y) / size;
        let off = (x - left).abs() / size;
        if (0.0..1.0).contains(&up) && off < 0.05 && up < 0.25 {
            place = ([0.25, 0.16, 0.09], 0.1);
        } else if (0.2..1.0).contains(&up) && off < 0.3 * (1.0 - up) * (0.8 + 0.4 * (up * 14.0).sin().abs()) {
            place = (shade([0.07, 0.22, 0.09], 1.0 + 1.4 * fine), 0.1);
        }
    }
    house(x, y).map_or(place, |color| (shade(color, 1.0 + 0.15 * fine), 0.14))
}

fn house(x: f32, y: f32) -> Option<Color> {
    let (across, up) = ((x - 0.5) / 0.12, (0.82 - y) / 0.12);
    if across.abs() < 1.15 && (1.0..1.8).contains(&up) && across.abs() < 1.15 - (up - 1.0) * 1.3 {
        return Some(if ((up * 22.0) as i32) % 3 == 0 { [0.55, 0.13, 0.1] } else { [0.68, 0.18, 0.12] });
    }
    if across.abs() > 1.0 || !(0.0..1.0).contains(&up) {
        return None;
    }
    let window = |center: f32| (across - center).abs() < 0.2 && (up - 0.55).abs() < 0.18;
    if across.abs() < 0.16 && up < 0.62 {
        return Some([0.3, 0.18, 0.1]);
    }
    Some(if window(-0.6) || window(0.6) { [0.2, 0.26, 0.36] } else { [0.9, 0.86, 0.76] })
}

/// Draws the landscape in haze, thicker with distance.
pub(crate) fn hazy(width: u32, height: u32) -> RgbImage {
    let (mut picture, depths) = landscape(width, height);
    for (pixel, depth) in picture.pixels_mut().zip(depths) {
        let through = (-2.2 * depth).exp();
        let clear = pixel.0.map(|value| f32::from(value) / 255.0);
        *pixel = to_pixel(mix([0.82, 0.84, 0.86], clear, through));
    }
    picture
}

/// Draws the landscape at night: little light, more near the house, and camera noise.
pub(crate) fn dark(width: u32, height: u32) -> RgbImage {
    let (mut picture, _) = landscape(width, height);
    for (x, y, pixel) in picture.enumerate_pixels_mut() {
        let [near_x, near_y] =
            [(x, width, 0.5), (y, height, 0.75)].map(|(at, size, lamp)| at as f32 / size as f32 - lamp);
        let light = 0.025 + 0.05 * (-6.0 * near_x.hypot(near_y)).exp();
        let mut channel = 0;
        *pixel = to_pixel(pixel.0.map(|value| {
            channel += 1;
            let linear = (f32::from(value) / 255.0).powf(2.2) * light;
            (linear.powf(1.0 / 2.2) + 0.02 * (hash(x as i32 * 3 + channel, y as i32) - 0.5)).max(0.0)
        }));
    }
    picture
}

/// Draws two people before a wall: one near, one farther away.
pub(crate) fn people(width: u32, height: u32) -> RgbImage {
    let aspect = width as f32 / height as f32;
    draw(width, height, |x, y| {
        let mut color = shade([0.62, 0.68, 0.72], 0.92 + 0.12 * noise(x * 14.0, y * 14.0));
        for (center, middle, size, shirt) in
            [(0.78, 0.4, 0.058, [0.25, 0.35, 0.6]), (0.33, 0.5, 0.3, [0.6, 0.2, 0.22])]
        {
            color = person((x - center) * aspect / size, (y - middle) / size, shirt).unwrap_or(color);
        }
        color
    })
}

/// Draws a face from -1 to 1, seen from the front in soft light.
fn person(x: f32, y: f32, shirt: Color) -> Option<Color> {
    let soft = |at: f32, wide: f32| (-(at / wide).powi(2)).exp();
    let oval = (x / 0.76).hypot(if y < 0.0 { y / 1.0 } else { y / 1.08 });
    let hair = (x / 0.9).hypot((y + 0.18) / 1.05);
    let skin = [0.93, 0.74, 0.62];
    if oval < 1.0 && y > -0.62 - 0.12 * (x * 2.5).cos() {
        let mirrored = x.abs();
        let mut light = 0.8 + 0.22 * (1.0 - oval * oval).max(0.0).sqrt() - 0.08 * x;
        // Sockets, brows, pupils, bridge and shadow of the nose, lips.
        light -= 0.30 * soft(mirrored - 0.34, 0.2) * soft(y + 0.16, 0.13);
        light -= 0.42 * soft(mirrored - 0.35, 0.17) * soft(y + 0.33 + 0.1 * (mirrored - 0.35).powi(2), 0.05);
        light -= 0.5 * soft(mirrored - 0.34, 0.085) * soft(y + 0.15, 0.06);
        light += 0.1 * soft(x, 0.07) * soft(y - 0.05, 0.3);
        light -= 0.3 * soft(mirrored - 0.1, 0.07) * soft(y - 0.3, 0.04);
        light -= 0.12 * soft(x, 0.16) * soft(y - 0.36, 0.06);
        let lips = soft(x, 0.24) * soft(y - 0.56, 0.055);
        light -= 0.25 * lips + 0.3 * soft(x, 0.22) * soft(y - 0.555, 0.018);
        light -= 0.1 * soft(x, 0.25) * soft(y - 0.72, 0.05);
        return Some(shade(mix(skin, [0.8, 0.4, 0.38], lips), light.max(0.05)));
    }
    if hair < 1.0 && y < 0.35 {
        return Some(shade([0.24, 0.15, 0.1], 0.9 + 0.5 * soft(x + 0.2, 0.3) * soft(y + 0.9, 0.2)));
    }
    if y > 0.7 && y < 1.35 && x.abs() < 0.36 {
        return Some(shade(skin, 0.66));
    }
    (y > 1.2 + 0.25 * x * x && x.abs() < 1.7).then(|| shade(shirt, 0.9 + 0.15 * soft(x, 0.6)))
}

/// Draws the landscape in another view: rotated, nearer, in other light, cropped differently.
pub(crate) fn second_view(width: u32, height: u32) -> RgbImage {
    let (sin, cos) = 0.2_f32.sin_cos();
    draw(width, height, |x, y| {
        let (x, y) = ((x - 0.5) * 0.8, (y - 0.5) * 0.6);
        let (color, _) = landscape_at((x * cos + y * sin) + 0.55, (y * cos - x * sin) / 0.75 + 0.56);
        shade(color, 0.8)
    })
}

/// Draws a ball on a gray wall, at the left of the picture, and a mask around it.
pub(crate) fn ball(width: u32, height: u32) -> (RgbImage, RgbImage) {
    let from_center = |x: f32, y: f32| ((x - 0.27) * 1.3333, y - 0.4);
    let ball = draw(width, height, |x, y| {
        let (dx, dy) = from_center(x, y);
        let far = dx.hypot(dy) / 0.16;
        let wall = shade([0.55, 0.52, 0.5], 0.9 + 0.2 * noise(x * 30.0, y * 30.0));
        if far > 1.0 {
            return wall;
        }
        let light = 0.35 + 0.75 * (1.0 - far * far).sqrt() * (0.8 - 1.5 * dx - 1.5 * dy).clamp(0.0, 1.3);
        let stripe = ((dx * 22.0 + dy * 9.0).sin() > 0.3) as i32 as f32;
        shade(mix([0.9, 0.25, 0.1], [0.95, 0.85, 0.3], stripe), light)
    });
    let mask = draw(width, height, |x, y| {
        let (dx, dy) = from_center(x, y);
        [((dx.hypot(dy) < 0.185) as i32) as f32; 3]
    });
    (ball, mask)
}

/// Draws a picture from a function of `x` and `y`, which run from 0 to 1.
pub(crate) fn draw(width: u32, height: u32, mut at: impl FnMut(f32, f32) -> Color) -> RgbImage {
    let mut picture = RgbImage::new(width, height);
    for (x, y, pixel) in picture.enumerate_pixels_mut() {
        let [x, y] = [(x, width), (y, height)].map(|(at, size)| (at as f32 + 0.5) / size as f32);
        *pixel = to_pixel(at(x, y));
    }
    picture
}

pub(crate) fn to_pixel(color: Color) -> Rgb<u8> {
    Rgb(color.map(|value| (value * 255.0 + 0.5) as u8))
}

pub(crate) fn mix(one: Color, other: Color, share: f32) -> Color {
    let share = share.clamp(0.0, 1.0);
    [0, 1, 2].map(|channel| one[channel] + share * (other[channel] - one[channel]))
}

pub(crate) fn shade(color: Color, by: f32) -> Color {
    color.map(|value| value * by)
}

/// Smooth noise from 0 to 1, in three octaves.
pub(crate) fn noise(x: f32, y: f32) -> f32 {
    (0..3)
        .map(|octave| smooth(x * (1 << octave) as f32, y * (1 << octave) as f32) / (2 << octave) as f32)
        .sum::<f32>()
        / 0.875
}

fn smooth(x: f32, y: f32) -> f32 {
    let (left, top) = (x.floor(), y.floor());
    let ease = |t: f32| t * t * (3.0 - 2.0 * t);
    let (across, down) = (ease(x - left), ease(y - top));
    let corner = |dx: i32, dy: i32| hash(left as i32 + dx, top as i32 + dy);
    let upper = corner(0, 0) + across * (corner(1, 0) - corner(0, 0));
    let lower = corner(0, 1) + across * (corner(1, 1) - corner(0, 1));
    upper + down * (lower - upper)
}

/// Pseudorandom number from 0 to 1.
pub(crate) fn hash(x: i32, y: i32) -> f32 {
    let mut state = (x as u32).wrapping_mul(0x9E37_79B1) ^ (y as u32).wrapping_mul(0x85EB_CA77);
    state = (state ^ (state >> 15)).wrapping_mul(0x2C1B_3C6D);
    state = (state ^ (state >> 12)).wrapping_mul(0x297A_2D39);
    (state ^ (state >> 15)) as f32 / u32::MAX as f32
}

/// Draws a photo of people of any size, with camera noise.
pub(crate) fn photo(width: u32, height: u32) -> RgbImage {
    let small = people(width.min(1_000), height.min(750));
    let mut photo = image::imageops::resize(&small, width, height, image::imageops::FilterType::CatmullRom);
    for (x, y, pixel) in photo.enumerate_pixels_mut() {
        let noise = (hash(x as i32, y as i32) * 9.0) as u8;
        pixel.0 = pixel.0.map(|value| value.saturating_add(noise));
    }
    photo
}
