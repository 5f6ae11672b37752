//! Image to anime, as a drawing would show it: flat colors and dark lines, after "Real-Time Video
//! Abstraction" (Winnemöller, Olsen and Gooch, 2006).

use crate::guided::guided_filter;
use crate::oklab;
use crate::picture::Picture;
use crate::plane::Plane;
use crate::{Error, Inputs, Limits, Model, Output};

/// Bytes for a pixel at the peak.
const NEED: u64 = 110;
const SMOOTHINGS: usize = 3;
/// Squares of the differences that smoothing takes away: of lightness, of both colors.
const SMALL: [f32; 3] = [3e-3, 3e-4, 3e-4];
/// Steps of lightness, and how hard they are.
const TONES: f32 = 9.0;
const HARDNESS: f32 = 3.0;
const VIVIDNESS: f32 = 1.3;
/// How much darker than its surroundings a line is, and how hard its edge is.
const LINE: f32 = 0.015;
const LINE_HARDNESS: f32 = 60.0;

pub(crate) struct ImageToAnime;

impl Model for ImageToAnime {
    fn kind(&self) -> &'static str {
        "image-to-anime"
    }

    fn bytes_per_pixel(&self) -> Option<u64> {
        Some(NEED)
    }

    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let mut picture = Picture::read(inputs, "input", NEED, limits)?;
        picture.change_pixels(limits, |_, color| oklab::from_srgb(color))?;
        let radius = (picture.width().min(picture.height()) / 160).max(2);
        for _ in 0..SMOOTHINGS {
            for (plane, small) in picture.colors.iter_mut().zip(SMALL) {
                *plane = guided_filter(plane, plane, radius, small, limits)?;
            }
        }
        let ink = ink(&picture.colors[0], radius.div_ceil(3), limits)?;
        picture.change_pixels(limits, |at, [lightness, a, b]| {
            let color = [toned(lightness) * ink.values[at], a * VIVIDNESS, b * VIVIDNESS];
            oklab::to_shown_srgb(color)
        })?;
        Ok(vec![("output", picture.into_png()?)])
    }
}

/// Lightness in steps, with soft ones between.
fn toned(lightness: f32) -> f32 {
    let step = (lightness * TONES).round();
    (step + 0.5 * (HARDNESS * (lightness * TONES - step)).tanh()) / TONES
}

/// How much of the paper shows: less where a place is darker than what is around it.
fn ink(lightness: &Plane, radius: usize, limits: &Limits) -> Result<Plane, Error> {
    let near = lightness.box_mean(radius, limits)?.box_mean(radius, limits)?;
    let around = near.box_mean(2 * radius, limits)?.box_mean(2 * radius, limits)?;
    let difference = near.zip(&around, |near, around| near - around + LINE);
    Ok(difference
        .map(|value| if value >= 0.0 { 1.0 } else { (1.0 + (LINE_HARDNESS * value).tanh()).max(0.25) }))
}
