//! Low-light enhancement: brightens dark regions by the estimated illumination, after LIME (Guo, Li and Ling,
//! 2017), and reduces the noise that brightening amplifies. The illumination is estimated at a reduced size.

use crate::guided::GuidedFilter;
use crate::memory::Need;
use crate::model::{BuiltIn, Outputs};
use crate::picture::{self, Picture};
use crate::plane::Plane;
use crate::resample::Enlarged;
use crate::{Error, Inputs, Limits};

const NEED: Need = Need { pixel: 14, reduced_pixel: 38, least: 0 };
/// Goal of the mean illumination; brighter pictures stay unchanged.
const WANTED: f32 = 0.6;
/// Smallest exponent, so that even a black picture keeps some contrast.
const LEAST_EXPONENT: f32 = 0.3;
/// Illumination below which a value is noise.
const LEAST_LIGHT: f32 = 0.02;
/// Noise of a camera before brightening.
const NOISE: f32 = 0.008;
const NOISE_RADIUS: usize = 2;
/// Halo of a strip: two filters of two means.
const HALO: usize = 4 * NOISE_RADIUS;

pub(crate) const MODEL: BuiltIn = BuiltIn { kind: "low-light-enhancement", need: NEED, run };

fn run(inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
    let mut picture = Picture::read(inputs, "input_image", NEED, limits)?;
    let gain = Gain::fit(&picture.planes(picture.reduced_size(), limits)?, limits)?;
    enhance(&mut picture, &gain, None, limits)?;
    Ok(vec![("output_image", picture.into_file()?)])
}

pub(crate) struct Gain {
    /// Illumination, from the brightest channel: smooth within an object, different between objects.
    light: GuidedFilter,
    exponent: f32,
}

impl Gain {
    /// Fits the gain to the colors of a picture at the reduced size.
    pub(crate) fn fit(colors: &[Plane; 3], limits: &Limits) -> Result<Self, Error> {
        let brightest = Plane::of_pixels(colors, brightest);
        let radius = (brightest.width.min(brightest.height) / 30).max(2);
        // Edges scale with the mean brightness: the whole picture may be dark.
        let mean = brightest.mean().max(LEAST_LIGHT);
        let light = GuidedFilter::fit(&brightest, &brightest, radius, (0.15 * mean).powi(2), limits)?;
        let mean = light.over(&brightest).mean().clamp(LEAST_LIGHT, 1.0);
        Ok(Self { light, exponent: (WANTED.ln() / mean.ln()).clamp(LEAST_EXPONENT, 1.0) })
    }

    fn at(&self, light: f32) -> f32 {
        light.clamp(LEAST_LIGHT, 1.0).powf(self.exponent - 1.0)
    }

    pub(crate) fn of(&self, colors: &[Plane; 3]) -> Plane {
        self.light.over(&Plane::of_pixels(colors, brightest)).map(|light| self.at(light))
    }

    fn is_none(&self) -> bool {
        self.exponent >= 1.0
    }
}

fn brightest([red, green, blue]: [f32; 3]) -> f32 {
    red.max(green).max(blue)
}

pub(crate) struct Guides {
    pub(crate) power: Plane,
    pub(crate) factor: Plane,
    /// Returns the given gain for this luma, less for light sources.
    pub(crate) lamp: fn(f32, f32) -> f32,
}

pub(crate) fn enhance(
    picture: &mut Picture,
    gain: &Gain,
    guides: Option<&Guides>,
    limits: &Limits,
) -> Result<(), Error> {
    if gain.is_none() && guides.is_none() {
        return Ok(());
    }
    let (width, height) = (picture.width, picture.height);
    let mut planes = vec![&gain.light.slope, &gain.light.offset];
    planes.extend(guides.iter().flat_map(|guides| [&guides.power, &guides.factor]));
    let mut planes = Enlarged::new(planes, width, height);
    let mut lines = [(); 4].map(|()| vec![1.0; width]);
    let mut gains = vec![1.0; width];
    picture.change_strips(HALO, limits, |top, kept, colors| {
        let quiet = quieted(colors, limits)?;
        for y in kept {
            let numbers = if guides.is_some() { 0..4 } else { 0..2 };
            for number in numbers {
                planes.row(number, top + y, &mut lines[number]);
            }
            let mut bright = colors.each_mut().map(|plane| &mut plane.values[y * width..(y + 1) * width]);
            let smooth = quiet.each_ref().map(|plane| plane.row(y as isize));
            for (x, own) in gains.iter_mut().enumerate() {
                *own = gain
                    .at(lines[0][x] * brightest([bright[0][x], bright[1][x], bright[2][x]]) + lines[1][x]);
            }
            for (values, smooth) in bright.iter_mut().zip(smooth) {
                for ((value, smooth), gain) in values.iter_mut().zip(smooth).zip(&gains) {
                    // Denoising fades in from a gain of 1 to a gain of 3.
                    *value += ((gain - 1.0) / 2.0).clamp(0.0, 1.0) * (smooth - *value);
                }
            }
            if let Some(guides) = guides {
                for (x, gain) in gains.iter_mut().enumerate() {
                    let luma = picture::luma([bright[0][x], bright[1][x], bright[2][x]]);
                    *gain = (guides.lamp)(gain.powf(lines[2][x]) * lines[3][x], luma);
                }
            }
            let [red, green, blue] = bright;
            for (((red, green), blue), gain) in red.iter_mut().zip(green).zip(blue).zip(&gains) {
                // A color that exceeds the range is darkened as a whole, so that its hue stays.
                let brightest = (red.max(*green).max(*blue) * gain).max(1.0);
                for value in [red, green, blue] {
                    *value *= gain / brightest;
                }
            }
        }
        Ok(())
    })
}

/// Denoises the colors, chroma more than luma, as the eye is less sensitive to it.
pub(crate) fn quieted(colors: &[Plane; 3], limits: &Limits) -> Result<[Plane; 3], Error> {
    let smoothed = |source: &Plane, guide: &Plane| {
        Ok(GuidedFilter::fit(source, guide, NOISE_RADIUS, NOISE * NOISE, limits)?.over(guide))
    };
    let luma = Plane::of_pixels(colors, picture::luma);
    let quiet = smoothed(&luma, &luma)?;
    let of_channel = |plane: &Plane| {
        let mut color = smoothed(&plane.zip(&luma, |value, luma| value - luma), &quiet)?;
        color.change(&quiet, |color, luma| luma + color);
        Ok(color)
    };
    let [red, green, blue] = colors.each_ref().map(of_channel);
    Ok([red?, green?, blue?])
}
