//! Background removal: cuts out the subject of a picture.

use crate::cutout;
use crate::memory::Need;
use crate::people::PEOPLE_MEMORY;
use crate::picture::Picture;
use crate::{Error, Inputs, Limits, Model, Output};

const NEED: Need = Need { pixel: 14, reduced_pixel: 34, least: PEOPLE_MEMORY };

pub(crate) struct BackgroundRemoval;

impl Model for BackgroundRemoval {
    fn kind(&self) -> &'static str {
        "background-removal"
    }

    fn memory(&self, pixels: u64) -> Option<u64> {
        Some(NEED.of(pixels))
    }

    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let mut picture = Picture::read(inputs, "input", NEED, limits)?;
        picture.alpha = Some(cutout::cut(&mut picture, "input", limits)?);
        Ok(vec![("output", picture.into_file()?)])
    }
}
