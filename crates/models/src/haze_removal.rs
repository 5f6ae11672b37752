//! Haze removal by the dark channel prior (He, Sun and Tang, 2009): in a clear picture, nearly every
//! small region has a pixel that is dark in some channel; where it is not, the haze made it bright.

use crate::guided::guided_filter;
use crate::picture::Picture;
use crate::plane::Plane;
use crate::{Error, Inputs, Limits, Model, Output};

/// A little haze stays: without any, distance is lost and the picture looks unnatural.
const STRENGTH: f32 = 0.92;
/// Where less light than this comes through, noise would be all that is left to amplify.
const LEAST_TRANSMISSION: f32 = 0.12;
/// Colors nearer to that of the air than this are sky or white things, for which the prior is wrong.
const SKY_TOLERANCE: f32 = 0.18;
/// Bytes for a pixel at the peak.
const NEED: u64 = 80;

pub(crate) struct HazeRemoval;

impl Model for HazeRemoval {
    fn kind(&self) -> &'static str {
        "haze-removal"
    }

    fn bytes_per_pixel(&self) -> Option<u64> {
        Some(NEED)
    }

    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let mut picture = Picture::read(inputs, "input_image", NEED, limits)?;
        // The patch grows with the picture: the same scene gives the same result at any size.
        let patch = (picture.width().min(picture.height()) / 60).clamp(1, 15);
        let air = air_color(&picture, patch, limits)?;
        let transmission = transmission(&picture, air, patch, limits)?;
        for (plane, air) in picture.colors.iter_mut().zip(air) {
            *plane = plane.zip(&transmission, |value, transmission| (value - air) / transmission + air);
        }
        Ok(vec![("output_image", picture.into_png()?)])
    }
}

/// The dark channel: the darkest value of any channel anywhere near, once each channel is divided by
/// the color of the air.
fn dark_channel(picture: &Picture, air: [f32; 3], patch: usize, limits: &Limits) -> Result<Plane, Error> {
    let darkest = picture.pixels().map(|[r, g, b]| (r / air[0]).min(g / air[1]).min(b / air[2])).collect();
    Plane { width: picture.width(), height: picture.height(), values: darkest }.minimum(patch, limits)
}

/// The color of the thickest haze: the mean of the pixels whose dark channel is brightest.
fn air_color(picture: &Picture, patch: usize, limits: &Limits) -> Result<[f32; 3], Error> {
    let dark = dark_channel(picture, [1.0; 3], patch, limits)?;
    let mut order = dark.values.clone();
    let rank = order.len() - (order.len() / 1000).max(1);
    let (_, threshold, _) = order.select_nth_unstable_by(rank, f32::total_cmp);
    let thickest = dark.values.iter().zip(picture.pixels()).filter(|(dark, _)| *dark >= threshold);
    let (mut sum, mut count) = ([0.0_f64; 3], 0.0);
    for (_, color) in thickest {
        for (sum, value) in sum.iter_mut().zip(color) {
            *sum += f64::from(value);
        }
        count += 1.0;
    }
    // Black air would be divided by.
    Ok(sum.map(|sum| ((sum / count) as f32).max(0.05)))
}

/// How much of the light of each pixel comes through the haze.
fn transmission(picture: &Picture, air: [f32; 3], patch: usize, limits: &Limits) -> Result<Plane, Error> {
    let rough = dark_channel(picture, air, patch, limits)?.map(|dark| 1.0 - STRENGTH * dark.min(1.0));
    let mut refined = guided_filter(&rough, &picture.luma(), 4 * patch, 1e-3, limits)?;
    for (transmission, color) in refined.values.iter_mut().zip(picture.pixels()) {
        let distance = color.iter().zip(air).map(|(value, air)| (value - air).abs()).fold(0.0, f32::max);
        let spared = (SKY_TOLERANCE / distance.max(1e-3)).max(1.0);
        *transmission = (transmission.max(LEAST_TRANSMISSION) * spared).min(1.0);
    }
    Ok(refined)
}
