//! Background removal: cuts out what a picture shows.

use crate::cutout;
use crate::picture::Picture;
use crate::{Error, Inputs, Limits, Model, Output};

/// Bytes for a pixel at the peak.
const NEED: u64 = 90;

pub(crate) struct BackgroundRemoval;

impl Model for BackgroundRemoval {
    fn kind(&self) -> &'static str {
        "background-removal"
    }

    fn bytes_per_pixel(&self) -> Option<u64> {
        Some(NEED)
    }

    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let mut picture = Picture::read(inputs, "input", NEED, limits)?;
        let subject = cutout::subject(&picture, "input", limits)?;
        cutout::clean_edges(&mut picture, &subject, limits)?;
        // What was transparent stays so.
        picture.alpha = Some(match &picture.alpha {
            Some(alpha) => alpha.zip(&subject, f32::min),
            None => subject,
        });
        Ok(vec![("output", picture.into_png()?)])
    }
}
