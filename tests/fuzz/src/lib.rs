//! What must hold of everything that reads foreign bytes, whatever the bytes are. Each target is a
//! function that panics when it does not hold. cargo-fuzz calls them with bytes that it invents,
//! `cargo test` with the kept corpus and with mutations of it.

#![expect(clippy::expect_used, clippy::panic, reason = "what does not hold is said by panicking")]

mod answers;
mod document;
mod forms;
mod inputs;
mod messages;
mod pictures;
mod policies;
mod upload_targets;
mod wire;

pub use answers::answers;
pub use forms::forms;
pub use inputs::inputs;
pub use messages::messages;
pub use pictures::pictures;
pub use policies::policies;
pub use upload_targets::upload_targets;

/// A target, which takes any bytes.
pub type Target = fn(&[u8]);

/// All targets, by the name under which their corpus is kept.
pub const TARGETS: [(&str, Target); 7] = [
    ("answers", answers),
    ("forms", forms),
    ("inputs", inputs),
    ("messages", messages),
    ("pictures", pictures),
    ("policies", policies),
    ("upload_targets", upload_targets),
];

/// The first line and what follows; both are texts in most corpora, so that people can read them.
fn first_line(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &[]),
    }
}
