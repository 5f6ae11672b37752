//! Runs a model by its kind, and makes picture files.

use std::io::Cursor;
use std::sync::Arc;

use image::{DynamicImage, ImageFormat, RgbImage};
use inferstore_models::{Error, Input, Inputs, Limits, Model, Output, built_in};

pub(crate) fn model(kind: &str) -> Arc<dyn Model> {
    built_in().into_iter().find(|model| model.kind() == kind).expect("a built-in model has this kind")
}

pub(crate) fn run<const COUNT: usize>(kind: &str, inputs: [(&str, Input); COUNT]) -> Outputs {
    Outputs(model(kind).run(&Inputs::from_iter(inputs), &Limits::default()).expect("the inputs are good"))
}

pub(crate) fn run_file(kind: &str, bytes: Vec<u8>, limits: &Limits) -> Result<Outputs, Error> {
    model(kind).run(&inputs_of(kind, &bytes), limits).map(Outputs)
}

/// Returns inputs for this kind, with the same file for each file input.
pub(crate) fn inputs_of(kind: &str, bytes: &[u8]) -> Inputs {
    inputs_of_each(kind, &[bytes])
}

/// Returns inputs for this kind, with these files in turn.
pub(crate) fn inputs_of_each(kind: &str, contents: &[&[u8]]) -> Inputs {
    let files: &[&str] = match kind {
        "image-blending" => &["bg_img", "obj_img", "mask_img"],
        "feature-matching" => &["input_1", "input_2"],
        "background-replacement" => &["input", "background_path"],
        "background-removal" | "image-to-anime" | "video-edge-map" | "color-extraction"
        | "face-detection" | "face-mesh" => &["input"],
        _ => &["input_image"],
    };
    let others: &[(&str, &str)] = match kind {
        "image-blending" => &[("method", "Mixed Gradient")],
        "color-harmonization" => &[("template", "y_branch"), ("angle", "30")],
        "face-detection" => {
            &[("model", "Full-range model (best for faces within 5 meters)"), ("confidence", "0.5")]
        }
        _ => &[],
    };
    let contents = contents.iter().cycle().map(|bytes| Input::File(bytes.to_vec()));
    let files = files.iter().copied().zip(contents);
    files.chain(others.iter().map(|(name, text)| (*name, Input::Text((*text).to_owned())))).collect()
}

#[derive(Debug)]
pub(crate) struct Outputs(pub(crate) Vec<(&'static str, Output)>);

impl Outputs {
    pub(crate) fn picture(&self, name: &str) -> DynamicImage {
        image::load_from_memory(self.bytes(name)).expect("the output is a picture")
    }

    pub(crate) fn bytes(&self, name: &str) -> &[u8] {
        match self.get(name) {
            Output::File { bytes, .. } => bytes,
            Output::Text(text) => panic!("{name} is the text {text:?}"),
        }
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Output::Text(text) => text,
            Output::File { mime, .. } => panic!("{name} is a file, {mime}"),
        }
    }

    fn get(&self, name: &str) -> &Output {
        &self.0.iter().find(|(known, _)| *known == name).expect("the output is there").1
    }
}

pub(crate) fn png(picture: &RgbImage) -> Vec<u8> {
    encoded(&picture.clone().into(), ImageFormat::Png)
}

pub(crate) fn file(picture: &RgbImage) -> Input {
    Input::File(png(picture))
}

pub(crate) const READ_FORMATS: [ImageFormat; 6] = [
    ImageFormat::Jpeg,
    ImageFormat::Png,
    ImageFormat::WebP,
    ImageFormat::Gif,
    ImageFormat::Bmp,
    ImageFormat::Tiff,
];

pub(crate) fn encoded(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, format).expect("it fits in memory");
    bytes.into_inner()
}

pub(crate) fn chunk(kind: [u8; 4], data: &[u8]) -> Vec<u8> {
    let body = [&kind, data].concat();
    let length = u32::try_from(data.len()).expect("a chunk is small");
    [&length.to_be_bytes(), &*body, &crc32(&body).to_be_bytes()].concat()
}

/// Returns a WebP file of 8 by 8 pixels with these chunks.
pub(crate) fn webp(flags: u8, chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let header = [flags, 0, 0, 0, 7, 0, 0, 7, 0, 0];
    let chunks: Vec<u8> =
        [(b"VP8X", &header[..])].iter().chain(chunks).flat_map(|part| riff(*part)).collect();
    riff((b"RIFF", &[b"WEBP", &*chunks].concat()))
}

/// Returns a chunk of a WebP file, padded to an even length.
pub(crate) fn riff((kind, data): (&[u8; 4], &[u8])) -> Vec<u8> {
    let length = u32::try_from(data.len()).expect("a chunk is small");
    let padding = vec![0; data.len() % 2];
    [kind, &length.to_le_bytes(), data, &*padding].concat()
}

/// Returns a lossy WebP bitstream: gray, and truncated if large.
pub(crate) fn vp8(width: u16, height: u16) -> Vec<u8> {
    let parts = vec![0; 1_000];
    // Tag of a shown key frame, and the length of its first part.
    let tag = [0x10 | (500_u16 << 5) as u8, (500_u16 >> 3) as u8, 0];
    [&tag, &b"\x9d\x01\x2a"[..], &width.to_le_bytes(), &height.to_le_bytes(), &parts].concat()
}

pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |state, byte| {
        (0..8).fold(state ^ u32::from(*byte), |state, _| {
            if state & 1 == 1 { (state >> 1) ^ 0xEDB8_8320 } else { state >> 1 }
        })
    })
}
