//! Image blending: puts an object, marked by a mask, into a background without a visible seam.

use crate::memory::Need;
use crate::model::{BuiltIn, Outputs};
use crate::picture::{Picture, from_byte, luma, resized_bytes, to_byte};
use crate::plane::Plane;
use crate::poisson::{self, Domain};
use crate::pyramid::{masked, masks};
use crate::{Error, Inputs, Limits};

/// For three pictures, each of which has its own limit.
const NEED: Need = Need { pixel: 24, reduced_pixel: 4, least: 0 };
/// Approximate shorter side of the coarsest pyramid level; below it, the object's colors bleed far into the background.
const COARSEST: usize = 20;
/// Brightness from which a mask pixel is marked.
const MARKED: u8 = 128;

#[derive(Clone, Copy)]
enum Method {
    Poisson,
    Laplacian,
    MixedGradient,
}

const METHODS: &[(&str, Method)] = &[
    ("Poisson", Method::Poisson),
    ("Laplacian", Method::Laplacian),
    ("Mixed Gradient", Method::MixedGradient),
];

pub(crate) const MODEL: BuiltIn = BuiltIn { kind: "image-blending", need: NEED, run };

fn run(inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
    let method = inputs.choice("method", METHODS)?;
    let mut background = Picture::read(inputs, "bg_img", NEED, limits)?;
    let object = Picture::read(inputs, "obj_img", NEED, limits)?;
    let mask = Picture::read(inputs, "mask_img", NEED, limits)?;
    let object = Placed::new(object, mask, &background, limits)?;
    if object.mask.iter().all(|value| *value < MARKED) {
        let reason = "it marks nothing; send one that is white where the object is".to_owned();
        return Err(Error::Unusable { input: "mask_img".to_owned(), reason });
    }
    match method {
        Method::Poisson => seamless(&mut background, &object, |object, _| object, limits)?,
        Method::MixedGradient => seamless(&mut background, &object, stronger, limits)?,
        Method::Laplacian => pyramids(&mut background, &object, limits)?,
    }
    if let Some(alpha) = &mut background.alpha {
        for (at, alpha) in alpha.iter_mut().enumerate() {
            *alpha = (*alpha).max(object.mask_at(at % background.width, at / background.width));
        }
    }
    Ok(vec![("output", background.into_file()?)])
}

/// Object and mask, scaled to fit into the background, with their position.
struct Placed {
    picture: Picture,
    mask: Vec<u8>,
    left: usize,
    top: usize,
}

impl Placed {
    fn new(object: Picture, mask: Picture, background: &Picture, limits: &Limits) -> Result<Self, Error> {
        let (width, height) = (background.width as f64, background.height as f64);
        let shrink = (width / object.width as f64).min(height / object.height as f64).min(1.0);
        let size = object.scaled_size(shrink);
        let mut marked: Vec<u8> =
            mask.colors.as_chunks::<3>().0.iter().map(|pixel| to_byte(luma(pixel.map(from_byte)))).collect();
        multiply(&mut marked, mask.alpha.as_deref());
        let mask_size = (mask.width, mask.height);
        drop(mask);
        if mask_size != size {
            marked = resized_bytes::<1>(&marked, mask_size, size, limits)?;
        }
        let picture = object.resized(size, limits)?;
        multiply(&mut marked, picture.alpha.as_deref());
        let (left, top) = ((background.width - size.0) / 2, (background.height - size.1) / 2);
        Ok(Self { picture, mask: marked, left, top })
    }

    fn mask_at(&self, x: usize, y: usize) -> u8 {
        let (x, y) = (x.wrapping_sub(self.left), y.wrapping_sub(self.top));
        if x < self.picture.width && y < self.picture.height {
            self.mask[y * self.picture.width + x]
        } else {
            0
        }
    }

    /// Returns the color of the object at a point of the background, clamped to the object.
    fn color_at(&self, x: usize, y: usize, channel: usize) -> f32 {
        let x = x.saturating_sub(self.left).min(self.picture.width - 1);
        let y = y.saturating_sub(self.top).min(self.picture.height - 1);
        from_byte(self.picture.colors[3 * (y * self.picture.width + x) + channel])
    }

    /// Returns the part of the background around the object, with a margin of one pixel: left, top, width, height.
    fn window(&self, background: &Picture) -> [usize; 4] {
        let left = self.left.saturating_sub(1);
        let top = self.top.saturating_sub(1);
        let right = (self.left + self.picture.width + 1).min(background.width);
        let bottom = (self.top + self.picture.height + 1).min(background.height);
        [left, top, right - left, bottom - top]
    }
}

fn multiply(mask: &mut [u8], alpha: Option<&[u8]>) {
    for (mask, alpha) in mask.iter_mut().zip(alpha.into_iter().flatten()) {
        *mask = to_byte(from_byte(*mask) * from_byte(*alpha));
    }
}

/// Poisson blending: within the mask, the background gets the gradients that `choose` picks from both pictures.
fn seamless(
    background: &mut Picture,
    object: &Placed,
    choose: impl Fn(f32, f32) -> f32,
    limits: &Limits,
) -> Result<(), Error> {
    let [left, top, width, height] = object.window(background);
    let domain =
        Domain::new(width, height, |at| object.mask_at(left + at % width, top + at / width) >= MARKED);
    for channel in 0..3 {
        let mut field = Plane::filled(width, height, 0.0);
        for (y, row) in field.rows_mut().enumerate() {
            let pixels = background.row(top + y)[3 * left..].as_chunks::<3>().0;
            row.iter_mut().zip(pixels).for_each(|(value, pixel)| *value = from_byte(pixel[channel]));
        }
        let mut source = vec![0.0; width * height];
        for (at, source) in source.iter_mut().enumerate().filter(|(at, _)| domain.contains(*at)) {
            let color = |at: usize| object.color_at(left + at % width, top + at / width, channel);
            let (color_here, value_here) = (color(at), field.values[at]);
            let steps = [at - width, at - 1, at + 1, at + width]
                .map(|near| choose(color_here - color(near), value_here - field.values[near]));
            *source = steps.iter().sum();
        }
        poisson::solve(&mut field, &source, &domain, limits)?;
        for (at, value) in field.values.iter().enumerate().filter(|(at, _)| domain.contains(*at)) {
            let place = (top + at / width) * background.width + left + at % width;
            background.colors[3 * place + channel] = to_byte(*value);
        }
    }
    Ok(())
}

fn stronger(object: f32, background: f32) -> f32 {
    if object.abs() > background.abs() { object } else { background }
}

/// Pyramid blending: adds the difference of object and background on every scale, weighted by the mask of that scale.
fn pyramids(background: &mut Picture, object: &Placed, limits: &Limits) -> Result<(), Error> {
    let (width, height) = (background.width, background.height);
    let levels = (background.shorter_side() / COARSEST).max(1).ilog2() as usize;
    let mask = (0..width * height).map(|at| from_byte(object.mask_at(at % width, at / width))).collect();
    let masks = masks(Plane { width, height, values: mask }, levels, limits)?;
    for channel in 0..3 {
        let colors = background.colors.as_chunks_mut::<3>().0;
        let difference = |(at, pixel): (usize, &[u8; 3])| {
            object.color_at(at % width, at / width, channel) - from_byte(pixel[channel])
        };
        let values = colors.iter().enumerate().map(difference).collect();
        let difference = masked(Plane { width, height, values }, &masks, limits)?;
        for (pixel, difference) in colors.iter_mut().zip(difference.values) {
            pixel[channel] = to_byte(from_byte(pixel[channel]) + difference);
        }
    }
    Ok(())
}
