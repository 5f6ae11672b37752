//! Image blending: an object, marked by a mask, put into a background without a visible seam.

use crate::picture::Picture;
use crate::plane::Plane;
use crate::poisson::{self, Domain};
use crate::pyramid::Laplacian;
use crate::{Error, Inputs, Limits, Model, Output};

/// Bytes for a pixel at the peak. There are three pictures, and each is bounded by itself.
const NEED: u64 = 90;
/// How many pixels across the coarsest level has, about. Fewer would let the colors of the object run
/// far into the background.
const COARSEST: usize = 20;

pub(crate) struct ImageBlending;

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

impl Model for ImageBlending {
    fn kind(&self) -> &'static str {
        "image-blending"
    }

    fn bytes_per_pixel(&self) -> Option<u64> {
        Some(NEED)
    }

    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let method = inputs.choice("method", METHODS)?;
        let mut background = Picture::read(inputs, "bg_img", NEED, limits)?;
        let object = Picture::read(inputs, "obj_img", NEED, limits)?;
        let mask = Picture::read(inputs, "mask_img", NEED, limits)?;
        let (object, mask) = placed(object, mask, &background);
        if mask.values.iter().all(|value| *value < 0.5) {
            let reason = "it marks nothing; send one that is white where the object is".to_owned();
            return Err(Error::Unusable { input: "mask_img".to_owned(), reason });
        }
        let domain = Domain::new(mask.width, mask.height, |at| mask.values[at] >= 0.5);
        for (background, object) in background.colors.iter_mut().zip(object.colors) {
            *background = match method {
                Method::Poisson => seamless(background, &object, &domain, |object, _| object, limits)?,
                Method::MixedGradient => seamless(background, &object, &domain, stronger, limits)?,
                Method::Laplacian => pyramids(background, object, &mask, limits)?,
            };
        }
        background.alpha = background.alpha.map(|alpha| alpha.zip(&mask, f32::max));
        Ok(vec![("output", background.into_png()?)])
    }
}

/// The object and its mask at the size of the background.
fn placed(object: Picture, mask: Picture, background: &Picture) -> (Picture, Plane) {
    let mut marked = mask.luma();
    if let Some(alpha) = mask.alpha {
        marked = marked.zip(&alpha, |value, alpha| value * alpha);
    }
    let (width, height) = (background.width(), background.height());
    let shrink = (width as f64 / object.width() as f64).min(height as f64 / object.height() as f64).min(1.0);
    let fit = |size: usize| ((size as f64 * shrink).round() as usize).max(1);
    let (inner_width, inner_height) = (fit(object.width()), fit(object.height()));
    marked = marked.resized(inner_width, inner_height);
    if let Some(alpha) = &object.alpha {
        marked = marked.zip(&alpha.clone().resized(inner_width, inner_height), |value, alpha| value * alpha);
    }
    let colors =
        object.colors.map(|plane| plane.resized(inner_width, inner_height).centered(width, height, None));
    (Picture { colors, alpha: None }, marked.centered(width, height, Some(0.0)))
}

/// The background with the gradients that `choose` picks inside the domain, from those of the object
/// and of the background.
fn seamless(
    background: &Plane,
    object: &Plane,
    domain: &Domain,
    choose: impl Fn(f32, f32) -> f32,
    limits: &Limits,
) -> Result<Plane, Error> {
    let width = background.width;
    let mut source = vec![0.0; background.values.len()];
    for (at, source) in source.iter_mut().enumerate().filter(|(at, _)| domain.contains(*at)) {
        let steps = [at - width, at - 1, at + 1, at + width].map(|near| {
            choose(object.values[at] - object.values[near], background.values[at] - background.values[near])
        });
        *source = steps.iter().sum();
    }
    let mut blended = background.clone();
    poisson::solve(&mut blended, &source, domain, limits)?;
    Ok(blended)
}

fn stronger(object: f32, background: f32) -> f32 {
    if object.abs() > background.abs() { object } else { background }
}

fn pyramids(background: &Plane, object: Plane, mask: &Plane, limits: &Limits) -> Result<Plane, Error> {
    let levels = (background.width.min(background.height) / COARSEST).max(1).ilog2() as usize;
    let background = Laplacian::of(background.clone(), levels, limits)?;
    Laplacian::of(object, levels, limits)?.blended(&background, mask, limits)?.sum(limits)
}
