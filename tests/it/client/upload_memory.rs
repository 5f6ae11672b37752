//! The memory of an upload does not depend on the size of the file.

use std::env;
use std::process::Command;

use crate::support::upload_memory::{Tier, measure, upload};

const BASE_URL: &str = "UPLOAD_MEMORY_BASE_URL";
const FILE: &str = "UPLOAD_MEMORY_FILE";

/// Four times the memory that a stream may take here. The benchmark uploads the largest possible file.
const SIZE: u64 = 32 << 20;

/// In KiB. Distinguishes a file in memory from a stream, in a debug build; the benchmark has the exact limit.
const MUCH: u64 = 8 * 1024;

#[test]
#[cfg(target_os = "linux")]
fn a_large_upload_needs_little_memory_and_reports_exact_progress() {
    for tier in [Tier::Form, Tier::Put] {
        let measured = measure(tier, SIZE, |base_url, path| {
            let mut child = Command::new(env::current_exe().expect("this program has a path"));
            child.args(["--exact", "--ignored", "--nocapture", "client::upload_memory::the_child_uploads"]);
            child.env(BASE_URL, base_url).env(FILE, path);
            child
        });
        let taken = measured.peak.saturating_sub(measured.idle);
        assert!(taken < MUCH, "{tier:?}: {taken} KiB above {} KiB", measured.idle);
    }
}

#[test]
#[ignore = "it is started by the test above, in a process of its own"]
#[expect(clippy::print_stdout, reason = "its parent reads that")]
fn the_child_uploads() {
    let (Ok(base_url), Ok(file)) = (env::var(BASE_URL), env::var(FILE)) else { return };
    println!("{}", upload(&base_url, &file));
}
