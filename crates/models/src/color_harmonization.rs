//! Color harmonization: draws the hues of a picture into a template of harmonic hues.

use crate::hue_wheel;
use crate::memory::Need;
use crate::model::{BuiltIn, Outputs};
use crate::oklab;
use crate::picture::{Picture, from_byte, resized_bytes};
use crate::plane::Plane;
use crate::resample::Enlarged;
use crate::template::{Histogram, TEMPLATES, Turned};
use crate::{Error, Inputs, Limits};

const NEED: Need = Need { pixel: 14, reduced_pixel: 40, least: 0 };
/// Chroma below which a pixel is gray and its hue arbitrary.
const GRAY: f32 = 0.01;

pub(crate) const MODEL: BuiltIn = BuiltIn { kind: "color-harmonization", need: NEED, run };

fn run(inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
    let sectors = inputs.choice("template", TEMPLATES)?;
    let angle = inputs.number("angle", 1.0..=90.0)? as f32;
    let mut picture = Picture::read(inputs, "input_image", NEED, limits)?;
    let size = picture.reduced_size();
    let [_, a, b] = picture.oklab(size, limits)?;
    let alpha = alpha_at(&picture, size, limits)?;
    let before = histogram(&a, &b, alpha.as_deref());
    let mut template = Turned::fitting(sectors, &before);
    template.turn += angle;
    // Smoothed hues: whole regions go to the same sector, even where single hues are noisy.
    let radius = size.0.min(size.1) / 200 + 1;
    let regions = [a.box_mean(radius, limits)?, b.box_mean(radius, limits)?];
    drop((a, b));
    let (width, height) = (picture.width, picture.height);
    let mut enlarged = Enlarged::new(regions.iter().collect(), width, height);
    let mut rows = [(); 2].map(|()| vec![0.0; width]);
    picture.change_rows(limits, |y, row| {
        oklab::row_from_srgb(row.each_mut().map(|values| &mut **values));
        for (number, row) in rows.iter_mut().enumerate() {
            enlarged.row(number, y, row);
        }
        let [_, a, b] = &mut *row;
        for x in 0..width {
            let chroma = a[x].hypot(b[x]);
            let region = hue(rows[0][x], rows[1][x]);
            let drawn = template
                .nearest(region)
                .map_or(region, |sector| template.drawn_into(sector, hue(a[x], b[x])));
            let (sin, cos) = drawn.to_radians().sin_cos();
            (a[x], b[x]) = (chroma * cos, chroma * sin);
        }
        oklab::row_to_shown_srgb(row.each_mut().map(|values| &mut **values));
    })?;
    let [_, a, b] = picture.oklab(size, limits)?;
    let after = histogram(&a, &b, alpha.as_deref());
    Ok(vec![
        ("output_image", picture.into_file()?),
        ("output_hue", hue_wheel::before_and_after(&before, &after, &template, limits)?),
    ])
}

fn alpha_at(picture: &Picture, size: (usize, usize), limits: &Limits) -> Result<Option<Vec<u8>>, Error> {
    let resized = |alpha: &[u8]| resized_bytes::<1>(alpha, (picture.width, picture.height), size, limits);
    picture.alpha.as_deref().map(resized).transpose()
}

fn hue(a: f32, b: f32) -> f32 {
    b.atan2(a).to_degrees().rem_euclid(360.0)
}

fn histogram(a: &Plane, b: &Plane, alpha: Option<&[u8]>) -> Histogram {
    let mut hues = [0.0_f64; 360];
    let mut alphas = alpha.into_iter().flatten().copied();
    for (a, b) in a.values.iter().zip(&b.values) {
        let weight = from_byte(alphas.next().unwrap_or(255)) * (a.hypot(*b) - GRAY).max(0.0);
        if let Some(bin) = hues.get_mut(hue(*a, *b) as usize) {
            *bin += f64::from(weight);
        }
    }
    hues.map(|weight| weight as f32)
}
