//! The second super-resolution: twice as large by directional cubic convolution (Zhou, Shen and Dong,
//! 2012): every new pixel is interpolated along the edge that it lies on, never across it.

use crate::picture::Picture;
use crate::plane::{Plane, clamp};
use crate::{Error, Inputs, Limits, Model, Output};

/// Bytes for a pixel of the input at the peak; the output has four times as many.
const NEED: u64 = 130;
/// One direction has to vary this much more than the other to be across an edge.
const CLEARLY: f32 = 1.15;
/// What is added to both, so that noise is no edge. It stands for sums over windows of values.
const NOISE: f32 = 0.02;

pub(crate) struct SuperResolutionAlt;

impl Model for SuperResolutionAlt {
    fn kind(&self) -> &'static str {
        "super-resolution-alt"
    }

    fn bytes_per_pixel(&self) -> Option<u64> {
        Some(NEED)
    }

    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let small = Picture::read(inputs, "input_image", NEED, limits)?;
        let [red, green, blue] = small.colors.map(|plane| upscaled(&plane, limits));
        let alpha = small.alpha.map(|alpha| upscaled(&alpha, limits)).transpose()?;
        Ok(vec![("output_image", Picture { colors: [red?, green?, blue?], alpha }.into_png()?)])
    }
}

fn upscaled(small: &Plane, limits: &Limits) -> Result<Plane, Error> {
    let mut large = Plane::filled(2 * small.width, 2 * small.height, 0.0);
    for (y, row) in large.rows_mut().enumerate().step_by(2) {
        for (pair, value) in row.chunks_exact_mut(2).zip(small.row((y / 2) as isize)) {
            pair.fill(*value);
        }
    }
    // First the pixels between four given ones, along a diagonal; then the rest, which by now have
    // neighbors on all four sides, along a row or a column.
    fill(&mut large, |x, y| x % 2 == 1 && y % 2 == 1, [(1, 1), (1, -1)], limits)?;
    fill(&mut large, |x, y| x % 2 != y % 2, [(1, 0), (0, 1)], limits)?;
    Ok(large)
}

type Step = (isize, isize);

/// Fills the pixels that `is_new`, each along the one of two directions in which less changes.
fn fill(
    large: &mut Plane,
    is_new: impl Fn(usize, usize) -> bool,
    directions: [Step; 2],
    limits: &Limits,
) -> Result<(), Error> {
    // New pixels are made of given ones only, which do not change.
    let given = large.clone();
    for (y, row) in large.rows_mut().enumerate() {
        limits.check_time()?;
        for (x, value) in row.iter_mut().enumerate().filter(|(x, _)| is_new(*x, y)) {
            *value = interpolated(&given, x as isize, y as isize, directions);
        }
    }
    Ok(())
}

fn interpolated(large: &Plane, x: isize, y: isize, directions: [Step; 2]) -> f32 {
    // Beyond the border, the nearest pixel of the same kind: an even step keeps it given.
    let inside = |at: isize, length: usize| {
        let last = length as isize - 1;
        if at < 0 {
            clamp(-at, length)
        } else if at > last {
            clamp(at - 2 * ((at - last + 1) / 2), length)
        } else {
            clamp(at, length)
        }
    };
    let value = |step: Step, times: isize, aside: Step| {
        let row = large.row(inside(y + times * step.1 + aside.1, large.height) as isize);
        row[inside(x + times * step.0 + aside.0, large.width)]
    };
    let [first, second] = directions.map(|step| {
        let near: f32 =
            [-3, -1, 1].iter().map(|at| (value(step, *at, (0, 0)) - value(step, at + 2, (0, 0))).abs()).sum();
        // The lines beside it, which say the same of an edge.
        let turned = (-step.1, step.0);
        let beside: f32 = [turned, (-turned.0, -turned.1)]
            .iter()
            .map(|aside| {
                let pair = |at: isize| (value(step, at, *aside) - value(step, at + 2, *aside)).abs();
                pair(-2) + pair(0)
            })
            .sum();
        let inner = value(step, -1, (0, 0)) + value(step, 1, (0, 0));
        let outer = value(step, -3, (0, 0)) + value(step, 3, (0, 0));
        ((9.0 * inner - outer) / 16.0, near + beside + NOISE)
    });
    let (along_first, varies_first) = first;
    let (along_second, varies_second) = second;
    if varies_first > CLEARLY * varies_second {
        return along_second;
    }
    if varies_second > CLEARLY * varies_first {
        return along_first;
    }
    let weights = [varies_first, varies_second].map(|varies| 1.0 / varies.powi(5));
    (weights[0] * along_first + weights[1] * along_second) / (weights[0] + weights[1])
}
