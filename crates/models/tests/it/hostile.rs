//! Hostile and odd inputs: every model returns a result, or an error that names the input, within its limits.

use std::time::{Duration, Instant};

use image::{DynamicImage, ImageFormat, RgbImage};
use inferstore_models::{Error, Inputs, Limits, built_in};
use proptest::prelude::*;

use crate::scenes;
use crate::support::{READ_FORMATS, chunk, crc32, encoded, model, png, riff, run_file, vp8, webp};

fn kinds() -> impl Iterator<Item = &'static str> {
    built_in().into_iter().map(|model| model.kind())
}

/// Asserts a well-formed result, or an error with a message.
fn survives(kind: &str, bytes: &[u8]) {
    match run_file(kind, bytes.to_vec(), &Limits { pixels: 1_000_000, ..Limits::default() }) {
        Ok(outputs) => assert!(!outputs.0.is_empty()),
        Err(error) => assert!(error.to_string().len() > 20, "{kind}: {error}"),
    }
}

#[test]
fn no_kind_has_two_models() {
    let mut seen: Vec<&str> = kinds().collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), built_in().len());
}

#[test]
fn pictures_of_every_odd_size_work_or_are_refused_with_a_reason() {
    for (width, height) in [(1, 1), (1, 2), (2, 1), (3, 5), (1, 300), (300, 1), (17, 31), (64, 3)] {
        let bytes = png(&scenes::landscape(width, height).0);
        for kind in kinds() {
            survives(kind, &bytes);
        }
    }
}

#[test]
fn pictures_in_every_format_and_color_type_work() {
    let rgb = DynamicImage::from(scenes::landscape(48, 36).0);
    let color_types: [DynamicImage; 7] = [
        rgb.to_luma8().into(),
        rgb.to_luma_alpha8().into(),
        rgb.to_rgba8().into(),
        rgb.to_luma16().into(),
        rgb.to_luma_alpha16().into(),
        rgb.to_rgb16().into(),
        rgb.to_rgba16().into(),
    ];
    let mut files: Vec<Vec<u8>> = color_types.iter().map(|image| encoded(image, ImageFormat::Png)).collect();
    files.extend(READ_FORMATS.map(|format| encoded(&rgb, format)));
    for kind in kinds() {
        for bytes in &files {
            // The file is readable; the model may find no subject.
            match run_file(kind, bytes.clone(), &Limits::default()) {
                Ok(_) | Err(Error::Unusable { .. }) => {}
                Err(error) => panic!("{kind}: {error}"),
            }
        }
    }
}

#[test]
fn a_picture_cut_anywhere_is_no_panic() {
    let rgb = DynamicImage::from(scenes::landscape(40, 30).0);
    for format in READ_FORMATS {
        let bytes = encoded(&rgb, format);
        for tenth in 0..10 {
            for kind in kinds() {
                survives(kind, &bytes[..bytes.len() * tenth / 10]);
            }
        }
    }
}

#[test]
fn a_tiny_file_that_claims_to_be_huge_is_refused_by_its_header() {
    let mut bytes = png(&scenes::landscape(8, 8).0);
    for side in [16..20, 20..24] {
        bytes[side].copy_from_slice(&60_000_u32.to_be_bytes());
    }
    // Fix the checksum of the header, so that the reader continues.
    let checksum = crc32(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    for kind in kinds() {
        let start = Instant::now();
        let error = run_file(kind, bytes.clone(), &Limits::default()).expect_err("3600 megapixels");
        assert!(matches!(error, Error::TooLarge { .. }), "{kind}: {error}");
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}

#[test]
fn a_picture_with_a_longer_side_than_a_gif_has_is_refused_by_its_header() {
    let fits = png(&RgbImage::new(65_535, 1));
    run_file("video-edge-map", fits, &Limits::default()).expect("as long as a GIF may be");
    for (width, height) in [(65_536, 1), (1, 65_536)] {
        // A header without pixels.
        let bytes = png(&RgbImage::new(width, height))[..64].to_vec();
        let error = run_file("video-edge-map", bytes, &Limits::default()).expect_err("no GIF is as long");
        assert!(matches!(&error, Error::TooLarge { .. }), "{error}");
        assert!(error.to_string().contains("65535"), "{error}");
    }
}

#[test]
fn a_webp_whose_parts_have_other_sizes_than_it_says_is_refused() {
    let alpha = riff((b"ALPH", &[0; 65]));
    for (width, height, is_read) in [(8, 8, true), (16, 32, false), (4, 8, false)] {
        let lossy = riff((b"VP8 ", &vp8(width, height)));
        for first in [&b""[..], &alpha] {
            let frame = [&[0; 6][..], &[7, 0, 0, 7, 0, 0, 0, 0, 0, 0], first, &lossy].concat();
            for bytes in [
                webp(2, &[(b"ANIM", &[0; 6]), (b"ANMF", &frame)]),
                webp(16, &[(b"ALPH", &[0; 65]), (b"VP8 ", &vp8(width, height))]),
            ] {
                for kind in ["haze-removal", "video-edge-map"] {
                    let read = run_file(kind, bytes.clone(), &Limits::default());
                    assert_eq!(read.is_ok(), is_read, "{kind}: {width} x {height}: {read:?}");
                }
            }
        }
    }
}

#[test]
fn metadata_of_a_png_change_nothing_but_its_orientation() {
    let plain = png(&scenes::hazy(40, 24));
    let texts = [chunk(*b"tEXt", b"name\0text"), chunk(*b"iCCP", b"name\0\0no profile")].concat();
    let with_texts = [&plain[..33], &texts, &plain[33..]].concat();
    let colors = |file: &[u8]| {
        run_file("haze-removal", file.to_vec(), &Limits::default())
            .expect("a good picture")
            .picture("output_image")
    };
    assert_eq!(colors(&plain), colors(&with_texts));
    // Minimal Exif block: the orientation "turn right".
    let exif = chunk(*b"eXIf", b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0");
    let turned = colors(&[&plain[..33], &exif, &plain[33..]].concat());
    assert_eq!((turned.width(), turned.height()), (24, 40));
}

#[test]
fn limits_of_pixels_memory_and_time_are_kept() {
    let bytes = png(&scenes::landscape(64, 48).0);
    for kind in kinds() {
        let with = |limits: Limits| run_file(kind, bytes.clone(), &limits).expect_err("a limit is passed");
        let few_pixels = with(Limits { pixels: 64 * 48 - 1, ..Limits::default() });
        assert!(few_pixels.to_string().contains("64 x 48"), "{few_pixels}");
        let little_memory = with(Limits { memory: 20_000, ..Limits::default() });
        assert!(matches!(little_memory, Error::TooLarge { .. }), "{little_memory}");
        let no_time = with(Limits { deadline: Some(Instant::now()), ..Limits::default() });
        assert_eq!(no_time, Error::TimedOut);
    }
}

#[test]
fn a_run_that_is_out_of_time_stops_soon() {
    let bytes = png(&scenes::hazy(1184, 888));
    for kind in kinds() {
        let start = Instant::now();
        let limits = Limits { deadline: Some(start + Duration::from_millis(20)), ..Limits::default() };
        if let Err(error) = run_file(kind, bytes.clone(), &limits) {
            assert_eq!(error, Error::TimedOut, "{kind}");
        }
        assert!(start.elapsed() < Duration::from_secs(5), "{kind} took {:?}", start.elapsed());
    }
}

#[test]
fn a_photo_is_turned_as_its_camera_was_held() {
    let photo = encoded(&scenes::landscape(40, 24).0.into(), ImageFormat::Jpeg);
    // Minimal Exif block: the orientation "turn right".
    let exif = b"\xff\xe1\x00\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let turned = [&photo[..2], exif, &photo[2..]].concat();
    let outputs = run_file("haze-removal", turned, &Limits::default()).expect("a good picture");
    let picture = outputs.picture("output_image");
    assert_eq!((picture.width(), picture.height()), (24, 40));
}

#[test]
fn what_is_transparent_stays_transparent() {
    let mut picture = DynamicImage::from(scenes::people(80, 60)).into_rgba8();
    for (x, _, pixel) in picture.enumerate_pixels_mut() {
        pixel.0[3] = if x < 30 { 0 } else { 255 };
    }
    let bytes = encoded(&picture.into(), ImageFormat::Png);
    for kind in
        ["haze-removal", "low-light-enhancement", "super-resolution", "background-removal", "image-to-anime"]
    {
        let outputs = run_file(kind, bytes.clone(), &Limits::default()).expect("a good picture");
        let (name, _) = outputs.0[0];
        assert_eq!(outputs.picture(name).to_rgba8().get_pixel(5, 30).0[3], 0, "{kind}");
    }
}

#[test]
fn what_is_missing_or_of_another_type_is_told_by_name() {
    for kind in kinds() {
        let error = model(kind).run(&Inputs::default(), &Limits::default()).expect_err("nothing is there");
        assert!(matches!(error, Error::Missing { .. }), "{kind}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_are_no_panic(
        start in prop::sample::select(vec![&b""[..], b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"BM", b"RIFF....WEBP"]),
        rest in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let bytes = [start, &rest].concat();
        for kind in kinds() {
            survives(kind, &bytes);
        }
    }

    #[test]
    fn damaged_pictures_are_no_panic(
        format in prop::sample::select(&READ_FORMATS[..]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = encoded(&scenes::landscape(24, 18).0.into(), format);
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        for kind in kinds() {
            survives(kind, &bytes);
        }
    }

    #[test]
    fn pictures_of_noise_of_any_size_work(width in 1_u32..40, height in 1_u32..40, seed in any::<i32>()) {
        let noise = scenes::draw(width, height, |x, y| {
            [0, 1, 2].map(|channel| scenes::hash(seed ^ (x * 1e4) as i32, (y * 1e4) as i32 + channel))
        });
        let bytes = png(&noise);
        for kind in kinds() {
            survives(kind, &bytes);
        }
    }
}
