//! Low-light enhancement: brightens what is dark by as much as the light there is missing, after LIME
//! (Guo, Li and Ling, 2017), and quiets the noise that brightening would show.

use crate::guided::guided_filter;
use crate::picture::Picture;
use crate::plane::Plane;
use crate::{Error, Inputs, Limits, Model, Output};

/// Bytes for a pixel at the peak.
const NEED: u64 = 90;
/// How bright the light should be on average; pictures that are so already stay as they are.
const WANTED: f32 = 0.6;
/// Even a black picture keeps some contrast between its darks.
const LEAST_EXPONENT: f32 = 0.3;
/// Less light than this is noise.
const LEAST_LIGHT: f32 = 0.02;
/// What a camera's noise is, before brightening.
const NOISE: f32 = 0.008;

pub(crate) struct LowLightEnhancement;

impl Model for LowLightEnhancement {
    fn kind(&self) -> &'static str {
        "low-light-enhancement"
    }

    fn bytes_per_pixel(&self) -> Option<u64> {
        Some(NEED)
    }

    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let mut picture = Picture::read(inputs, "input_image", NEED, limits)?;
        let light = light(&picture, limits)?;
        let gain = gain(&light);
        drop(light);
        denoise(&mut picture, &gain, limits)?;
        brighten(&mut picture, &gain);
        Ok(vec![("output_image", picture.into_png()?)])
    }
}

/// How much light falls on each place: smooth within a thing, different between things.
pub(crate) fn light(picture: &Picture, limits: &Limits) -> Result<Plane, Error> {
    let brightest = picture.pixels().map(|[r, g, b]| r.max(g).max(b)).collect();
    let brightest = Plane { width: picture.width(), height: picture.height(), values: brightest };
    let radius = (brightest.width.min(brightest.height) / 30).max(2);
    // Edges count by how large they are in this picture, which may be dark as a whole.
    let mean = brightest.mean().max(LEAST_LIGHT);
    guided_filter(&brightest, &brightest, radius, (0.15 * mean).powi(2), limits)
}

/// By what to multiply each pixel, so that the light is as wanted on average.
pub(crate) fn gain(light: &Plane) -> Plane {
    let mean = light.mean().clamp(LEAST_LIGHT, 1.0);
    let exponent = (WANTED.ln() / mean.ln()).clamp(LEAST_EXPONENT, 1.0);
    light.map(|light| light.clamp(LEAST_LIGHT, 1.0).powf(exponent - 1.0))
}

/// Multiplies every pixel by its gain.
pub(crate) fn brighten(picture: &mut Picture, gain: &Plane) {
    for plane in &mut picture.colors {
        *plane = plane.zip(gain, |value, gain| value * gain);
    }
    keep_hues(picture);
}

/// Smooths lightly where much will be brightened: colors more than brightness, as the eye does.
pub(crate) fn denoise(picture: &mut Picture, gain: &Plane, limits: &Limits) -> Result<(), Error> {
    let luma = picture.luma();
    let quiet = guided_filter(&luma, &luma, 2, NOISE * NOISE, limits)?;
    for plane in &mut picture.colors {
        let color = plane.zip(&luma, |value, luma| value - luma);
        let quiet_color = guided_filter(&color, &quiet, 2, NOISE * NOISE, limits)?;
        let smoothed = quiet.zip(&quiet_color, |luma, color| luma + color);
        let gains = gain.values.iter().zip(&smoothed.values);
        for (value, (gain, smoothed)) in plane.values.iter_mut().zip(gains) {
            // Nothing at a gain of 1, all from a gain of 3.
            *value += ((gain - 1.0) / 2.0).clamp(0.0, 1.0) * (smoothed - *value);
        }
    }
    Ok(())
}

/// A color that became too bright to show gets darker as a whole, not paler in one channel.
fn keep_hues(picture: &mut Picture) {
    let [red, green, blue] = &mut picture.colors;
    for ((red, green), blue) in red.values.iter_mut().zip(&mut green.values).zip(&mut blue.values) {
        let brightest = red.max(*green).max(*blue).max(1.0);
        for value in [red, green, blue] {
            *value /= brightest;
        }
    }
}
