//! Drawing lines onto pictures.

use crate::picture::Picture;

/// A place in a picture, in pixels.
pub(crate) type Point = (f32, f32);

/// Draws a straight line with smooth edges.
pub(crate) fn line(picture: &mut Picture, from: Point, to: Point, thickness: f32, color: [f32; 3]) {
    let reach = thickness / 2.0 + 1.0;
    let (width, height) = (picture.width(), picture.height());
    let (across, down) = (to.0 - from.0, to.1 - from.1);
    // A dot is a line of no length, by which nothing may be divided.
    let length = across.hypot(down).max(1e-3);
    let pixels = |from: f32, to: f32, size: usize| {
        ((from - reach).max(0.0) as usize).min(size)..((to + reach).max(0.0) as usize + 1).min(size)
    };
    for y in pixels(from.1.min(to.1), from.1.max(to.1), height) {
        let mut columns = pixels(from.0.min(to.0), from.0.max(to.0), width);
        // Only what the line passes in this row.
        if down.abs() > 1e-3 {
            let at = from.0 + across * (y as f32 - from.1) / down;
            let spread = reach * length / down.abs() + 1.0;
            let passed = pixels(at - spread, at + spread, width);
            columns = columns.start.max(passed.start)..columns.end.min(passed.end);
        }
        for x in columns {
            let (off_x, off_y) = (x as f32 - from.0, y as f32 - from.1);
            let along = ((off_x * across + off_y * down) / (length * length)).clamp(0.0, 1.0);
            let distance = (off_x - along * across).hypot(off_y - along * down);
            let cover = (thickness / 2.0 + 0.5 - distance).clamp(0.0, 1.0);
            put(picture, y * width + x, color, cover);
        }
    }
}

/// Draws a rectangle without filling it.
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

/// Draws a filled circle.
pub(crate) fn dot(picture: &mut Picture, center: Point, diameter: f32, color: [f32; 3]) {
    line(picture, center, center, diameter, color);
}

fn put(picture: &mut Picture, at: usize, color: [f32; 3], cover: f32) {
    for (plane, color) in picture.colors.iter_mut().zip(color) {
        if let Some(value) = plane.values.get_mut(at) {
            *value += cover * (color - *value);
        }
    }
    if let Some(alpha) = picture.alpha.as_mut().and_then(|alpha| alpha.values.get_mut(at)) {
        *alpha = alpha.max(cover);
    }
}
