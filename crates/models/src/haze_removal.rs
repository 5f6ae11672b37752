//! Haze removal by the dark channel prior (He, Sun and Tang, 2009): in a clear picture, nearly every small region has a
//! pixel that is dark in some channel; haze brightens it. The haze is estimated at a reduced size.

use crate::guided::GuidedFilter;
use crate::memory::Need;
use crate::model::{BuiltIn, Outputs};
use crate::picture::{Picture, luma};
use crate::plane::Plane;
use crate::resample::Enlarged;
use crate::{Error, Inputs, Limits};

/// Share of the haze that is removed: without any haze, a picture loses depth and looks unnatural.
const STRENGTH: f32 = 0.92;
/// Smallest transmission, below which only noise would be amplified.
const LEAST_TRANSMISSION: f32 = 0.12;
/// Distance from the color of the air below which a pixel is sky or a white object, where the prior is wrong.
const SKY_TOLERANCE: f32 = 0.18;
const NEED: Need = Need { pixel: 14, reduced_pixel: 44, least: 0 };

pub(crate) const MODEL: BuiltIn = BuiltIn { kind: "haze-removal", need: NEED, run };

fn run(inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
    let mut picture = Picture::read(inputs, "input_image", NEED, limits)?;
    let (air, GuidedFilter { slope, offset }) = haze(&picture, limits)?;
    let width = picture.width;
    let mut lines = Enlarged::new(vec![&slope, &offset], width, picture.height);
    let (mut slopes, mut offsets) = (vec![0.0; width], vec![0.0; width]);
    picture.change_rows(limits, |y, [red, green, blue]| {
        lines.row(0, y, &mut slopes);
        lines.row(1, y, &mut offsets);
        let colors = red.iter_mut().zip(green).zip(blue);
        for (((red, green), blue), (slope, offset)) in colors.zip(slopes.iter().zip(&offsets)) {
            let color = [*red, *green, *blue];
            let transmission = transmission(color, air, slope * luma(color) + offset);
            for (value, air) in [red, green, blue].into_iter().zip(air) {
                *value = (*value - air) / transmission + air;
            }
        }
    })?;
    Ok(vec![("output_image", picture.into_file()?)])
}

/// Estimates the color of the air, and the transmission as a filter over the luma.
fn haze(picture: &Picture, limits: &Limits) -> Result<([f32; 3], GuidedFilter), Error> {
    let size = picture.reduced_size();
    let colors = picture.planes(size, limits)?;
    // The patch scales with the picture, so that a scene gives the same result at any size.
    let patch = (size.0.min(size.1) / 60).clamp(1, 15);
    let air = air_color(&colors, patch, limits)?;
    let rough = dark_channel(&colors, air, patch, limits)?.map(|dark| 1.0 - STRENGTH * dark.min(1.0));
    let guide = Plane::of_pixels(&colors, luma);
    drop(colors);
    Ok((air, GuidedFilter::fit(&rough, &guide, 4 * patch, 1e-3, limits)?))
}

/// Returns the dark channel: the local minimum over all channels, each divided by the color of the air.
fn dark_channel(colors: &[Plane; 3], air: [f32; 3], patch: usize, limits: &Limits) -> Result<Plane, Error> {
    let [red, green, blue] = colors;
    let mut darkest = red.map(|red| red / air[0]);
    darkest.change(green, |dark, green| dark.min(green / air[1]));
    darkest.change(blue, |dark, blue| dark.min(blue / air[2]));
    darkest.minimum(patch, limits)
}

/// Returns the color of the air: the mean of the pixels with the brightest dark channel.
fn air_color(colors: &[Plane; 3], patch: usize, limits: &Limits) -> Result<[f32; 3], Error> {
    let dark = dark_channel(colors, [1.0; 3], patch, limits)?;
    let mut order = dark.values.clone();
    let rank = order.len() - (order.len() / 1000).max(1);
    let (_, threshold, _) = order.select_nth_unstable_by(rank, f32::total_cmp);
    let of_channel = |plane: &Plane| {
        let thickest = dark.values.iter().zip(&plane.values).filter(|(dark, _)| *dark >= threshold);
        let (sum, count) =
            thickest.fold((0.0, 0.0), |(sum, count), (_, value)| (sum + f64::from(*value), count + 1.0));
        // Avoid a division by zero for black air.
        ((sum / count) as f32).max(0.05)
    };
    Ok(colors.each_ref().map(of_channel))
}

/// Returns the share of the light that comes through the haze.
fn transmission(color: [f32; 3], air: [f32; 3], refined: f32) -> f32 {
    let distance = color.iter().zip(air).map(|(value, air)| (value - air).abs()).fold(0.0, f32::max);
    let spared = (SKY_TOLERANCE / distance.max(1e-3)).max(1.0);
    (refined.max(LEAST_TRANSMISSION) * spared).min(1.0)
}
