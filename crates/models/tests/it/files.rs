//! Realistic files: one row per type of file with its expected result. `docs/models.md` has the table.

use std::io::Cursor;

use image::codecs::gif::GifEncoder;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::codecs::webp::WebPEncoder;
use image::{DynamicImage, Frame, ImageEncoder, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};
use inferstore_models::{Error, Limits, Output, built_in};

use crate::scenes;
use crate::support::{Outputs, READ_FORMATS, encoded, png, run_file};

/// Kind that hardly changes a picture without a face: it writes into the upper left.
const KEEPS_COLORS: &str = "face-detection";

fn read(bytes: Vec<u8>) -> Outputs {
    run_file(KEEPS_COLORS, bytes, &Limits::default()).expect("it can be read")
}

fn refusal(kind: &str, bytes: Vec<u8>) -> String {
    run_file(kind, bytes, &Limits::default()).expect_err("it cannot be read").to_string()
}

/// Returns the color at the lower right, where nothing is written.
fn color(outputs: &Outputs) -> [u8; 4] {
    let picture = outputs.picture("output").to_rgba8();
    picture.get_pixel(picture.width() - 2, picture.height() - 2).0
}

fn is_near(color: [u8; 4], wanted: [u8; 4]) -> bool {
    color.iter().zip(wanted).all(|(is, wanted)| is.abs_diff(wanted) <= 6)
}

fn plain(color: [u8; 3]) -> DynamicImage {
    RgbImage::from_pixel(96, 64, Rgb(color)).into()
}

#[test]
fn files_that_end_before_their_picture_are_refused_by_every_kind() {
    let picture = DynamicImage::from(scenes::hazy(160, 120));
    for format in READ_FORMATS {
        let whole = encoded(&picture, format);
        for percent in [40, 90, 99] {
            for kind in built_in().iter().map(|model| model.kind()) {
                let message = refusal(kind, whole[..whole.len() * percent / 100].to_vec());
                let is_named = message.contains("the file ends before its picture does");
                assert!(is_named, "{kind}, {format:?}: {message}");
            }
        }
    }
}

#[test]
fn formats_that_cannot_be_read_are_named() {
    for (start, name) in [
        (&b"\0\0\0\x18ftypheic\0\0\0\0"[..], "HEIC"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0", "HEIC"),
        (b"\0\0\0\x1cftypavif\0\0\0\0", "AVIF"),
        (b"\0\0\0\x18ftypisom\0\0\0\0", "a video"),
        (b"\x1a\x45\xdf\xa3\0\0\0\0", "a video"),
        (b"\0\0\0\x1cftypmiaf\0\0\0\0mif1heic\0\0\0\0", "HEIC"),
        (b"\0\0\0\x20ftypmif1\0\0\0\0mif1avifmiaf\0\0\0\0", "AVIF"),
        (b"II+\0\x08\0\0\0", "BigTIFF"),
        (b"IIU\0\x08\0\0\0", "a raw photo"),
        // A preview, and the version of the digital negative.
        (b"II*\0\x08\0\0\0\x01\0\xfe\0\x04\0\x01\0\0\0\x01\0\0\0\0\0\0\0", "a raw photo"),
        (b"MM\0*\0\0\0\x08\0\x01\xc6\x12\0\x01\0\0\0\x04\x01\x04\0\0\0\0\0\0", "a raw photo"),
        (b"\xff\x0a\0\0", "JPEG XL"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"%PDF-1.7\n", "PDF"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b"\n<!DOCTYPE html><html>", "a web page"),
        (b"", "empty"),
    ] {
        for kind in built_in().iter().map(|model| model.kind()).filter(|kind| *kind != "video-edge-map") {
            let message = refusal(kind, start.to_vec());
            assert!(message.contains(name), "{kind}: {message} does not name {name}");
        }
    }
}

#[test]
fn cmyk_is_read_in_its_colors() {
    for file in [&include_bytes!("files/cmyk.jpg")[..], include_bytes!("files/cmyk.tif")] {
        assert!(is_near(color(&read(file.to_vec())), [220, 40, 60, 255]));
    }
}

#[test]
fn a_tiff_is_turned_by_its_orientation_and_one_with_a_palette_is_named() {
    let turned = read(include_bytes!("files/turned.tif").to_vec());
    let picture = turned.picture("output");
    assert_eq!((picture.width(), picture.height(), color(&turned)), (64, 96, [220, 40, 60, 255]));
    let message = refusal(KEEPS_COLORS, include_bytes!("files/palette.tif").to_vec());
    assert!(message.contains("it is a TIFF of a kind that is not read"), "{message}");
}

#[test]
fn gray_and_deep_pictures_are_read_in_eight_bits_of_color() {
    for deep in
        [plain([200, 90, 30]).into_rgb16().into(), DynamicImage::from(plain([200, 90, 30]).into_rgba16())]
    {
        assert_eq!(color(&read(encoded(&deep, ImageFormat::Png))), [200, 90, 30, 255]);
    }
    let gray = plain([77, 77, 77]).into_luma8();
    assert!(is_near(color(&read(encoded(&gray.into(), ImageFormat::Jpeg))), [77, 77, 77, 255]));
}

#[test]
fn tiff_colors_that_are_multiplied_by_their_opacity_are_divided_by_it() {
    let color = color(&read(include_bytes!("files/premultiplied.tif").to_vec()));
    assert!(is_near(color, [199, 100, 50, 128]), "{color:?}");
}

#[test]
fn a_tiff_on_which_its_decoder_panics_is_refused() {
    let message = refusal(KEEPS_COLORS, include_bytes!("files/planes-in-tiles.tif").to_vec());
    assert!(message.contains("the decoder of its format failed"), "{message}");
}

#[test]
fn of_an_animation_its_first_picture_is_read() {
    let mut animation = Vec::new();
    let mut encoder = GifEncoder::new(&mut animation);
    for color in [[250, 0, 0, 255], [0, 0, 250, 255]] {
        encoder.encode_frame(Frame::new(RgbaImage::from_pixel(96, 64, Rgba(color)))).expect("it fits");
    }
    drop(encoder);
    assert!(is_near(color(&read(animation)), [250, 0, 0, 255]));
}

#[test]
fn a_photo_comes_back_in_its_format_and_what_is_transparent_as_png() {
    let form = |outputs: &Outputs| match &outputs.0[0].1 {
        Output::File { bytes, mime, extension } => {
            assert_eq!(image::guess_format(bytes).expect("a picture").extensions_str()[0], *extension);
            assert_eq!(image::guess_format(bytes).expect("a picture").to_mime_type(), *mime);
            *extension
        }
        Output::Text(text) => panic!("{text}"),
    };
    let photo = DynamicImage::from(scenes::people(160, 120));
    for (format, extension) in [
        (ImageFormat::Jpeg, "jpg"),
        (ImageFormat::WebP, "webp"),
        (ImageFormat::Png, "png"),
        (ImageFormat::Gif, "png"),
        (ImageFormat::Bmp, "png"),
        (ImageFormat::Tiff, "png"),
    ] {
        let bytes = encoded(&photo, format);
        for kind in ["haze-removal", "super-resolution", "image-to-anime", KEEPS_COLORS, "image-blending"] {
            let outputs = run_file(kind, bytes.clone(), &Limits::default()).expect("a good picture");
            assert_eq!(form(&outputs), extension, "{kind}");
        }
        let cut = run_file("background-removal", bytes, &Limits::default()).expect("a good picture");
        assert_eq!(form(&cut), if extension == "webp" { "webp" } else { "png" });
    }
}

#[test]
fn a_color_profile_stays_with_a_jpeg_or_webp_and_is_dropped_from_a_png() {
    fn with_profile(mut encoder: impl ImageEncoder, profile: &[u8]) {
        encoder.set_icc_profile(profile.to_vec()).expect("it has a place");
        plain([90, 120, 60]).write_with_encoder(encoder).expect("it fits");
    }
    let mut profile = vec![7; 300];
    profile[..4].copy_from_slice(&300_u32.to_be_bytes());
    profile[16..20].copy_from_slice(b"RGB ");
    let [mut jpeg, mut webp, mut png] = [const { Vec::new() }; 3];
    with_profile(JpegEncoder::new(&mut jpeg), &profile);
    with_profile(WebPEncoder::new_lossless(&mut webp), &profile);
    with_profile(PngEncoder::new(&mut png), &profile);
    for (bytes, kept) in [(jpeg, Some(profile.clone())), (webp, Some(profile)), (png, None)] {
        for kind in [KEEPS_COLORS, "super-resolution"] {
            let outputs = run_file(kind, bytes.clone(), &Limits::default()).expect("a good picture");
            let mut decoder = image::ImageReader::new(Cursor::new(outputs.bytes(outputs.0[0].0)))
                .with_guessed_format()
                .expect("it is in memory")
                .into_decoder()
                .expect("a picture");
            assert_eq!(image::ImageDecoder::icc_profile(&mut decoder).expect("it is read"), kept, "{kind}");
        }
    }
}

#[test]
fn alpha_that_hides_nothing_is_dropped_and_feature_matching_drops_any() {
    let picture = DynamicImage::from(scenes::people(160, 120));
    let opaque = encoded(&picture.to_rgba8().into(), ImageFormat::Png);
    assert!(!read(opaque).picture("output").color().has_alpha());
    let mut clear = picture.to_rgba8();
    clear.pixels_mut().take(2_000).for_each(|pixel| pixel.0[3] = 0);
    let bytes = encoded(&clear.into(), ImageFormat::Png);
    assert!(read(bytes.clone()).picture("output").color().has_alpha());
    let matches = run_file("feature-matching", bytes, &Limits::default()).expect("a good picture");
    assert!(!matches.picture("output").color().has_alpha());
}

#[test]
fn a_picture_that_is_too_large_is_refused_in_megapixels() {
    // A header without pixels.
    let bytes = png(&RgbImage::new(12_000, 9_000))[..64].to_vec();
    for model in built_in() {
        let mut limits = Limits { memory: 1 << 30, ..Limits::default() };
        let largest = inferstore_models::largest_picture(&*model, &limits).expect("it is known");
        limits.pixels = largest;
        let error = run_file(model.kind(), bytes.clone(), &limits).expect_err("nothing takes as many");
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        let words = format!("are 108 megapixels, and this model takes at most {}", largest / 1_000_000);
        assert!(error.to_string().contains(&words), "{error}: not {words}");
        assert!(largest >= 24_000_000, "{} takes {largest} pixels", model.kind());
    }
}

#[test]
fn a_kind_that_finds_nothing_says_so_in_its_picture() {
    let nothing = RgbImage::from_pixel(320, 240, Rgb([90, 140, 200]));
    for kind in ["face-detection", "feature-matching"] {
        let picture = run_file(kind, png(&nothing), &Limits::default()).expect("a picture").picture("output");
        let white = picture
            .to_rgb8()
            .enumerate_pixels()
            .filter(|(x, y, pixel)| *x < 200 && *y < 30 && pixel.0 == [255; 3])
            .count();
        assert!(white > 100, "{kind}: {white}");
    }
}
