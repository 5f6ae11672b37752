//! `cargo xtask bench`: measures the client, the service and their builds beside what one would use
//! instead, and writes the scoreboard.

mod machine;
mod page;

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use inferstore_measure::{ROW_MARK, ROWS_VARIABLE, Row};
use serde::Serialize;

use inferstore_contract::tools::{Set, Tools, absolute, cargo, is_installed, must};
use machine::Machine;

/// What was measured last of each part, for programs.
const SCOREBOARD: &str = "target/scoreboard.json";

/// A part of the scoreboard.
struct Part {
    name: &'static str,
    /// Programs that the machine must have.
    needs: &'static [&'static str],
    /// Benchmarks of the workspace, run by cargo, tests of the service that measure, or programs of `tests/peers`.
    programs: &'static [&'static str],
}

const PARTS: [Part; 7] = [
    Part {
        name: "client",
        needs: &["curl", "valgrind"],
        programs: &[
            "overhead",
            "calls",
            "decode",
            "polls",
            "schedule",
            "transfers",
            "upload_memory",
            "deadlines",
        ],
    },
    Part {
        name: "service",
        needs: &["node"],
        programs: &["requests", "commits", "objects", "growth", "start", "controls"],
    },
    Part {
        name: "cluster",
        needs: &["openssl"],
        programs: &["measure::creates_per_second", "measure::growth_to_a_million_tasks"],
    },
    Part { name: "models", needs: &[], programs: &["speed"] },
    Part { name: "command", needs: &["curl"], programs: &["command"] },
    Part { name: "build", needs: &["python3"], programs: &["tests/peers/builds.py"] },
    Part { name: "peers", needs: &["node", "python3"], programs: &["tests/peers/peers.py"] },
];

/// Where they are: they use what only the service itself can see.
const TESTS_THAT_MEASURE: [&str; 7] = [
    "test",
    "--quiet",
    "--release",
    "--package=inferstore-service",
    "--features=test-postgres",
    "--lib",
    "--",
];

/// A mock server for documents. The benchmark looks for it under this name.
const PRISM: Set<'static> = Set { name: "prism", npm: &["@stoplight/prism-cli@5.14.2"], pypi: &[] };

/// The object store that comes with s3s. Newer ones need a newer compiler.
const S3S_FS: &str = "0.14.1";

/// Measure everything beside what one would use instead; write target/scoreboard.json.
#[derive(clap::Args)]
pub(crate) struct Job {
    /// Some parts instead of all.
    #[arg(value_name = "PART", value_parser = PARTS.map(|part| part.name))]
    parts: Vec<String>,
    /// Also write docs/scoreboard.md; what it has of the other parts stays.
    #[arg(long)]
    publish: bool,
}

/// What was measured.
#[derive(Default, Serialize)]
struct Scoreboard {
    parts: Vec<Measured>,
}

#[derive(Serialize)]
struct Measured {
    name: &'static str,
    machine: Machine,
    rows: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    row: Row,
}

impl Job {
    pub(crate) fn run(&self, root: &Path) -> Result<String> {
        let path = root.join(SCOREBOARD);
        let mut scoreboard = Scoreboard::default();
        let mut failures = Vec::new();
        for part in
            PARTS.iter().filter(|part| self.parts.is_empty() || self.parts.iter().any(|p| p == part.name))
        {
            progress(&format!("measuring: {}", part.name))?;
            let mut rows = Vec::new();
            if let Err(failure) = part.measure(root, &mut rows, &mut failures) {
                failures.push(format!("{}: {failure:#}", part.name));
                continue;
            }
            let rows = rows.into_iter().map(|row| Entry { row }).collect();
            scoreboard.parts.push(Measured { name: part.name, machine: Machine::read(), rows });
            fs::write(&path, serde_json::to_string_pretty(&scoreboard)?)
                .with_context(|| format!("cannot write {}", path.display()))?;
            // After each part: a run that is ended early has published what it measured.
            if self.publish {
                page::write(root, &scoreboard)?;
            }
        }
        ensure!(failures.is_empty(), "{}", failures.join("\n"));
        Ok(String::new())
    }
}

impl Part {
    /// Runs every program, also after one that fails. What was measured before a failure is kept.
    fn measure(&self, root: &Path, rows: &mut Vec<Row>, failures: &mut Vec<String>) -> Result<()> {
        let missing: Vec<&str> =
            self.needs.iter().copied().filter(|program| !is_installed(program)).collect();
        ensure!(missing.is_empty(), "this needs {}; install it and try again", missing.join(" and "));
        if self.name == "service" {
            install_peers_of_the_service(root)?;
        }
        for program in self.programs {
            progress(&format!("  {program}"))?;
            if let Err(failure) = run(root, program, rows) {
                failures.push(format!("{}: {failure:#}", self.name));
            }
        }
        Ok(())
    }
}

/// Runs one program, passes its output on, and keeps its rows.
fn run(root: &Path, name: &str, rows: &mut Vec<Row>) -> Result<()> {
    let mut command = if name.ends_with(".py") { Command::new("python3") } else { cargo() };
    // Without a package, all benchmarks share one build of everything.
    if name.ends_with(".py") {
        command.arg(name);
    } else if name.contains("::") {
        command.args(TESTS_THAT_MEASURE).args([name, "--ignored", "--nocapture"]);
        // The server of an installation syncs.
        command.env("INFERSTORE_TEST_FSYNC", "on");
    } else {
        command.args(["bench", "--quiet", "--bench", name]);
    }
    command.env(ROWS_VARIABLE, "json").stdout(Stdio::piped());
    command.current_dir(absolute(&root.join("."))?);
    let mut process = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let before = rows.len();
    for line in BufReader::new(process.stdout.take().context("the program has no output")?).lines() {
        let line = line.with_context(|| format!("cannot read the output of {name}"))?;
        match line.strip_prefix(ROW_MARK) {
            None => progress(&format!("    {line}"))?,
            Some(json) => {
                rows.push(
                    serde_json::from_str(json).with_context(|| format!("{name} wrote no row: {json}"))?,
                );
            }
        }
    }
    let status = process.wait().context("cannot wait for the program")?;
    ensure!(status.success(), "{name} failed, see above");
    ensure!(rows.len() > before, "{name} measured nothing");
    Ok(())
}

/// Installs what the service is measured beside, once.
fn install_peers_of_the_service(root: &Path) -> Result<()> {
    Tools::install(root, &PRISM)?;
    let folder = root.join("target/tools").join(format!("s3s-fs-{S3S_FS}"));
    if !folder.join("bin/s3s-fs").exists() {
        progress(&format!("  installing s3s-fs {S3S_FS}; this takes some minutes, once"))?;
        let mut cargo = cargo();
        cargo.args(["install", "s3s-fs", "--quiet", "--locked", "--features", "binary", "--version", S3S_FS]);
        must("Rust", cargo.arg("--root").arg(absolute(&folder)?))?;
    }
    Ok(())
}

/// Measuring takes minutes.
fn progress(line: &str) -> Result<()> {
    writeln!(io::stderr(), "{line}").context("cannot write to standard error")
}
