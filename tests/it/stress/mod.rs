//! What users rely on, tried hard: under faults, kills, attacks and load. `cargo test` tries a little of
//! each, always the same; `cargo xtask stress` tries much of each, from a seed that it prints.

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
