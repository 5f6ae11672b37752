//! Background replacement: cuts out the subject of a picture and composes it with another background.

use crate::cutout;
use crate::memory::Need;
use crate::model::{BuiltIn, Outputs};
use crate::people::PEOPLE_MEMORY;
use crate::picture::{Picture, from_byte};
use crate::{Error, Inputs, Limits};

/// For two pictures, each of which has its own limit.
const NEED: Need = Need { pixel: 20, reduced_pixel: 40, least: PEOPLE_MEMORY };

pub(crate) const MODEL: BuiltIn = BuiltIn { kind: "background-replacement", need: NEED, run };

fn run(inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
    let background = Picture::read(inputs, "input", NEED, limits)?;
    let mut original = Picture::read(inputs, "background_path", NEED, limits)?;
    let subject = cutout::cut(&mut original, "background_path", limits)?;
    let (width, height) = (original.width, original.height);
    // Crop of the background in the shape of the original.
    let part_width = (background.height * width / height).clamp(1, background.width);
    let part_height = (background.width * height / width).clamp(1, background.height);
    let left = (background.width - part_width) / 2;
    let top = (background.height - part_height) / 2;
    let background = background.cut(left, top, part_width, part_height).resized((width, height), limits)?;
    let colors = original.colors.as_chunks_mut::<3>().0.iter_mut().zip(background.colors.as_chunks::<3>().0);
    for ((pixel, behind), subject) in colors.zip(&subject) {
        match subject {
            0 => {
                *pixel = *behind;
                continue;
            }
            255 => continue,
            _ => {}
        }
        let share = from_byte(*subject);
        for (byte, behind) in pixel.iter_mut().zip(behind) {
            *byte = (f32::from(*behind) + share * (f32::from(*byte) - f32::from(*behind)) + 0.5) as u8;
        }
    }
    original.alpha =
        background.alpha.map(|alpha| alpha.iter().zip(&subject).map(|(a, b)| *a.max(b)).collect());
    Ok(vec![("output", original.into_file()?)])
}
