//! `cargo xtask torture`: tries hard what `cargo test` tries a little. Faults, kills, attacks, load and
//! random input, from a seed that is printed, so that a run can be repeated.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{io, thread};

use anyhow::{Context, Result, bail, ensure};

use crate::fuzz;
use crate::tools::cargo_has;

/// What tells the tests to try hard, and from where.
const SEED: &str = "INFERSTORE_TORTURE_SEED";

/// How many cases each property is tried with. `cargo test` takes the 256 that proptest takes.
const CASES: u32 = 20_000;

/// How long each fuzz target runs.
const FUZZED_FOR: Duration = Duration::from_secs(60);

/// How a test says what it tried.
const TRIED: &str = "tried: ";

pub(crate) struct Job<'a> {
    root: &'a Path,
    seed: u64,
    minutes: u64,
    /// Parts of the names of tests; all when empty.
    names: Vec<String>,
}

impl<'a> Job<'a> {
    pub(crate) fn read(root: &'a Path, options: &[&str]) -> Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
        let mut job = Self { root, seed: now.as_secs(), minutes: 60, names: Vec::new() };
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let mut number = || {
                let text = options.next().with_context(|| format!("{option} needs a number"))?;
                text.parse().with_context(|| format!("{option} needs a number, not {text:?}"))
            };
            match *option {
                "--seed" => job.seed = number()?,
                "--minutes" => job.minutes = number()?,
                flag if flag.starts_with('-') => bail!("torture has no option {flag}"),
                name => job.names.push(name.to_owned()),
            }
        }
        Ok(job)
    }

    pub(crate) fn run(&self) -> Result<String> {
        let until = Instant::now() + Duration::from_secs(60 * self.minutes);
        self.say(&format!("seed {}; at most {} minutes\n", self.seed, self.minutes))?;
        let mut tried = self.tests(&["--package", "inferstore-tests", "--test", "it"], "torture::", until)?;
        if self.names.is_empty() {
            tried.extend(self.tests(&["--workspace", "--lib", "--tests"], "properties", until)?);
        }
        if self.names.is_empty() {
            self.fuzz()?;
        }
        ensure!(!tried.is_empty(), "no test is called {}", self.names.join(" or "));
        Ok(format!("all of it holds, with seed {}\n", self.seed))
    }

    /// Runs the tests below a module, one after the other, and shows what they tried.
    fn tests(&self, which: &[&str], module: &str, until: Instant) -> Result<Vec<String>> {
        let mut command = Command::new("cargo");
        command.args(["test", "--quiet"]).args(which).arg("--");
        if self.names.is_empty() {
            command.arg(module);
        }
        command.args(self.names.iter().map(|name| format!("{module}{name}")));
        command.args(["--nocapture", "--test-threads", "1"]);
        command.env(SEED, self.seed.to_string());
        command.env("PROPTEST_CASES", CASES.to_string()).env("PROPTEST_RNG_SEED", self.seed.to_string());
        if self.root != Path::new("") {
            command.current_dir(self.root);
        }
        let mut tests = command.stdout(Stdio::piped()).spawn().context("cannot run cargo")?;
        let lines = BufReader::new(tests.stdout.take().context("cargo has no output")?).lines();
        let reader = thread::spawn(move || show(lines));
        let status = loop {
            if let Some(status) = tests.try_wait().context("cannot wait for cargo")? {
                break status;
            }
            if Instant::now() > until {
                // It may have ended by itself.
                let _ = tests.kill();
                bail!(
                    "not done in {} minutes, with seed {}; --minutes gives it more",
                    self.minutes,
                    self.seed
                );
            }
            thread::sleep(Duration::from_millis(100));
        };
        let tried = reader.join().ok().context("the output of cargo cannot be read")??;
        ensure!(status.success(), "something does not hold; try again with --seed {}", self.seed);
        Ok(tried)
    }

    /// Invents bytes for everything that reads foreign ones, where there is the tool for it.
    fn fuzz(&self) -> Result<()> {
        if !cargo_has("fuzz") {
            return self.say(&format!("nothing was fuzzed: {}\n", fuzz::INSTALL));
        }
        let time = FUZZED_FOR;
        let job = fuzz::Job { root: self.root, targets: Vec::new(), time, seed: self.seed, keep: false };
        job.run().map(drop)
    }

    fn say(&self, text: &str) -> Result<()> {
        io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
    }
}

/// Passes on what tests say that they tried.
fn show(lines: impl Iterator<Item = io::Result<String>>) -> Result<Vec<String>> {
    let mut tried = Vec::new();
    for line in lines {
        let line = line.context("cannot read what cargo says")?;
        // libtest writes a dot for a test that passed, and no end of line.
        if let Some((_, what)) = line.split_once(TRIED) {
            writeln!(io::stdout(), "{what}").context("cannot write to standard output")?;
            tried.push(what.to_owned());
        }
    }
    Ok(tried)
}
