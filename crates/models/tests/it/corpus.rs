//! Every kind on realistic pictures: JPEG, PNG, TIFF and WebP, of several sizes, with metadata of cameras and
//! programs. `cargo xtask stress properties` tests up to 50 megapixels.

use image::{DynamicImage, ImageFormat};
use inferstore_models::{Error, Limits, built_in, largest_picture, memory_of};

use crate::scenes;
use crate::support::{encoded, inputs_of, run_file};

/// Memory limit of a worker.
const MEMORY: u64 = 1 << 30;

/// Sizes in kilopixels: always, and in a stress run. 50 megapixels is the maximum.
const SIZES: [&[u64]; 2] = [&[100], &[1_000, 12_000, 24_000, 50_000]];

/// Returns a photo of people with camera noise, in each format.
fn files(kilopixels: u64) -> Vec<(&'static str, Vec<u8>)> {
    let height = ((kilopixels * 1_000 * 3 / 4) as f64).sqrt() as u32;
    let (width, height) = (height * 4 / 3, height);
    let photo = DynamicImage::from(scenes::photo(width, height));
    let mut clear = photo.to_rgba8();
    clear.enumerate_pixels_mut().for_each(|(x, _, pixel)| pixel.0[3] = if x < width / 4 { 0 } else { 255 });
    let jpeg = encoded(&photo, ImageFormat::Jpeg);
    // Minimal Exif block: the orientation "turn right".
    let exif = b"\xff\xe1\x00\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    vec![
        ("a turned JPEG", [&jpeg[..2], exif, &jpeg[2..]].concat()),
        ("a deep PNG", encoded(&photo.to_rgb16().into(), ImageFormat::Png)),
        ("a gray PNG", encoded(&photo.to_luma8().into(), ImageFormat::Png)),
        ("a deep TIFF", encoded(&photo.to_rgb16().into(), ImageFormat::Tiff)),
        ("a transparent WebP", encoded(&clear.into(), ImageFormat::WebP)),
        ("a JPEG", jpeg),
    ]
}

#[test]
fn properties_of_pictures_of_every_size_and_format() {
    let tries_hard = std::env::var_os("INFERSTORE_STRESS_SEED").is_some();
    for kilopixels in SIZES.into_iter().take(1 + usize::from(tries_hard)).flatten() {
        for (name, bytes) in files(*kilopixels) {
            for model in built_in() {
                let kind = model.kind();
                let mut limits = Limits { memory: MEMORY, ..Limits::default() };
                limits.pixels = largest_picture(&*model, &limits).expect("it is known");
                let inputs = inputs_of(kind, &bytes);
                let pixels = kilopixels * 1_000;
                let memory = memory_of(&*model, &inputs, &Limits { memory: u64::MAX, ..limits });
                let fits = pixels <= limits.pixels && memory <= MEMORY;
                match run_file(kind, bytes.clone(), &limits) {
                    // The model may find no subject.
                    Ok(_) | Err(Error::Unusable { .. }) => {
                        assert!(fits, "{kind} took {name} of {kilopixels} kilopixels");
                    }
                    Err(error) => assert!(!fits, "{kind}, {name} of {kilopixels} kilopixels: {error}"),
                }
            }
        }
    }
}
