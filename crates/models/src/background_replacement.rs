//! Background replacement: cuts out what a picture shows and puts it in front of another one.

use crate::cutout;
use crate::picture::Picture;
use crate::plane::Plane;
use crate::{Error, Inputs, Limits, Model, Output};

/// Bytes for a pixel at the peak. There are two pictures, and each is bounded by itself.
const NEED: u64 = 120;

pub(crate) struct BackgroundReplacement;

impl Model for BackgroundReplacement {
    fn kind(&self) -> &'static str {
        "background-replacement"
    }

    fn bytes_per_pixel(&self) -> Option<u64> {
        Some(NEED)
    }

    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let background = Picture::read(inputs, "input", NEED, limits)?;
        let mut original = Picture::read(inputs, "background_path", NEED, limits)?;
        let mut subject = cutout::subject(&original, "background_path", limits)?;
        cutout::clean_edges(&mut original, &subject, limits)?;
        if let Some(alpha) = &original.alpha {
            subject = subject.zip(alpha, f32::min);
        }
        let background = covering(background, original.width(), original.height());
        for (ours, behind) in original.colors.iter_mut().zip(&background.colors) {
            let places = behind.values.iter().zip(&subject.values);
            for (value, (behind, subject)) in ours.values.iter_mut().zip(places) {
                *value = behind + subject * (*value - behind);
            }
        }
        original.alpha = background.alpha.map(|alpha| alpha.zip(&subject, f32::max));
        Ok(vec![("output", original.into_png()?)])
    }
}

/// The picture, scaled to cover the size and cut evenly where it is longer.
fn covering(picture: Picture, width: usize, height: usize) -> Picture {
    let (old_width, old_height) = (picture.width(), picture.height());
    // The part of it that has the wanted shape.
    let part_width = (old_height * width / height).clamp(1, old_width);
    let part_height = (old_width * height / width).clamp(1, old_height);
    let (left, top) = ((old_width - part_width) / 2, (old_height - part_height) / 2);
    let fit = |plane: Plane| plane.cut(left, top, part_width, part_height).resized(width, height);
    Picture { colors: picture.colors.map(fit), alpha: picture.alpha.map(fit) }
}
