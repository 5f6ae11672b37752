//! Time and memory of each model for a photo of 12 megapixels: `cargo bench --package inferstore-models`.
//! Every run has its own process. Fails if a run exceeds its limits.
//!
//! `PHOTO=FILE` uses another picture, `KIND=NAME` runs one kind, `OUTPUTS=FOLDER` keeps the outputs.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops when it cannot go on"
)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use image::ImageFormat;
use inferstore_measure::{Better, Row, peak, processor_time};
use inferstore_models::{Limits, Output, built_in, largest_picture};

#[path = "../tests/it/scenes.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod scenes;
#[path = "../tests/it/support.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod support;

/// Limit on processor time, in seconds.
const MAX_TIME: f64 = 6.0;
const MAX_MEMORY_MIB: f64 = 1024.0;
/// Argument that makes this program run one kind; the kind and the file follow.
const RUN: &str = "--run";

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let [_, word, kind, file] = &arguments[..]
        && word == RUN
    {
        return run(kind, Path::new(file));
    }
    let photo = env::var_os("PHOTO").map_or_else(photo, PathBuf::from);
    let program = env::current_exe().expect("this program has a path");
    let (mut times, mut peaks) = (Vec::new(), Vec::new());
    for model in built_in() {
        let kind = model.kind();
        if env::var("KIND").is_ok_and(|wanted| wanted != kind) {
            continue;
        }
        let output = Command::new(&program).args([RUN, kind]).arg(&photo).output().expect("it starts");
        let printed = String::from_utf8_lossy(&output.stdout);
        println!("{kind:32} {}", printed.trim());
        let figures: Vec<f64> = printed.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [time, peak, ..] = figures[..] else {
            println!("{}", String::from_utf8_lossy(&output.stderr));
            assert!(env::var_os("PHOTO").is_some(), "{kind} failed on the photo of the benchmark");
            continue;
        };
        times.push(time);
        peaks.push(peak);
    }
    for (what, unit, ours, most) in [
        ("the slowest model, 12 megapixels", "s", times, MAX_TIME),
        ("the largest model, 12 megapixels", "MiB", peaks, MAX_MEMORY_MIB),
    ] {
        let largest = ours.into_iter().fold(0.0, f64::max);
        let row = Row {
            group: "models".to_owned(),
            what: what.to_owned(),
            against: "what is allowed".to_owned(),
            unit: unit.to_owned(),
            better: Better::Lower,
            ours: vec![largest],
            theirs: vec![most],
            minimum: None,
            note: None,
            command: "cargo bench --package inferstore-models".to_owned(),
        };
        row.print();
        assert!(largest <= most, "{what}: {largest:.1} {unit}");
    }
}

/// Writes a photo of 4000 x 3000 pixels with fine noise, and returns its path.
fn photo() -> PathBuf {
    let photo = scenes::photo(4_000, 3_000);
    let path = env::temp_dir().join("inferstore-12-megapixels.jpg");
    std::fs::write(&path, support::encoded(&photo.into(), ImageFormat::Jpeg)).expect("it is written");
    path
}

/// Runs a model and prints its processor time in seconds, its peak memory in MiB, and the sizes of its
/// outputs.
fn run(kind: &str, file: &Path) {
    let inputs = support::inputs_of(kind, &std::fs::read(file).expect("the photo is there"));
    let limits = Limits { memory: 1 << 30, ..Limits::default() };
    let outputs = support::model(kind).run(&inputs, &limits);
    let outputs = outputs.unwrap_or_else(|error| panic!("{kind}: {error}"));
    let time = processor_time(std::process::id()).expect("the system counts it");
    let peak = peak(std::process::id()).expect("the system keeps it");
    let most = largest_picture(&*support::model(kind), &limits).unwrap_or(0) / 1_000_000;
    print!("{time:.2} s {peak:.0} MiB at most {most} megapixels;");
    for (name, output) in outputs {
        match output {
            Output::Text(text) => print!(" {name}: {} characters", text.len()),
            Output::File { bytes, extension, .. } => {
                print!(" {name}.{extension}: {:.1} MB", bytes.len() as f64 / 1e6);
                if let Some(folder) = env::var_os("OUTPUTS") {
                    let path = Path::new(&folder).join(format!("{kind}-{name}.{extension}"));
                    std::fs::write(path, bytes).expect("the folder is there");
                }
            }
        }
    }
    println!();
}
