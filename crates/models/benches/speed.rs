//! How long each model takes for a picture of one megapixel: `cargo bench --bench speed`. Fails
//! when one takes more than is allowed. The ratio says how many times as long as merely reading and
//! writing the same picture it takes, which depends less on the machine.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops when it cannot go on"
)]

use std::time::Instant;

use inferstore_measure::{Better, Row};
use inferstore_models::{Limits, built_in};

#[path = "../tests/it/scenes.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod scenes;
#[path = "../tests/it/support.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod support;

/// The bar, in seconds.
const ALLOWED: f64 = 5.0;
const ROUNDS: usize = 3;

fn main() {
    let bytes = support::png(&scenes::hazy(1184, 888));
    let codec = fastest(|| {
        let picture = image::load_from_memory(&bytes).expect("it was just written");
        support::encoded(&picture, image::ImageFormat::Png);
    });
    println!("{:32} {codec:8.3} s", "reading and writing alone");
    let mut slowest: f64 = 0.0;
    for model in built_in() {
        let inputs = support::inputs_of(model.kind(), &bytes);
        let seconds = fastest(|| drop(model.run(&inputs, &Limits::default()).expect("a good picture")));
        println!("{:32} {seconds:8.3} s {:8.1} times", model.kind(), seconds / codec);
        slowest = slowest.max(seconds);
    }
    let row = Row {
        group: "models".to_owned(),
        what: "the slowest model, a megapixel".to_owned(),
        against: "what is allowed".to_owned(),
        unit: "s".to_owned(),
        better: Better::Lower,
        ours: vec![slowest],
        theirs: vec![ALLOWED],
        bar: None,
        note: None,
        command: "cargo bench --bench speed".to_owned(),
    };
    row.print();
    assert!(slowest <= ALLOWED, "a model takes too long");
}

/// The time of the fastest round: the others were disturbed.
fn fastest(mut run: impl FnMut()) -> f64 {
    let time = |()| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    [(); ROUNDS].map(time).into_iter().fold(f64::INFINITY, f64::min)
}
