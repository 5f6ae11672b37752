//! Sample pictures of the catalog, drawn from scenes. `ACCEPT=1 cargo test -p inferstore-models samples`
//! writes them again, into `samples/`.

use std::path::PathBuf;
use std::{env, fs};

use image::codecs::gif::GifEncoder;
use image::codecs::jpeg::JpegEncoder;
use image::{Delay, DynamicImage, Frame, RgbImage, imageops};
use inferstore_models::SAMPLE_PICTURES;

use crate::scenes;
use crate::support::png;

/// Size of a sample, and of one for enlargement or animation.
const SIZE: (u32, u32) = (480, 360);
const SMALL: (u32, u32) = (160, 120);

/// Maximum file size: all samples are part of the binary.
const MAX_BYTES: usize = 100_000;

/// Tolerance of a sample from its scene on average, in steps of 255: JPEG is lossy, and processors round
/// differently.
const MEAN: f64 = 6.0;

fn scene(name: &str) -> RgbImage {
    let (width, height) = SIZE;
    match name {
        "ball-mask.png" => scenes::ball(width, height).1,
        "ball.jpg" => scenes::ball(width, height).0,
        "dark.jpg" => scenes::dark(width, height),
        "hazy.jpg" => scenes::hazy(width, height),
        "landscape.jpg" => scenes::landscape(width, height).0,
        "pan.gif" => frames().swap_remove(0),
        "people.jpg" => scenes::people(width, height),
        "second-view.jpg" => scenes::second_view(width, height),
        "small.jpg" => scenes::landscape(SMALL.0, SMALL.1).0,
        other => panic!("no scene is called {other}"),
    }
}

/// Returns frames of a window that moves over the landscape.
fn frames() -> Vec<RgbImage> {
    let landscape = scenes::landscape(2 * SMALL.0, 2 * SMALL.1).0;
    let window = |at: u32| imageops::crop_imm(&landscape, 40 * at, 30 * at, SMALL.0, SMALL.1).to_image();
    (0..4).map(window).collect()
}

fn file(name: &str) -> Vec<u8> {
    let picture = scene(name);
    let mut bytes = Vec::new();
    match name.rsplit('.').next() {
        Some("png") => return png(&picture),
        Some("gif") => {
            let mut encoder = GifEncoder::new(&mut bytes);
            for frame in frames() {
                let frame = DynamicImage::from(frame).into_rgba8();
                let frame = Frame::from_parts(frame, 0, 0, Delay::from_numer_denom_ms(200, 1));
                encoder.encode_frame(frame).expect("it fits");
            }
        }
        _ => JpegEncoder::new_with_quality(&mut bytes, 85).encode_image(&picture).expect("it fits"),
    }
    bytes
}

#[test]
fn samples_are_small_and_show_their_scenes() {
    for sample in SAMPLE_PICTURES {
        let name = sample.name;
        let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "samples", name].iter().collect();
        if env::var_os("ACCEPT").is_some() {
            fs::write(&path, file(name)).expect("the folder is there");
        }
        let bytes = fs::read(&path).expect("a sample; ACCEPT=1 makes it");
        assert!(bytes.len() <= MAX_BYTES, "{name} has {} bytes", bytes.len());
        let (picture, scene) = (image::load_from_memory(&bytes).expect("a picture").into_rgb8(), scene(name));
        assert_eq!(picture.dimensions(), scene.dimensions(), "{name}");
        let differences = picture.as_raw().iter().zip(scene.as_raw()).map(|(a, b)| f64::from(a.abs_diff(*b)));
        let mean = differences.sum::<f64>() / scene.as_raw().len() as f64;
        assert!(mean <= MEAN, "{name} differs from its scene by {mean:.2} on average");
    }
}
