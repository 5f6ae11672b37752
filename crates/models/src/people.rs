//! Segmentation of people by the network MediaPipe Selfie Segmentation, whose weights are in `data/people`: the encoder
//! of MobileNetV3 (Howard et al., 2019) with squeeze-and-excitation, and a decoder that adds earlier features by gates.

use crate::network::{Activation, Tensor, Weights};
use crate::picture::Picture;
use crate::plane::Plane;
use crate::{Error, Limits};

/// Peak memory of a small picture and the network, in bytes. A large picture needs more later.
pub(crate) const PEOPLE_MEMORY: u64 = 12 << 20;

/// Side of the input of the network.
const SIDE: usize = 256;

const WEIGHTS: &[u8] = include_bytes!("../data/people/weights.f16");

/// Blocks of the encoder: channels of the wider layer; kernel and stride of its depthwise convolution; channels of
/// squeeze-and-excitation, if any; channels of the narrower layer; activation.
const ENCODER: [(usize, usize, usize, Option<usize>, usize, Activation); 8] = [
    (16, 3, 2, Some(8), 16, Activation::Relu),
    (72, 3, 2, None, 24, Activation::Relu),
    (88, 3, 1, None, 24, Activation::Relu),
    (96, 5, 2, Some(24), 32, Activation::HardSwish),
    (128, 5, 1, Some(32), 32, Activation::HardSwish),
    (128, 5, 1, Some(32), 32, Activation::HardSwish),
    (96, 5, 1, Some(24), 32, Activation::HardSwish),
    (96, 5, 1, Some(24), 32, Activation::HardSwish),
];

/// Plausible share of a picture for people.
const PLAUSIBLE: std::ops::Range<f32> = 0.02..0.97;

/// Confidence from which the network is reliable, and from which it is right more often than not. Animals and
/// objects also match, with less confidence.
pub(crate) const CERTAIN: f32 = 0.92;
pub(crate) const LIKELY: f32 = 0.6;

pub(crate) struct People {
    /// Probability that a pixel belongs to a person.
    pub(crate) mask: Plane,
    /// Share of the probable pixels with a probability near 1.
    pub(crate) confidence: f32,
}

pub(crate) fn find(picture: &Picture, limits: &Limits) -> Result<Option<People>, Error> {
    let mask = mask(picture, limits)?;
    let share = |limit: f32| mask.map(|value| f32::from(value > limit)).mean();
    let (probable, certain) = (share(0.5), share(0.9));
    let people = People { mask, confidence: certain / probable };
    Ok(PLAUSIBLE.contains(&probable).then_some(people))
}

/// Returns the probability that a pixel shows a person, at 256 by 256.
fn mask(picture: &Picture, limits: &Limits) -> Result<Plane, Error> {
    let input = Tensor::of(&picture.planes((SIDE, SIDE), limits)?);
    let mut weights = Weights::new(WEIGHTS);
    let mut x = weights.convolved(&input, 16, 3, 2).with(Activation::HardSwish);
    let mut skips = vec![x.clone()];
    for (number, (wide, kernel, stride, squeezed, narrow, activation)) in ENCODER.into_iter().enumerate() {
        limits.check_time()?;
        let mut inner = weights.convolved(&x, wide, 1, 1).with(activation);
        inner = weights.filtered(&inner, kernel, stride).with(activation);
        if let Some(squeezed) = squeezed {
            let gate = gate(&mut weights, &inner, squeezed);
            inner = inner.times(&gate);
        }
        let narrowed = weights.convolved(&inner, narrow, 1, 1);
        let has_shape_of_input = (narrowed.side, narrowed.channels) == (x.side, x.channels);
        x = if has_shape_of_input { narrowed.plus(&x) } else { narrowed };
        if matches!(number, 0 | 2) {
            skips.push(x.clone());
        }
    }
    let all = weights.convolved(&x, 128, 1, 1).with(Activation::Relu);
    let gate_of_all = weights.convolved(&x.mean(), 128, 1, 1).with(Activation::Sigmoid);
    x = all.times(&gate_of_all);
    while let Some(skip) = skips.pop() {
        limits.check_time()?;
        let up = weights.convolved(&x.doubled(), skip.channels, 1, 1);
        let gate = gate(&mut weights, &skip.clone().plus(&up), skip.channels);
        x = skip.times(&gate).plus(&up);
        x = weights.convolved(&x, x.channels, 1, 1).with(Activation::Relu);
        x = weights.filtered(&x, 3, 1).with(Activation::Relu).plus(&x);
    }
    Ok(weights.unfolded(&x).with(Activation::Sigmoid).into_plane())
}

/// Squeeze-and-excitation: a factor per channel, from the means of all channels.
fn gate(weights: &mut Weights<'_>, x: &Tensor, squeezed: usize) -> Tensor {
    let squeezed = weights.convolved(&x.mean(), squeezed, 1, 1).with(Activation::Relu);
    weights.convolved(&squeezed, x.channels, 1, 1).with(Activation::Sigmoid)
}
