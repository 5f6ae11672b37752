//! Golden tests: results that a person has accepted, as pictures in `tests/golden/`. After an intended
//! change, `ACCEPT=1 cargo test -p inferstore-models golden` writes them again: look at each before
//! committing.

use std::io::Cursor;
use std::path::PathBuf;
use std::{env, fs};

use image::codecs::gif::{GifDecoder, GifEncoder};
use image::imageops::FilterType;
use image::{AnimationDecoder, Delay, DynamicImage, Frame, ImageFormat};

use inferstore_models::{Input, Limits};

use crate::scenes;
use crate::support::{encoded, file, png, run, run_file};

/// Tolerance in steps of 255: on average, and for single pixels. Processors and library versions round
/// differently, which may move a line by a pixel.
const MEAN: f64 = 0.5;
const FAR: u8 = 24;
const MAX_DIFFERENCE: f64 = 0.002;

fn check(name: &str, picture: &DynamicImage) {
    let path: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "tests", "golden", &format!("{name}.png")].iter().collect();
    if env::var_os("ACCEPT").is_some() {
        picture.save(&path).expect("the folder is there");
    }
    let golden = image::load_from_memory(&fs::read(&path).expect("a golden picture; ACCEPT=1 makes it"));
    let (golden, picture) = (golden.expect("it is a picture").into_rgba8(), picture.to_rgba8());
    assert_eq!(golden.dimensions(), picture.dimensions(), "{name} has another size than its golden picture");
    let differences = golden.as_raw().iter().zip(picture.as_raw()).map(|(a, b)| a.abs_diff(*b));
    let share = |count: f64| count / golden.as_raw().len() as f64;
    let far = share(differences.clone().filter(|difference| *difference > FAR).count() as f64);
    let mean = share(differences.map(f64::from).sum());
    assert!(
        mean <= MEAN && far <= MAX_DIFFERENCE,
        "{name} differs from its golden picture by {mean:.2} on average and by more than {FAR} at {far:.4} of it"
    );
}

#[test]
fn scenes_are_what_the_models_were_judged_by() {
    check("scene-landscape", &scenes::landscape(240, 180).0.into());
    check("scene-hazy", &scenes::hazy(240, 180).into());
    check("scene-people", &scenes::people(320, 240).into());
}

#[test]
fn image_blending_puts_a_ball_into_the_sky_by_every_method() {
    let (landscape, _) = scenes::landscape(240, 180);
    let (ball, mask) = scenes::ball(240, 180);
    check("scene-ball", &ball.clone().into());
    for method in ["Poisson", "Laplacian", "Mixed Gradient"] {
        let outputs = run(
            "image-blending",
            [
                ("bg_img", file(&landscape)),
                ("obj_img", file(&ball)),
                ("mask_img", file(&mask)),
                ("method", Input::Text(method.to_owned())),
            ],
        );
        let name = format!("image-blending-{}", method.to_lowercase().replace(' ', "-"));
        check(&name, &outputs.picture("output"));
    }
}

#[test]
fn image_blending_fits_objects_and_masks_of_other_sizes() {
    let (landscape, _) = scenes::landscape(240, 180);
    for (name, (width, height)) in [("smaller", (120, 80)), ("larger", (400, 300))] {
        let (ball, _) = scenes::ball(width, height);
        let (_, mask) = scenes::ball(90, 60);
        let outputs = run(
            "image-blending",
            [
                ("bg_img", file(&landscape)),
                ("obj_img", file(&ball)),
                ("mask_img", file(&mask)),
                ("method", Input::Text("Laplacian".to_owned())),
            ],
        );
        check(&format!("image-blending-{name}-object"), &outputs.picture("output"));
    }
}

#[test]
fn color_harmonization_draws_the_hues_into_every_template() {
    let landscape = file(&scenes::landscape(160, 120).0);
    for template in [
        "vertical_bar",
        "v_shape",
        "right_angle",
        "left_angle",
        "double_bar",
        "t_shape",
        "y_branch",
        "x_cross",
    ] {
        let outputs = run(
            "color-harmonization",
            [
                ("input_image", landscape.clone()),
                ("template", Input::Text(template.to_owned())),
                ("angle", Input::Number(20.0)),
            ],
        );
        check(&format!("color-harmonization-{template}"), &outputs.picture("output_image"));
        check(&format!("color-harmonization-{template}-hue"), &outputs.picture("output_hue"));
    }
}

#[test]
fn face_mesh_fits_a_mesh_to_each_face_and_lists_its_points() {
    let outputs = run("face-mesh", [("input", file(&scenes::people(480, 360)))]);
    check("face-mesh", &outputs.picture("output"));
    let text = outputs.text("multi_face_landmarks");
    let points: Vec<[f32; 3]> = text
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(_, point)| {
            let numbers: Vec<f32> =
                point.split(' ').map(|number| number.parse().expect("a number")).collect();
            numbers.try_into().expect("three numbers")
        })
        .collect();
    assert_eq!(points.len() % 68, 0, "{text}");
    // The near person: centers of the left pupil and of the lips in the scene.
    let near = |x: f32, y: f32| points.iter().any(|point| (point[0] - x).hypot(point[1] - y) < 0.03);
    let scene = |x: f32, y: f32| (0.33 + x * 0.3 * 0.75, 0.5 + y * 0.3);
    for (x, y) in [scene(-0.34, -0.15), scene(0.34, -0.15), scene(0.0, 0.56)] {
        assert!(near(x, y), "no point near {x} {y}:\n{text}");
    }
}

#[test]
fn face_mesh_of_a_picture_without_faces_lists_nothing() {
    let landscape = scenes::landscape(160, 120).0;
    let outputs = run("face-mesh", [("input", file(&landscape))]);
    assert_eq!(outputs.text("multi_face_landmarks"), "");
    assert_eq!(outputs.picture("output").to_rgb8(), landscape);
}

#[test]
fn semantic_low_light_enhancement_lights_faces_and_keeps_the_sky_calm() {
    let dark = scenes::dark(240, 180);
    let outputs = run("semantic-low-light-enhancement", [("input_image", file(&dark))]);
    let guided = outputs.picture("output_image");
    check("semantic-low-light-enhancement", &guided);
    let plain = run("low-light-enhancement", [("input_image", file(&dark))]).picture("output_image");
    // Neighboring pixels away from the moon.
    let noise = |picture: &DynamicImage| {
        let picture = picture.to_luma8();
        let value = |x: u32, y: u32| f32::from(picture.get_pixel(x, y).0[0]);
        let steps = (0..40).flat_map(|y| (0..150).map(move |x| (x, y)));
        steps.map(|(x, y)| (value(x, y) - value(x + 1, y)).abs()).sum::<f32>() / 6_000.0
    };
    assert!(noise(&guided) < 0.9 * noise(&plain), "{} {}", noise(&guided), noise(&plain));

    // The same people in low light: the guide makes their faces brighter.
    let mut people = scenes::people(320, 240);
    people.pixels_mut().for_each(|pixel| pixel.0 = pixel.0.map(|value| (f32::from(value) * 0.16) as u8));
    let face = |kind: &str| {
        let picture = run(kind, [("input_image", file(&people))]).picture("output_image").to_luma8();
        let inner = (92..120).flat_map(|x| (105..150).map(move |y| (x, y)));
        inner.map(|(x, y)| f32::from(picture.get_pixel(x, y).0[0])).sum::<f32>() / (28.0 * 45.0)
    };
    let (guided, plain) = (face("semantic-low-light-enhancement"), face("low-light-enhancement"));
    assert!((guided - 0.58 * 255.0).abs() <= (plain - 0.58 * 255.0).abs() + 1.0, "{guided} {plain}");
}

#[test]
fn low_light_enhancement_shows_the_landscape_at_night() {
    let dark = scenes::dark(240, 180);
    check("scene-dark", &dark.clone().into());
    let outputs = run("low-light-enhancement", [("input_image", file(&dark))]);
    check("low-light-enhancement", &outputs.picture("output_image"));
}

#[test]
fn low_light_enhancement_leaves_a_bright_picture_alone() {
    let (landscape, _) = scenes::landscape(240, 180);
    let outputs = run("low-light-enhancement", [("input_image", file(&landscape))]);
    let result = outputs.picture("output_image").to_rgb8();
    let change = landscape.as_raw().iter().zip(result.as_raw()).map(|(a, b)| f64::from(a.abs_diff(*b)));
    assert!(change.sum::<f64>() / (landscape.as_raw().len() as f64) < 8.0);
}

#[test]
fn face_detection_boxes_the_faces_that_each_range_looks_for() {
    let people = scenes::people(320, 240);
    for (name, model) in [
        ("short", "Short-range model (best for faces within 2 meters)"),
        ("full", "Full-range model (best for faces within 5 meters)"),
    ] {
        let outputs = run(
            "face-detection",
            [
                ("input", file(&people)),
                ("model", Input::Text(model.to_owned())),
                ("confidence", Input::Number(0.5)),
            ],
        );
        check(&format!("face-detection-{name}"), &outputs.picture("output"));
    }
}

#[test]
fn feature_matching_finds_the_same_points_in_another_view() {
    let (first, _) = scenes::landscape(320, 240);
    let outputs = run(
        "feature-matching",
        [("input_1", file(&first)), ("input_2", file(&scenes::second_view(240, 260)))],
    );
    check("feature-matching", &outputs.picture("output"));
}

#[test]
fn feature_matching_draws_no_line_between_different_things() {
    let outputs = run(
        "feature-matching",
        [("input_1", file(&scenes::landscape(160, 120).0)), ("input_2", file(&scenes::people(160, 120)))],
    );
    check("feature-matching-none", &outputs.picture("output"));
}

/// Returns the PSNR in decibels, without a border, where every method has to guess.
fn nearness(one: &DynamicImage, other: &DynamicImage) -> f64 {
    let inner =
        |image: &DynamicImage| image.crop_imm(8, 8, image.width() - 16, image.height() - 16).into_rgb8();
    let (one, other) = (inner(one), inner(other));
    let squares = one.as_raw().iter().zip(other.as_raw()).map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2));
    -10.0 * (squares.sum::<f64>() / one.as_raw().len() as f64 / 255.0_f64.powi(2)).log10()
}

#[test]
fn super_resolution_comes_nearer_to_the_large_scene_than_plain_scaling() {
    let large = DynamicImage::from(scenes::people(320, 240));
    let small = large.resize_exact(160, 120, FilterType::Triangle);
    let plain = small.resize_exact(320, 240, FilterType::CatmullRom);
    check("scene-people-small", &small);
    let outputs = run("super-resolution", [("input_image", file(&small.to_rgb8()))]);
    let result = outputs.picture("output_image");
    check("super-resolution", &result);
    let (ours, plain) = (nearness(&large, &result), nearness(&large, &plain));
    assert!(ours > plain + 0.5, "{ours:.2} dB, and {plain:.2} dB by plain scaling");
}

#[test]
fn super_resolution_alt_keeps_given_pixels_and_smooth_edges() {
    let large = DynamicImage::from(scenes::people(320, 240));
    let small = large.resize_exact(160, 120, FilterType::Triangle).into_rgb8();
    let outputs = run("super-resolution-alt", [("input_image", file(&small))]);
    let result = outputs.picture("output_image");
    check("super-resolution-alt", &result);
    let result = result.to_rgb8();
    assert!(small.enumerate_pixels().all(|(x, y, pixel)| result.get_pixel(2 * x, 2 * y) == pixel));
}

#[test]
fn super_resolution_alt_makes_the_same_picture_of_a_jpeg() {
    // Several tiles, the last of them narrow.
    for (width, height) in [(1, 1), (3, 20), (523, 133)] {
        let jpeg = encoded(&scenes::people(width, height).into(), ImageFormat::Jpeg);
        let decoded = image::load_from_memory(&jpeg).expect("it is a picture").into_rgb8();
        let [one, other] = [jpeg, png(&decoded)].map(|file| {
            let outputs = run_file("super-resolution-alt", file, &Limits::default());
            outputs.expect("the input is good").picture("output_image").into_rgb8()
        });
        assert_eq!(one.dimensions(), other.dimensions());
        let differences = one.as_raw().iter().zip(other.as_raw()).map(|(a, b)| f64::from(a.abs_diff(*b)));
        let mean = differences.sum::<f64>() / one.as_raw().len() as f64;
        assert!(mean < 1.5, "{width} x {height}: {mean:.2} on average");
    }
}

#[test]
fn background_removal_cuts_people_out_of_their_wall() {
    let outputs = run("background-removal", [("input", file(&scenes::people(320, 240)))]);
    check("background-removal", &outputs.picture("output"));
}

#[test]
fn background_removal_cuts_people_out_of_a_wall_of_their_own_colors() {
    let path = format!("{}/tests/golden/background-removal.png", env!("CARGO_MANIFEST_DIR"));
    let truth = image::open(path).expect("a golden picture").into_rgba8();
    let mut picture = scenes::people(320, 240);
    for (x, y, pixel) in picture.enumerate_pixels_mut().filter(|(x, y, _)| truth.get_pixel(*x, *y).0[3] < 128)
    {
        // Stones in the colors of skin, hair and shirts.
        let stone = scenes::hash((x / 14) as i32, (y / 14) as i32);
        let colors = [[226, 180, 150], [60, 36, 24], [160, 50, 56], [58, 84, 160]];
        pixel.0 = colors[(stone * 4.0) as usize % 4];
    }
    let found = run("background-removal", [("input", file(&picture))]).picture("output").into_rgba8();
    let opaque = || found.pixels().zip(truth.pixels()).map(|(one, other)| (one.0[3] > 127, other.0[3] > 127));
    let both = opaque().filter(|(one, other)| *one && *other).count() as f64;
    let either = opaque().filter(|(one, other)| *one || *other).count() as f64;
    assert!(both / either > 0.85, "{:.2} of the people and of what was found are the same", both / either);
}

#[test]
fn background_removal_refuses_what_it_would_cut_arbitrarily() {
    let noise = scenes::draw(160, 120, |x, y| {
        [0, 1, 2].map(|channel| scenes::noise(x * 9.0, y * 9.0 + 50.0 * channel as f32))
    });
    let error =
        run_file("background-removal", png(&noise), &Limits::default()).expect_err("there is no subject");
    assert!(error.to_string().contains("stands out"), "{error}");
}

#[test]
fn background_replacement_puts_people_into_a_landscape() {
    let outputs = run(
        "background-replacement",
        [
            ("input", file(&scenes::landscape(240, 120).0)),
            ("background_path", file(&scenes::people(320, 240))),
        ],
    );
    check("background-replacement", &outputs.picture("output"));
}

#[test]
fn image_to_anime_draws_flat_colors_and_dark_lines() {
    for (name, scene) in [("landscape", scenes::landscape(320, 240).0), ("people", scenes::people(320, 240))]
    {
        let outputs = run("image-to-anime", [("input", file(&scene))]);
        check(&format!("image-to-anime-{name}"), &outputs.picture("output"));
    }
}

#[test]
fn video_edge_map_draws_the_edges_of_every_picture() {
    let mut animation = Vec::new();
    let mut encoder = GifEncoder::new(&mut animation);
    let scenes = [scenes::landscape(240, 180).0, scenes::ball(240, 180).0, scenes::people(240, 180)];
    for scene in &scenes {
        let scene = DynamicImage::from(scene.clone()).into_rgba8();
        encoder
            .encode_frame(Frame::from_parts(scene, 0, 0, Delay::from_numer_denom_ms(70, 1)))
            .expect("it fits");
    }
    drop(encoder);
    let outputs = run("video-edge-map", [("input", Input::File(animation))]);
    let decoder = GifDecoder::new(Cursor::new(outputs.bytes("output"))).expect("a GIF");
    let frames = decoder.into_frames().collect_frames().expect("a whole GIF");
    assert_eq!(frames.len(), scenes.len());
    for (number, frame) in frames.into_iter().enumerate() {
        assert_eq!(frame.delay().numer_denom_ms(), (70, 1), "it plays as fast as before");
        check(&format!("video-edge-map-{number}"), &frame.into_buffer().into());
    }
}

#[test]
fn haze_removal_shows_what_the_haze_hid() {
    let outputs = run("haze-removal", [("input_image", file(&scenes::hazy(240, 180)))]);
    check("haze-removal", &outputs.picture("output_image"));
}

#[test]
fn color_extraction_names_the_colors_of_a_flag_by_their_share() {
    let flag = scenes::draw(64, 64, |_, y| match y {
        y if y < 0.5 => [1.0, 0.0, 0.0],
        y if y < 0.8 => [1.0, 1.0, 1.0],
        _ => [0.0, 0.0, 1.0],
    });
    let outputs = run("color-extraction", [("input", file(&flag))]);
    assert_eq!(outputs.text("output"), "#ff0000, #ffffff, #0000ff");
}

#[test]
fn color_extraction_finds_the_colors_of_a_landscape() {
    let landscape = scenes::landscape(240, 180).0;
    let outputs = run("color-extraction", [("input", file(&landscape))]);
    let codes: Vec<&str> = outputs.text("output").split(", ").collect();
    assert!((3..=8).contains(&codes.len()), "{codes:?}");
    let again = run("color-extraction", [("input", Input::File(png(&landscape)))]);
    assert_eq!(again.text("output"), outputs.text("output"), "equal pictures give equal colors");
    // Beside the picture, for a person who checks it.
    let swatches = DynamicImage::from(scenes::draw(240, 40, |x, _| {
        let code = codes[(x * codes.len() as f32) as usize];
        let number = u32::from_str_radix(&code[1..], 16).expect("a hex code");
        [16, 8, 0].map(|shift| ((number >> shift) & 255) as f32 / 255.0)
    }));
    check("color-extraction", &swatches);
}
