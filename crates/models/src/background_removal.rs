//! Background removal: cuts out the subject of a picture.

use crate::cutout;
use crate::memory::Need;
use crate::model::{BuiltIn, Outputs};
use crate::people::PEOPLE_MEMORY;
use crate::picture::Picture;
use crate::{Error, Inputs, Limits};

const NEED: Need = Need { pixel: 14, reduced_pixel: 34, least: PEOPLE_MEMORY };

pub(crate) const MODEL: BuiltIn = BuiltIn { kind: "background-removal", need: NEED, run };

fn run(inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
    let mut picture = Picture::read(inputs, "input", NEED, limits)?;
    picture.alpha = Some(cutout::cut(&mut picture, "input", limits)?);
    Ok(vec![("output", picture.into_file()?)])
}
