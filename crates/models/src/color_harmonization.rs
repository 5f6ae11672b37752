//! Color harmonization: draws the hues of a picture into a template of harmonic hues.

use crate::hue_wheel;
use crate::oklab;
use crate::picture::Picture;
use crate::template::{Histogram, TEMPLATES, Turned};
use crate::{Error, Inputs, Limits, Model, Output};

/// Bytes for a pixel at the peak.
const NEED: u64 = 55;
/// Less colorful pixels than this are gray to the eye, and their hue means nothing.
const GRAY: f32 = 0.01;

pub(crate) struct ColorHarmonization;

impl Model for ColorHarmonization {
    fn kind(&self) -> &'static str {
        "color-harmonization"
    }

    fn bytes_per_pixel(&self) -> Option<u64> {
        Some(NEED)
    }

    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let sectors = inputs.choice("template", TEMPLATES)?;
        let angle = inputs.number("angle", 1.0..=90.0)? as f32;
        let mut picture = Picture::read(inputs, "input_image", NEED, limits)?;
        picture.change_pixels(limits, |_, color| oklab::from_srgb(color))?;
        let before = histogram(&picture);
        let mut template = Turned::fitting(sectors, &before);
        template.turn += angle;
        let [_, a, b] = &picture.colors;
        // Whole regions go to the same sector, also where their hues are noisy.
        let radius = picture.width().min(picture.height()) / 200 + 1;
        let (smooth_a, smooth_b) = (a.box_mean(radius, limits)?, b.box_mean(radius, limits)?);
        picture.change_pixels(limits, |at, [lightness, a, b]| {
            let region = hue(smooth_a.values[at], smooth_b.values[at]);
            let chroma = a.hypot(b);
            let drawn =
                template.nearest(region).map_or(region, |sector| template.drawn_into(sector, hue(a, b)));
            let (sin, cos) = drawn.to_radians().sin_cos();
            [lightness, chroma * cos, chroma * sin]
        })?;
        let after = histogram(&picture);
        picture.change_pixels(limits, |_, color| oklab::to_shown_srgb(color))?;
        Ok(vec![
            ("output_image", picture.into_png()?),
            ("output_hue", hue_wheel::before_and_after(&before, &after, &template, limits)?),
        ])
    }
}

/// The hue in degrees.
fn hue(a: f32, b: f32) -> f32 {
    b.atan2(a).to_degrees().rem_euclid(360.0)
}

/// How much of each hue a picture in Oklab has; colorful pixels count more, transparent ones less.
fn histogram(picture: &Picture) -> Histogram {
    let mut hues = [0.0_f64; 360];
    let mut alphas = picture.alpha.iter().flat_map(|alpha| alpha.values.iter().copied());
    for [_, a, b] in picture.pixels() {
        let weight = alphas.next().unwrap_or(1.0) * (a.hypot(b) - GRAY).max(0.0);
        if let Some(bin) = hues.get_mut(hue(a, b) as usize) {
            *bin += f64::from(weight);
        }
    }
    hues.map(|weight| weight as f32)
}
