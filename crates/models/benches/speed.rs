//! Time and memory of each model for a photo of 12 megapixels: `cargo bench --package inferstore-models`.
//! Every run has its own process. Fails if a run exceeds its limits.
//!
//! Beside each model runs the nearest method of OpenCV (`tests/peers/pictures.py`), on the same photo and on one core,
//! if `cargo xtask bench models` has installed it.
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
use inferstore_measure::{Better, Row, own_processor_time, peak, side_by_side};
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
/// Rounds in which a model and its peer alternate.
const ROUNDS: usize = 3;
const COMMAND: &str = "cargo xtask bench models";
/// Program that runs the peers.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peers/pictures.py");
/// Argument that makes this program run one kind; the kind and the file follow.
const RUN: &str = "--run";

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let [_, word, kind, file] = &arguments[..]
        && word == RUN
    {
        return run(kind, Path::new(file));
    }
    let [bright, dark] =
        [1, 4].map(|divisor| env::var_os("PHOTO").map_or_else(|| photo(divisor), PathBuf::from));
    let peers = peers();
    let (mut times, mut peaks) = (Vec::new(), Vec::new());
    for model in built_in() {
        let kind = model.kind();
        if env::var("KIND").is_ok_and(|wanted| wanted != kind) {
            continue;
        }
        // Those that brighten leave a bright photo as it is.
        let photo = if kind.ends_with("low-light-enhancement") { &dark } else { &bright };
        let program = env::current_exe().expect("this program has a path");
        let ours = || figures(Command::new(&program).args([RUN, kind]).arg(photo));
        let Some([time, peak]) = ours() else {
            assert!(env::var_os("PHOTO").is_some(), "{kind} failed on the photo of the benchmark");
            continue;
        };
        times.push(time);
        peaks.push(peak);
        for peer in peers.iter().filter(|peer| peer.kind == kind) {
            let time = |figures: Option<[f64; 2]>| figures.expect("a method that ran once runs again")[0];
            let theirs = || figures(Command::new(python()).args([PEERS, &peer.number]).arg(photo));
            let (ours, theirs) = side_by_side(ROUNDS, || time(ours()), || time(theirs()));
            peer.row(ours, theirs).print();
        }
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
            command: COMMAND.to_owned(),
        };
        row.print();
        assert!(largest <= most, "{what}: {largest:.1} {unit}");
    }
}

/// Runs a program that prints seconds and MiB. Returns both; `None` if it fails.
fn figures(command: &mut Command) -> Option<[f64; 2]> {
    let output = command.output().expect("it starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    println!("{}{}", printed.trim(), String::from_utf8_lossy(&output.stderr));
    let mut figures = printed.split(' ').filter_map(|word| word.parse().ok());
    Some([figures.next()?, figures.next()?])
}

/// Method of OpenCV that does nearly the same as a model.
struct Peer {
    number: String,
    kind: String,
    name: String,
    /// Work of both sides.
    both: String,
    /// Reason why ours is behind; none if it never is.
    reason: String,
}

impl Peer {
    fn row(&self, ours: Vec<f64>, theirs: Vec<f64>) -> Row {
        let mut row = Row {
            group: "models".to_owned(),
            what: format!("{}, 12 megapixels", self.kind),
            against: self.name.clone(),
            unit: "s".to_owned(),
            better: Better::Lower,
            ours,
            theirs,
            minimum: None,
            note: Some(self.both.clone()),
            command: COMMAND.to_owned(),
        };
        if row.is_behind() && !self.reason.is_empty() {
            row.note = Some(format!("{}. {}", self.both, self.reason));
        }
        row
    }
}

fn python() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/pictures/python/bin/python")
}

/// Returns the methods of OpenCV; none if it is not installed.
fn peers() -> Vec<Peer> {
    if !python().exists() {
        println!("OpenCV is not installed; `{COMMAND}` does it, and measures beside it");
        return Vec::new();
    }
    let output = Command::new(python()).arg(PEERS).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("Python prints UTF-8");
    let peer = |(number, line): (usize, &str)| {
        let mut words = line.split('\t').map(str::to_owned);
        let mut next = || words.next().expect("a line has a kind, a name and two notes");
        Peer { number: number.to_string(), kind: next(), name: next(), both: next(), reason: next() }
    };
    lines.lines().enumerate().map(peer).collect()
}

/// Writes a photo of 4000 x 3000 pixels with fine noise and with its values divided, and returns its path.
fn photo(divisor: u8) -> PathBuf {
    let mut photo = scenes::photo(4_000, 3_000);
    photo.iter_mut().for_each(|value| *value /= divisor);
    let path = env::temp_dir().join(format!("inferstore-12-megapixels-{divisor}.jpg"));
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
    let time = own_processor_time().as_secs_f64();
    let peak = peak(std::process::id()).expect("the system keeps it");
    let most = largest_picture(&*support::model(kind), &limits).unwrap_or(0) / 1_000_000;
    print!("{kind:32} {time:.3} s {peak:.0} MiB at most {most} megapixels;");
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
