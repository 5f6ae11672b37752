//! Memory of runs: each model stays within its stated memory per pixel.

use std::io::Write;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use image::{DynamicImage, ImageFormat, RgbImage};
use inferstore_models::{Error, Inputs, Limits, Model, built_in};
use peak_alloc::PeakAlloc;

use crate::{scenes, support};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Environment variable of the child process: the part of the test.
const PART: &str = "INFERSTORE_TEST_MEMORY";

#[test]
fn runs_keep_within_their_memory() {
    let Ok(part) = std::env::var(PART) else {
        return in_processes_of_their_own(&["0", "1", "2", "metadata", "shapes", "frames"]);
    };
    match part.parse() {
        Ok(third) => models_keep_within_the_memory_that_they_ask_for(third),
        Err(_) if part == "shapes" => pictures_of_opposite_shape_take_no_more_than_is_reserved(),
        Err(_) if part == "frames" => frames_that_exceed_their_picture_take_no_more_than_is_reserved(),
        Err(_) => metadata_that_unpack_to_far_more_cost_nothing(),
    }
}

/// Runs this test again, each part in a process of its own: the memory counter sees every thread.
fn in_processes_of_their_own(parts: &[&str]) {
    let children = parts.iter().map(|part| {
        let mut child = Command::new(std::env::current_exe().expect("this program has a path"));
        child.args(["--exact", "memory::runs_keep_within_their_memory"]).env(PART, part);
        child.stdout(Stdio::piped()).spawn().expect("it starts")
    });
    for child in children.collect::<Vec<_>>() {
        let output = child.wait_with_output().expect("it ends");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    }
}

fn metadata_that_unpack_to_far_more_cost_nothing() {
    let plain = support::png(&scenes::hazy(64, 48));
    let unpacked = vec![0; 64 << 20];
    let mut compressed = ZlibEncoder::new(Vec::new(), Compression::fast());
    compressed.write_all(&unpacked).expect("it is written into memory");
    drop(unpacked);
    let compressed = compressed.finish().expect("it is written into memory");
    for (kind, head) in [(b"iCCP", &b"name\0\0"[..]), (b"zTXt", b"name\0\0"), (b"iTXt", b"name\0\x01\0\0\0")]
    {
        let chunk = support::chunk(*kind, &[head, &compressed].concat());
        // After the header of 33 bytes.
        let hostile = [&plain[..33], &chunk, &plain[33..]].concat();
        for model in built_in() {
            let inputs = support::inputs_of(model.kind(), &hostile);
            let limits = Limits { memory: 1 << 30, ..Limits::default() };
            let reserved = keeps_within_what_is_reserved(&*model, &inputs, &limits);
            let name = model.kind();
            assert!(reserved < 20_000_000 + 5 * hostile.len() as u64, "{name}: {reserved} bytes reserved");
        }
    }
}

fn pictures_of_opposite_shape_take_no_more_than_is_reserved() {
    let wide = support::png(&scenes::hazy(6_000, 4));
    let high = support::png(&scenes::hazy(4, 6_000));
    for model in built_in() {
        for files in [[&wide[..], &high[..]], [&high[..], &wide[..]]] {
            let inputs = support::inputs_of_each(model.kind(), &files);
            keeps_within_what_is_reserved(&*model, &inputs, &Limits::default());
        }
    }
}

fn frames_that_exceed_their_picture_take_no_more_than_is_reserved() {
    let mut gif = support::encoded(&RgbImage::new(3_000, 3_000).into(), ImageFormat::Gif);
    // The size of the picture follows the signature; that of its frame comes later.
    for side in [6..8, 8..10] {
        gif[side].copy_from_slice(&8_u16.to_le_bytes());
    }
    let lossy = support::vp8(4_000, 4_000);
    let webp = support::webp(0, &[(b"VP8 ", &lossy)]);
    let frame = [&[0; 6][..], &[7, 0, 0, 7, 0, 0, 0, 0, 0, 0], &support::riff((b"VP8 ", &lossy))].concat();
    let animated = support::webp(2, &[(b"ANIM", &[0; 6]), (b"ANMF", &frame)]);
    for model in built_in() {
        for file in [&gif, &webp, &animated] {
            let inputs = support::inputs_of(model.kind(), file);
            keeps_within_what_is_reserved(&*model, &inputs, &Limits::default());
        }
    }
}

/// Runs the model, and returns the reserved memory.
fn keeps_within_what_is_reserved(model: &dyn Model, inputs: &Inputs, limits: &Limits) -> u64 {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let _ = model.run(inputs, limits).map(drop);
    let taken = MEMORY.peak_usage().saturating_sub(before) as u64;
    let (name, reserved) = (model.kind(), inferstore_models::memory_of(model, inputs, limits));
    assert!(taken < reserved + 2_000_000, "{name}: {taken} bytes taken, {reserved} reserved");
    reserved
}

fn models_keep_within_the_memory_that_they_ask_for(third: usize) {
    let mut wrong = Vec::new();
    // Below and above the reduced size.
    for (width, height) in [(560, 420), (2_000, 1_200)] {
        let opaque = scenes::people(width, height);
        // The worst case: deep colors and transparency, and noise, which does not compress.
        let mut deep = DynamicImage::from(opaque.clone()).into_rgba16();
        deep.enumerate_pixels_mut().for_each(|(x, _, pixel)| pixel.0[3] = 60_000 + 5 * (x % 1_000) as u16);
        let mut noise = DynamicImage::from(opaque.clone()).into_rgba8();
        let mut place = 0;
        let mut noisy = |value: u8| {
            place += 1;
            value.wrapping_add((scenes::hash(place, 7) * 255.0) as u8)
        };
        noise.iter_mut().for_each(|value| *value = noisy(*value));
        let png = |image: DynamicImage| support::encoded(&image, ImageFormat::Png);
        let tiff = |image: DynamicImage| support::encoded(&image, ImageFormat::Tiff);
        let tiffs = [tiff(deep.clone().into()), tiff(DynamicImage::from(deep.clone()).into_rgba32f().into())];
        let [of_deep, of_floats] = tiffs;
        let files = [png(opaque.into()), png(deep.into()), png(noise.into()), of_deep, of_floats];
        for model in built_in().into_iter().skip(third).step_by(3) {
            let measured = files.each_ref().map(|bytes| {
                let inputs = support::inputs_of(model.kind(), bytes);
                let asked = inferstore_models::memory_of(&*model, &inputs, &Limits::default());
                let before = MEMORY.current_usage();
                MEMORY.reset_peak_usage();
                // The stated memory is enough; the model may find no subject.
                let ended = model.run(&inputs, &Limits { memory: asked, ..Limits::default() });
                assert!(!matches!(ended, Err(Error::TooLarge { .. })), "{}: {:?}", model.kind(), ended.err());
                (MEMORY.peak_usage().saturating_sub(before) as u64, asked)
            });
            let taken = measured.iter().map(|(taken, _)| *taken).max().unwrap_or(0);
            let asked = measured[0].1;
            // Fixed data, such as the face cascade, come on top.
            if measured.iter().any(|(taken, asked)| *taken > asked + 2_000_000) || taken * 2 < asked {
                let pixels = u64::from(width * height);
                let (kind, taken, asked) = (model.kind(), taken / pixels, asked / pixels);
                wrong.push(format!("{kind}, {width} x {height}: {taken} bytes a pixel, asks for {asked}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "models take more than they say, or ask for far too much:\n{}",
        wrong.join("\n")
    );
}
