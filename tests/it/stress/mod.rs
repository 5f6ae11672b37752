//! Stress tests: promises to users under faults, kills, attacks and load. `cargo test` runs a fixed few of
//! each; `cargo xtask stress` runs many, from a seed that it prints.

mod abuse;
mod authorization;
mod cluster;
mod crashes;
mod creates;
#[cfg(target_os = "linux")]
mod disk;
mod durability;
mod intensity;
#[cfg(target_os = "linux")]
mod models;
mod money;
mod process;
mod raw;
mod rows;
mod runs;
mod stored;
mod uploads;

pub(crate) use intensity::{Intensity, tell};
