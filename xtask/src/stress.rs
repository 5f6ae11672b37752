//! `cargo xtask stress`: tries hard what `cargo test` tries a little: faults, kills, attacks, load and random input.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};

use crate::fuzz;
use inferstore_contract::process_group::{self, End};
use inferstore_contract::tools::{absolute, cargo, cargo_has};

/// The variable that makes the tests try hard, and holds the seed of their random numbers.
const SEED: &str = "INFERSTORE_STRESS_SEED";

/// Number of cases that proptest tries for each property. `cargo test` tries 256, the default of proptest.
const CASES: u32 = 20_000;

const TRIED: &str = "tried: ";

const PROPERTIES: &str = "properties";

/// The part that needs engines, which `.ci/cluster` starts; it runs only when it is named.
const CLUSTER: &str = "cluster";

/// The modules of this file are the other parts, but for the helpers.
const MODULES: &str = "tests/it/stress/mod.rs";
const HELPERS: [&str; 4] = ["intensity", "process", "raw", "stored"];

/// Try hard, under faults, kills, attacks and load, what `cargo test` tries a little; then fuzz.
#[derive(clap::Args)]
pub(crate) struct Job {
    /// A part, or a part and the beginning of a test, such as creates::with. Without one, all parts:
    /// the modules of tests/it/stress, and `properties`. The part `cluster` starts PostgreSQL, an object store and
    /// haproxy, and runs only when it is named.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Repeats a run; without it, every run begins with another one.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Ends the run after this time, with all its processes.
    #[arg(long, value_name = "N", default_value_t = 60)]
    minutes: u64,
}

impl Job {
    pub(crate) fn run(&self, root: &Path) -> Result<String> {
        // Building takes minutes: an unknown name is reported before.
        let modules = fs::read_to_string(root.join(MODULES)).context("cannot read the parts")?;
        let parts = parts(&modules);
        for name in &self.names {
            let part = name.split("::").next().unwrap_or_default();
            let known = parts.join(", ");
            ensure!(parts.contains(&part), "stress has no part {part}; there are {known}");
            ensure!(part != CLUSTER || name == CLUSTER, "the part {CLUSTER} runs as a whole");
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
        let seed = self.seed.unwrap_or(now.as_secs());
        let until = Instant::now() + Duration::from_secs(60 * self.minutes);
        say(&format!("seed {seed}; at most {} minutes\n", self.minutes))?;
        let all = [String::new()];
        let names = if self.names.is_empty() { &all[..] } else { &self.names };
        for name in names.iter().filter(|name| *name != PROPERTIES) {
            let mut command = match &**name {
                CLUSTER => {
                    let mut engines = Command::new(".ci/cluster");
                    engines.arg("stress");
                    engines
                }
                _ => tests(&["--package", "inferstore-tests", "--test", "it"], &format!("stress::{name}")),
            };
            self.test(root, seed, until, &mut command, name)?;
        }
        if self.names.is_empty() || self.names.iter().any(|name| name == PROPERTIES) {
            let mut command = tests(&["--workspace", "--lib", "--tests"], PROPERTIES);
            self.test(root, seed, until, &mut command, PROPERTIES)?;
        }
        if self.names.is_empty() && cargo_has("fuzz") {
            fuzz::Job { targets: Vec::new(), seconds: 60, seed, keep: false }.run(root)?;
        } else if self.names.is_empty() {
            say("nothing was fuzzed: there is no cargo-fuzz here\n")?;
        }
        Ok(format!("all of it holds, with seed {seed}\n"))
    }

    fn test(&self, root: &Path, seed: u64, until: Instant, command: &mut Command, name: &str) -> Result<()> {
        command.env(SEED, seed.to_string());
        command.env("PROPTEST_CASES", CASES.to_string()).env("PROPTEST_RNG_SEED", seed.to_string());
        command.current_dir(absolute(&root.join("."))?);
        let output = Mutex::new(String::new());
        let began = Instant::now();
        let end = process_group::run(command, until, |line| {
            if line.starts_with("test ") || line.contains(TRIED) {
                let _ = say(&format!("{:>5} s  {line}\n", began.elapsed().as_secs()));
            }
            if let Ok(mut output) = output.lock() {
                output.push_str(line);
                output.push('\n');
            }
        })?;
        let output = output.into_inner().unwrap_or_default();
        let again = format!("again with `cargo xtask stress {name} --seed {seed}`");
        match end {
            End::Exited(status) if !status.success() => bail!("{output}\nstress {name} fails; {again}"),
            End::Exited(_) if passed(&output) == 0 => bail!("no test is called {name}"),
            End::Exited(_) => Ok(()),
            End::TimedOut => bail!("{output}\nnot done in {} minutes; {again}", self.minutes),
        }
    }
}

fn tests(which: &[&str], name: &str) -> Command {
    let mut command = cargo();
    command.arg("test").args(which).args(["--", name, "--nocapture", "--test-threads", "1"]);
    command
}

fn parts(modules: &str) -> Vec<&str> {
    let modules = modules.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    modules.filter(|module| !HELPERS.contains(module)).chain([PROPERTIES]).collect()
}

fn passed(output: &str) -> u64 {
    let summaries = output.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    summaries.filter_map(|summary| summary.split_once(" passed")?.0.parse::<u64>().ok()).sum()
}

fn say(text: &str) -> Result<()> {
    io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

#[cfg(test)]
mod tests {
    use super::passed;

    #[test]
    fn a_name_that_no_test_has_is_told_from_tests_that_pass() {
        let summary = |passed| {
            format!(
                "running 1 test\ntest result: ok. {passed} passed; 0 failed; 1 ignored; 0 measured; 9 filtered out\n"
            )
        };
        assert_eq!(passed(&summary(0)), 0);
        assert_eq!(passed(&(summary(0) + "test stress::a ... ok\n" + &summary(12) + &summary(3))), 15);
    }
}
