//! Drawing lines onto pictures.

use crate::picture::{Picture, from_byte, to_byte};

pub(crate) type Point = (f32, f32);

pub(crate) fn line(picture: &mut Picture, from: Point, to: Point, thickness: f32, color: [f32; 3]) {
    let reach = thickness / 2.0 + 1.0;
    let (width, height) = (picture.width, picture.height);
    let (across, down) = (to.0 - from.0, to.1 - from.1);
    // A dot is a line of no length; avoid a division by zero.
    let length = across.hypot(down).max(1e-3);
    let pixels = |from: f32, to: f32, size: usize| {
        ((from - reach).max(0.0) as usize).min(size)..((to + reach).max(0.0) as usize + 1).min(size)
    };
    for y in pixels(from.1.min(to.1), from.1.max(to.1), height) {
        let mut columns = pixels(from.0.min(to.0), from.0.max(to.0), width);
        if down.abs() > 1e-3 {
            let at = from.0 + across * (y as f32 - from.1) / down;
            let spread = reach * length / down.abs() + 1.0;
            let passed = pixels(at - spread, at + spread, width);
            columns = columns.start.max(passed.start)..columns.end.min(passed.end);
        }
        for x in columns {
            let (off_x, off_y) = (x as f32 - from.0, y as f32 - from.1);
            let along = ((off_x * across + off_y * down) / (length * length)).clamp(0.0, 1.0);
            let (beside_x, beside_y) = (off_x - along * across, off_y - along * down);
            let distance = (beside_x * beside_x + beside_y * beside_y).sqrt();
            let cover = (thickness / 2.0 + 0.5 - distance).clamp(0.0, 1.0);
            if cover > 0.0 {
                put(picture, y * width + x, color, cover);
            }
        }
    }
}

pub(crate) fn rectangle(
    picture: &mut Picture,
    (left, top): Point,
    (right, bottom): Point,
    thickness: f32,
    color: [f32; 3],
) {
    let corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)];
    for side in corners.windows(2) {
        if let [from, to] = side {
            line(picture, *from, *to, thickness, color);
        }
    }
}

pub(crate) fn dot(picture: &mut Picture, center: Point, diameter: f32, color: [f32; 3]) {
    line(picture, center, center, diameter, color);
}

/// Writes a text at the upper left: capitals of five by seven squares on a dark ground.
pub(crate) fn label(picture: &mut Picture, text: &str) {
    const MARGIN: usize = 2;
    let words = text.bytes().map(glyph);
    let columns: Vec<u8> = words.flat_map(|columns| columns.into_iter().chain([0])).collect();
    let square = (picture.shorter_side() / 120).min(picture.width / (columns.len() + 2 * MARGIN)).max(1);
    for y in 0..((7 + 2 * MARGIN) * square).min(picture.height) {
        for x in 0..((columns.len() + 2 * MARGIN) * square).min(picture.width) {
            let [row, column] = [y, x].map(|at| (at / square).wrapping_sub(MARGIN));
            let is_ink = row < 7 && columns.get(column).is_some_and(|squares| squares >> row & 1 == 1);
            let color = if is_ink { [1.0; 3] } else { [0.0; 3] };
            put(picture, y * picture.width + x, color, 1.0);
        }
    }
}

/// Returns the columns of a letter; the lowest bit is the top.
fn glyph(letter: u8) -> [u8; 5] {
    match letter.to_ascii_uppercase() {
        b'A' => [0x7e, 0x11, 0x11, 0x11, 0x7e],
        b'C' => [0x3e, 0x41, 0x41, 0x41, 0x22],
        b'D' => [0x7f, 0x41, 0x41, 0x22, 0x1c],
        b'E' => [0x7f, 0x49, 0x49, 0x49, 0x41],
        b'F' => [0x7f, 0x09, 0x09, 0x09, 0x01],
        b'H' => [0x7f, 0x08, 0x08, 0x08, 0x7f],
        b'M' => [0x7f, 0x02, 0x0c, 0x02, 0x7f],
        b'N' => [0x7f, 0x04, 0x08, 0x10, 0x7f],
        b'O' => [0x3e, 0x41, 0x41, 0x41, 0x3e],
        b'T' => [0x01, 0x01, 0x7f, 0x01, 0x01],
        b'U' => [0x3f, 0x40, 0x40, 0x40, 0x3f],
        _ => [0; 5],
    }
}

fn put(picture: &mut Picture, at: usize, color: [f32; 3], cover: f32) {
    for (byte, color) in picture.colors[3 * at..3 * at + 3].iter_mut().zip(color) {
        let value = from_byte(*byte);
        *byte = to_byte(value + cover * (color - value));
    }
    if let Some(alpha) = &mut picture.alpha {
        alpha[at] = alpha[at].max(to_byte(cover));
    }
}
