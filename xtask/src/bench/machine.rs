//! Date and machine of a measurement.

use std::fs;
use std::process::Command;
use std::thread;

/// Makers of processors. Other names may be those of a private machine.
const MAKERS: [&str; 4] = ["Intel", "AMD", "ARM", "Apple"];

pub(super) fn machine() -> String {
    let memory = value("/proc/meminfo", "MemTotal", ':');
    let memory = memory.and_then(|text| text.trim_end_matches(" kB").parse().ok());
    let processor = value("/proc/cpuinfo", "model name", ':');
    let facts = [
        ("cores", thread::available_parallelism().map(|cores| cores.to_string()).ok()),
        ("processor", processor.filter(|name| MAKERS.iter().any(|maker| name.contains(maker)))),
        ("memory", memory.map(|kib: f64| format!("{:.0} GiB", kib / 1024.0 / 1024.0))),
        ("system", value("/etc/os-release", "PRETTY_NAME", '=')),
        ("Rust", version("rustc")),
        ("curl", version("curl")),
        ("Node.js", version("node")),
        ("valgrind", version("valgrind")),
    ];
    let date = Command::new("date").args(["-u", "+%F"]).output().map(|output| output.stdout);
    let date = String::from_utf8_lossy(&date.unwrap_or_default()).trim().to_owned();
    let facts = facts.into_iter().filter_map(|(name, fact)| Some(format!(", {name} {}", fact?)));
    date + &facts.collect::<String>()
}

fn value(file: &str, name: &str, separator: char) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs.find(|(found, _)| found.trim() == name).map(|(_, value)| value.trim().trim_matches('"').to_owned())
}

/// The version alone: the rest of the line depends on how the program was built.
fn version(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut words = text.split([' ', '-', '\n']);
    words
        .find(|word| word.trim_start_matches('v').starts_with(|first: char| first.is_ascii_digit()))
        .map(Into::into)
}
