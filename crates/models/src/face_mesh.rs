//! Face mesh: fits an average face of 68 points to the eyes and the mouth of each frontal face, draws it as a
//! mesh and lists the points. The depth is that of the average face; only the face cascade is trained.

use std::fmt::Write as _;
use std::sync::OnceLock;

use crate::draw;
use crate::face_detection::{Window, faces, searched_size};
use crate::memory::Need;
use crate::model::{BuiltIn, Outputs};
use crate::picture::Picture;
use crate::plane::Plane;
use crate::{Error, Inputs, Limits, Output};

const NEED: Need = Need { pixel: 14, reduced_pixel: 20, least: 0 };
/// Smallest face, as a share of the shorter side: landmarks of smaller faces would be noise.
const SMALLEST: f64 = 1.0 / 12.0;
/// Confidence of `face-detection` from which a window counts as a face.
const SURE: f64 = 0.45;
/// Side of the face picture in which eyes and mouth are searched.
const FACE: usize = 96;
const LINE: [f32; 3] = [0.35, 0.9, 0.95];
const DOT: [f32; 3] = [1.0, 0.35, 0.25];

/// Left half of an average face in the usual order of 68 points: distance from the middle, down from the line
/// of the eyes (in units of the distance between the pupils), and depth towards the viewer.
const HALF: [(usize, [f32; 3]); 38] = [
    // Jaw, from the ear to the chin.
    (0, [-1.16, 0.02, -0.95]),
    (1, [-1.15, 0.30, -0.85]),
    (2, [-1.10, 0.58, -0.72]),
    (3, [-1.02, 0.86, -0.56]),
    (4, [-0.88, 1.13, -0.38]),
    (5, [-0.69, 1.37, -0.20]),
    (6, [-0.47, 1.56, -0.06]),
    (7, [-0.23, 1.69, 0.02]),
    (8, [0.0, 1.73, 0.05]),
    // Brow.
    (17, [-0.98, -0.28, -0.22]),
    (18, [-0.83, -0.43, -0.08]),
    (19, [-0.63, -0.49, 0.02]),
    (20, [-0.42, -0.46, 0.09]),
    (21, [-0.22, -0.39, 0.13]),
    // Ridge and base of the nose.
    (27, [0.0, -0.06, 0.18]),
    (28, [0.0, 0.17, 0.28]),
    (29, [0.0, 0.39, 0.40]),
    (30, [0.0, 0.60, 0.50]),
    (31, [-0.27, 0.70, 0.22]),
    (32, [-0.14, 0.75, 0.30]),
    (33, [0.0, 0.79, 0.34]),
    // Eye.
    (36, [-0.74, 0.02, -0.10]),
    (37, [-0.59, -0.10, -0.02]),
    (38, [-0.40, -0.10, -0.01]),
    (39, [-0.26, 0.03, -0.04]),
    (40, [-0.40, 0.08, -0.01]),
    (41, [-0.59, 0.09, -0.02]),
    // Lips, outside and then inside.
    (48, [-0.42, 1.12, 0.10]),
    (49, [-0.27, 1.05, 0.22]),
    (50, [-0.11, 1.01, 0.29]),
    (51, [0.0, 1.03, 0.30]),
    (57, [0.0, 1.27, 0.26]),
    (58, [-0.13, 1.26, 0.25]),
    (59, [-0.29, 1.21, 0.18]),
    (60, [-0.36, 1.12, 0.13]),
    (61, [-0.12, 1.11, 0.24]),
    (62, [0.0, 1.12, 0.25]),
    (66, [0.0, 1.14, 0.25]),
];
/// The only point of the left half that is between two points of the middle.
const INNER_LIP: (usize, [f32; 3]) = (67, [-0.12, 1.14, 0.24]);
/// Mirror image of each point beside the middle.
const MIRRORED: [(usize, usize); 29] = [
    (0, 16),
    (1, 15),
    (2, 14),
    (3, 13),
    (4, 12),
    (5, 11),
    (6, 10),
    (7, 9),
    (17, 26),
    (18, 25),
    (19, 24),
    (20, 23),
    (21, 22),
    (31, 35),
    (32, 34),
    (36, 45),
    (37, 44),
    (38, 43),
    (39, 42),
    (40, 47),
    (41, 46),
    (48, 54),
    (49, 53),
    (50, 52),
    (58, 56),
    (59, 55),
    (60, 64),
    (61, 63),
    (67, 65),
];
const POINTS: usize = 68;
/// Distance of the mouth below the line of the eyes.
const MOUTH: f32 = 1.13;

pub(crate) const MODEL: BuiltIn = BuiltIn { kind: "face-mesh", need: NEED, run };

fn run(inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
    let mut picture = Picture::read(inputs, "input", NEED, limits)?;
    let size = searched_size(&picture, SMALLEST);
    let luma = picture.luma(size, limits)?;
    let scale = picture.width as f32 / size.0 as f32;
    let mut found = faces(&luma, SMALLEST, SURE, limits)?;
    found.sort_by(|one, other| one.left.total_cmp(&other.left));
    let fit = |face: &Window| Ok(Mesh::fit(&luma, *face, limits)?.scaled(scale));
    let meshes: Vec<Mesh> = found.iter().map(fit).collect::<Result<_, Error>>()?;
    drop(luma);
    let mut text = String::new();
    for (number, mesh) in meshes.iter().enumerate() {
        limits.check_time()?;
        mesh.draw(&mut picture);
        if meshes.len() > 1 {
            let _ = writeln!(text, "face {number}");
        }
        mesh.list(picture.width, picture.height, &mut text);
    }
    Ok(vec![("output", picture.into_file()?), ("multi_face_landmarks", Output::Text(text))])
}

/// Points of one face in pixels: across, down, and towards the viewer.
struct Mesh {
    points: [[f32; 3]; POINTS],
    unit: f32,
}

impl Mesh {
    /// Rotates, scales and stretches the average face onto the eyes and the mouth.
    fn fit(luma: &Plane, face: Window, limits: &Limits) -> Result<Self, Error> {
        let Features { left_eye, right_eye, mouth } = Features::find(luma, face, limits)?;
        let (across, down) = (right_eye.0 - left_eye.0, right_eye.1 - left_eye.1);
        let unit = across.hypot(down).max(1.0);
        let turned = (across / unit, down / unit);
        let middle = ((left_eye.0 + right_eye.0) / 2.0, (left_eye.1 + right_eye.1) / 2.0);
        // Distance of the mouth below the eyes, along the face.
        let below = (mouth.1 - middle.1) * turned.0 - (mouth.0 - middle.0) * turned.1;
        let stretch = (below / (MOUTH * unit)).clamp(0.8, 1.25);
        let points = average().map(|[x, y, depth]| {
            let (x, y) = (x * unit, y * unit * if y > 0.0 { stretch } else { 1.0 });
            [middle.0 + x * turned.0 - y * turned.1, middle.1 + x * turned.1 + y * turned.0, depth * unit]
        });
        Ok(Self { points, unit })
    }

    fn scaled(self, scale: f32) -> Self {
        Self { points: self.points.map(|point| point.map(|value| value * scale)), unit: self.unit * scale }
    }

    fn draw(&self, picture: &mut Picture) {
        let thickness = (self.unit / 60.0).max(1.0);
        let place = |at: usize| (self.points[at][0], self.points[at][1]);
        for (from, to) in edges() {
            draw::line(picture, place(*from), place(*to), thickness, LINE);
        }
        for at in 0..POINTS {
            draw::dot(picture, place(at), 2.0 * thickness + 1.0, DOT);
        }
    }

    /// Appends a line for each point: number, position as shares of width and height, and depth as a share of
    /// the width (smaller is nearer).
    fn list(&self, width: usize, height: usize, text: &mut String) {
        let (width, height) = (width as f32, height as f32);
        for (number, [x, y, depth]) in self.points.iter().enumerate() {
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{number}: {:.4} {:.4} {:.4}", x / width, y / height, -depth / width);
        }
    }
}

fn average() -> [[f32; 3]; POINTS] {
    let mut points = [[0.0; 3]; POINTS];
    for (at, point) in HALF.iter().chain([&INNER_LIP]) {
        points[*at] = *point;
    }
    for (left, right) in MIRRORED {
        let [x, y, depth] = points[left];
        points[right] = [-x, y, depth];
    }
    points
}

/// Returns the edges of a Delaunay triangulation of the average face, which is the same for every face.
fn edges() -> &'static [(usize, usize)] {
    static EDGES: OnceLock<Vec<(usize, usize)>> = OnceLock::new();
    EDGES.get_or_init(|| {
        // Slightly skewed: in a symmetric face, four points on one circle would have two triangulations.
        let points =
            average().map(|[x, y, _]| (f64::from(x + 0.003 * y), f64::from(y + 0.002 * x * x + 0.001 * x)));
        let mut edges = std::collections::BTreeSet::new();
        for a in 0..POINTS {
            for b in a + 1..POINTS {
                for c in b + 1..POINTS {
                    if is_triangle(&points, [a, b, c]) {
                        edges.extend([(a, b), (b, c), (a, c)]);
                    }
                }
            }
        }
        edges.into_iter().collect()
    })
}

/// Delaunay condition: returns true if no other point is within the circumcircle.
fn is_triangle(points: &[(f64, f64); POINTS], corners: [usize; 3]) -> bool {
    let [(ax, ay), (bx, by), (cx, cy)] = corners.map(|at| points[at]);
    let doubled = 2.0 * (ax * (by - cy) + bx * (cy - ay) + cx * (ay - by));
    if doubled.abs() < 1e-4 {
        return false;
    }
    let (a, b, c) = (ax * ax + ay * ay, bx * bx + by * by, cx * cx + cy * cy);
    let x = (a * (by - cy) + b * (cy - ay) + c * (ay - by)) / doubled;
    let y = (a * (cx - bx) + b * (ax - cx) + c * (bx - ax)) / doubled;
    let radius = (ax - x).hypot(ay - y);
    // Long flat triangles would fill the hollow between chin and ears.
    radius < 1.2 && points.iter().all(|(px, py)| (px - x).hypot(py - y) >= radius - 1e-9)
}

struct Features {
    left_eye: (f32, f32),
    right_eye: (f32, f32),
    mouth: (f32, f32),
}

impl Features {
    /// Finds the darkest spots near the usual positions of the features.
    fn find(luma: &Plane, face: Window, limits: &Limits) -> Result<Self, Error> {
        let left = (face.left.max(0.0) as usize).min(luma.width - 1);
        let top = (face.top.max(0.0) as usize).min(luma.height - 1);
        let size = (face.size as usize).clamp(1, (luma.width - left).min(luma.height - top));
        let small = luma.cut(left, top, size, size).resized(FACE, FACE, limits)?;
        let scale = size as f32 / FACE as f32;
        let at = |place: (f32, f32), spread: (f32, f32), blob: (usize, usize)| {
            let (x, y) = darkest(&small, place, spread, blob);
            (left as f32 + (x + 0.5) * scale, top as f32 + (y + 0.5) * scale)
        };
        Ok(Self {
            left_eye: at((0.31, 0.39), (0.08, 0.07), (3, 2)),
            right_eye: at((0.69, 0.39), (0.08, 0.07), (3, 2)),
            mouth: at((0.50, 0.79), (0.05, 0.06), (8, 1)),
        })
    }
}

/// Returns the center of the blob of this size, near a point, that is darkest relative to its surroundings.
fn darkest(face: &Plane, place: (f32, f32), spread: (f32, f32), blob: (usize, usize)) -> (f32, f32) {
    let mean = |x: isize, y: isize, wide: usize, high: usize| {
        let (wide, high) = (wide as isize, high as isize);
        let cells = (y - high..=y + high).flat_map(|y| (x - wide..=x + wide).map(move |x| (x, y)));
        cells.map(|(x, y)| face.at(x, y)).sum::<f32>() / ((2 * wide + 1) * (2 * high + 1)) as f32
    };
    let side = FACE as f32;
    let reach = |middle: f32, spread: f32| {
        ((middle - 2.0 * spread) * side) as isize..=((middle + 2.0 * spread) * side) as isize
    };
    let (mut best, mut found) = (f32::NEG_INFINITY, (place.0 * side, place.1 * side));
    for y in reach(place.1, spread.1) {
        for x in reach(place.0, spread.0) {
            let contrast = mean(x, y, 2 * blob.0, 3 * blob.1 + 2) - mean(x, y, blob.0, blob.1);
            let off = ((x as f32 / side - place.0) / spread.0).powi(2)
                + ((y as f32 / side - place.1) / spread.1).powi(2);
            let score = contrast - 0.03 * off;
            if score > best {
                best = score;
                found = (x as f32, y as f32);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_face_is_whole_and_symmetric() {
        let points = average();
        for (at, [x, _, _]) in points.iter().enumerate() {
            let has_mirror = MIRRORED.iter().any(|(left, right)| [*left, *right].contains(&at));
            assert_eq!(has_mirror, x.abs() > 1e-6, "point {at}");
        }
        // Euler: at most three edges per point; and every point has an edge.
        let edges = edges();
        assert!(edges.len() > 2 * POINTS - 10 && edges.len() < 3 * POINTS, "{} edges", edges.len());
        for at in 0..POINTS {
            assert!(edges.iter().filter(|(from, to)| [*from, *to].contains(&at)).count() >= 2, "point {at}");
        }
    }
}
