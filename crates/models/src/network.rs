//! Layers of a convolutional neural network, in 32-bit floating point.

use crate::plane::Plane;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Activation {
    Relu,
    HardSwish,
    Sigmoid,
}

impl Activation {
    fn of(self, value: f32) -> f32 {
        match self {
            Self::Relu => value.max(0.0),
            Self::HardSwish => value * (value + 3.0).clamp(0.0, 6.0) / 6.0,
            Self::Sigmoid => 1.0 / (1.0 + (-value).exp()),
        }
    }
}

/// Square of pixels, with the channels of each pixel adjacent.
#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub(crate) side: usize,
    pub(crate) channels: usize,
    values: Vec<f32>,
}

impl Tensor {
    /// Makes a tensor from the colors of a square picture.
    pub(crate) fn of(colors: &[Plane; 3]) -> Self {
        let [red, green, blue] = colors.each_ref().map(|plane| &plane.values);
        let values = red.iter().zip(green).zip(blue).flat_map(|((red, green), blue)| [*red, *green, *blue]);
        Self { side: colors[0].width, channels: 3, values: values.collect() }
    }

    pub(crate) fn into_plane(self) -> Plane {
        Plane { width: self.side, height: self.side, values: self.values }
    }

    fn pixel(&self, x: usize, y: usize) -> &[f32] {
        let start = (y * self.side + x) * self.channels;
        &self.values[start..start + self.channels]
    }

    pub(crate) fn with(mut self, activation: Activation) -> Self {
        self.values.iter_mut().for_each(|value| *value = activation.of(*value));
        self
    }

    pub(crate) fn plus(mut self, other: &Self) -> Self {
        self.values.iter_mut().zip(&other.values).for_each(|(value, other)| *value += other);
        self
    }

    pub(crate) fn times(mut self, factors: &Self) -> Self {
        for pixel in self.values.chunks_exact_mut(self.channels) {
            pixel.iter_mut().zip(&factors.values).for_each(|(value, factor)| *value *= factor);
        }
        self
    }

    pub(crate) fn mean(&self) -> Self {
        let mut values = vec![0.0; self.channels];
        for pixel in self.values.chunks_exact(self.channels) {
            values.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += value);
        }
        values.iter_mut().for_each(|value| *value /= (self.side * self.side) as f32);
        Self { side: 1, channels: self.channels, values }
    }

    /// Returns the tensor at twice its side, by bilinear interpolation.
    pub(crate) fn doubled(&self) -> Self {
        let side = 2 * self.side;
        let mut values = Vec::with_capacity(side * side * self.channels);
        // Centers of the new pixels are a quarter of an old pixel away from the old centers.
        let neighbors = |at: usize| {
            let other = if at.is_multiple_of(2) {
                (at / 2).saturating_sub(1)
            } else {
                (at / 2 + 1).min(self.side - 1)
            };
            (at / 2, other)
        };
        for y in 0..side {
            let (near_y, far_y) = neighbors(y);
            for x in 0..side {
                let (near_x, far_x) = neighbors(x);
                let near = self.pixel(near_x, near_y).iter().zip(self.pixel(far_x, near_y));
                let far = self.pixel(near_x, far_y).iter().zip(self.pixel(far_x, far_y));
                values.extend(near.zip(far).map(|((a, b), (c, d))| (9.0 * a + 3.0 * b + 3.0 * c + d) / 16.0));
            }
        }
        Self { side, channels: self.channels, values }
    }
}

/// Weights of a network, in the order of its layers.
pub(crate) struct Weights<'a> {
    left: &'a [u8],
}

impl<'a> Weights<'a> {
    /// Wraps weights in 16-bit floating point, little-endian.
    pub(crate) fn new(left: &'a [u8]) -> Self {
        Self { left }
    }

    fn take(&mut self, count: usize) -> Vec<f32> {
        let (taken, left) = self.left.split_at((2 * count).min(self.left.len()));
        self.left = left;
        taken.as_chunks::<2>().0.iter().map(|half| from_half(u16::from_le_bytes(*half))).collect()
    }

    /// Convolution over all channels. Weights are ordered by kernel position, input channel and output channel.
    pub(crate) fn convolved(
        &mut self,
        input: &Tensor,
        channels: usize,
        kernel: usize,
        stride: usize,
    ) -> Tensor {
        let weights = self.take(kernel * kernel * input.channels * channels);
        let bias = self.take(channels);
        Tensor::from_windows(input, channels, kernel, stride, &bias, |place, pixel, sums| {
            let weights = &weights[place * input.channels * channels..];
            for (value, weights) in pixel.iter().zip(weights.chunks_exact(channels)) {
                // Skip zeros: half of the values after a ReLU.
                if *value != 0.0 {
                    sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += value * weight);
                }
            }
        })
    }

    /// Depthwise convolution.
    pub(crate) fn filtered(&mut self, input: &Tensor, kernel: usize, stride: usize) -> Tensor {
        let channels = input.channels;
        let weights = self.take(kernel * kernel * channels);
        let bias = self.take(channels);
        Tensor::from_windows(input, channels, kernel, stride, &bias, |place, pixel, sums| {
            let weights = &weights[place * channels..(place + 1) * channels];
            for ((sum, value), weight) in sums.iter_mut().zip(pixel).zip(weights) {
                *sum += value * weight;
            }
        })
    }

    /// Transposed convolution to one channel: each pixel becomes a square of four.
    pub(crate) fn unfolded(&mut self, input: &Tensor) -> Tensor {
        let weights = self.take(4 * input.channels);
        let bias = self.take(1);
        let side = 2 * input.side;
        let value = |at: usize| {
            let (x, y) = (at % side, at / side);
            let place = 2 * (y % 2) + x % 2;
            let weights = &weights[place * input.channels..];
            let products =
                input.pixel(x / 2, y / 2).iter().zip(weights).map(|(value, weight)| value * weight);
            products.sum::<f32>() + bias[0]
        };
        Tensor { side, channels: 1, values: (0..side * side).map(value).collect() }
    }
}

impl Tensor {
    /// Sums over the window of each output pixel: `add` gets kernel position, pixel and sums. Padding is that of
    /// TensorFlow's `SAME`.
    fn from_windows(
        input: &Self,
        channels: usize,
        kernel: usize,
        stride: usize,
        bias: &[f32],
        mut add: impl FnMut(usize, &[f32], &mut [f32]),
    ) -> Self {
        let side = input.side.div_ceil(stride);
        let before = ((side - 1) * stride + kernel).saturating_sub(input.side) / 2;
        let mut values = Vec::with_capacity(side * side * channels);
        for y in 0..side {
            for x in 0..side {
                let start = values.len();
                values.extend_from_slice(bias);
                for place in 0..kernel * kernel {
                    let at = |out: usize, offset: usize| {
                        (out * stride + offset).checked_sub(before).filter(|at| *at < input.side)
                    };
                    if let (Some(x), Some(y)) = (at(x, place % kernel), at(y, place / kernel)) {
                        add(place, input.pixel(x, y), &mut values[start..]);
                    }
                }
            }
        }
        Self { side, channels, values }
    }
}

/// Converts an IEEE 754 binary16 number. The weights have no infinities.
fn from_half(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff) / 1024.0;
    match exponent {
        0 => sign * fraction * 2_f32.powi(-14),
        _ => sign * (1.0 + fraction) * 2_f32.powi(exponent - 15),
    }
}
