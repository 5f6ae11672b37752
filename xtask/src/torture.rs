//! `cargo xtask torture`: tries hard what `cargo test` tries a little. Faults, kills, attacks, load and
//! random input, from a seed that is printed, so that a run can be repeated.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};

use crate::fuzz;
use crate::leash::{self, End};
use crate::tools::{cargo, cargo_has};

/// What tells the tests to try hard, and from where.
const SEED: &str = "INFERSTORE_TORTURE_SEED";

/// How many cases each property is tried with. `cargo test` takes the 256 that proptest takes.
const CASES: u32 = 20_000;

/// How long each fuzz target runs.
const FUZZED_FOR: Duration = Duration::from_secs(60);

/// How a test says what it tried.
const TRIED: &str = "tried: ";

/// The part that is no module: properties of all crates, with many random cases.
const PROPERTIES: &str = "properties";

/// The modules of this file are the other parts.
const MODULES: &str = "tests/it/torture/mod.rs";

/// Modules there that hold no tests.
const HELPERS: [&str; 2] = ["effort", "stored"];

const USAGE: &str = "\
cargo xtask torture [NAME]... [--seed N] [--minutes N]

  NAME         a part, or a part and the beginning of a test: creates, creates::with; all without one
  --seed N     repeats a run; without it, every run begins with another one
  --minutes N  ends the run after so long, with everything that it has started; 60 without it

The tests run one at a time, the quickest of the last run first.
";

pub(crate) struct Job<'a> {
    root: &'a Path,
    seed: u64,
    minutes: u64,
    names: Vec<String>,
    help: bool,
    until: Instant,
    /// How many seconds each test took when it last passed.
    seconds: RefCell<BTreeMap<String, u64>>,
}

impl<'a> Job<'a> {
    pub(crate) fn read(root: &'a Path, options: &[&str]) -> Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
        let (mut seed, mut minutes, mut names, mut help) = (now.as_secs(), 60, Vec::new(), false);
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let mut number = || {
                let text = options.next().with_context(|| format!("{option} needs a number"))?;
                text.parse().with_context(|| format!("{option} needs a number, not {text:?}"))
            };
            match *option {
                "--seed" => seed = number()?,
                "--minutes" => minutes = number()?,
                "--help" | "-h" => help = true,
                flag if flag.starts_with('-') => bail!("torture has no option {flag}\n\n{USAGE}"),
                name => names.push(name.to_owned()),
            }
        }
        let until = Instant::now() + Duration::from_secs(60 * minutes);
        let seconds = RefCell::new(remembered(&memory(root)));
        Ok(Self { root, seed, minutes, names, help, until, seconds })
    }

    pub(crate) fn run(&self) -> Result<String> {
        let parts = parts(&fs::read_to_string(self.root.join(MODULES)).context("cannot read the parts")?);
        if self.help {
            return Ok(format!("{USAGE}Parts: {}\n", parts.join(", ")));
        }
        // Building takes minutes: what can be told before is told before.
        for name in &self.names {
            let part = name.split("::").next().unwrap_or_default();
            let known = parts.join(", ");
            ensure!(parts.iter().any(|known| known == part), "torture has no part {part}; there are {known}");
        }
        say(&format!("seed {}; at most {} minutes\n", self.seed, self.minutes))?;
        let tests = self.tests()?;
        for test in &tests {
            self.try_hard(test, &["--package", "inferstore-tests", "--test", "it"], &["--exact", test])?;
        }
        if self.names.is_empty() || self.names.iter().any(|name| name == PROPERTIES) {
            self.try_hard(PROPERTIES, &["--workspace", "--lib", "--tests"], &[PROPERTIES])?;
        } else {
            ensure!(!tests.is_empty(), "no test is called {}", self.names.join(" or "));
        }
        if self.names.is_empty() {
            self.fuzz()?;
        }
        Ok(format!("all of it holds, with seed {}\n", self.seed))
    }

    /// The names of the tests that are meant, the quickest first.
    fn tests(&self) -> Result<Vec<String>> {
        if self.names == [PROPERTIES] {
            return Ok(Vec::new());
        }
        let which = ["--package", "inferstore-tests", "--test", "it"];
        let (said, passed) = self.cargo(&which, &["--list", "torture::"], |_| {})?;
        ensure!(passed, "the tests cannot be built:\n{said}");
        let is_meant = |test: &str| {
            let name = test.strip_prefix("torture::").unwrap_or(test);
            self.names.is_empty() || self.names.iter().any(|meant| name.starts_with(meant.as_str()))
        };
        let names = said.lines().filter_map(|line| line.strip_suffix(": test"));
        let mut tests: Vec<_> = names.filter(|test| is_meant(test)).map(str::to_owned).collect();
        tests.sort_by_key(|test| self.seconds.borrow().get(test).copied());
        Ok(tests)
    }

    /// Runs a test, shows what it tried, and how long it took. When it fails, all that it said.
    fn try_hard(&self, name: &str, which: &[&str], tests: &[&str]) -> Result<()> {
        let begun = Instant::now();
        say(&format!("{name}\n"))?;
        let arguments = [tests, &["--nocapture", "--test-threads", "1"]].concat();
        let (said, passed) = self.cargo(which, &arguments, |line| {
            // libtest writes a dot or a name before what a test says, and no end of line.
            if let Some((_, what)) = line.split_once(TRIED) {
                let _ = say(&format!("    {what}\n"));
            }
        })?;
        let seconds = begun.elapsed().as_secs();
        ensure!(passed, "{said}\n{name} does not hold; try again with {}", self.again(name));
        say(&format!("    {seconds} s\n"))?;
        self.seconds.borrow_mut().insert(name.to_owned(), seconds);
        remember(&memory(self.root), &self.seconds.borrow())
    }

    /// Runs `cargo test`; what it said, and whether it ended well.
    fn cargo(&self, which: &[&str], tests: &[&str], hear: impl Fn(&str) + Sync) -> Result<(String, bool)> {
        let mut command = cargo();
        command.args(["test", "--quiet"]).args(which).arg("--").args(tests);
        command.env(SEED, self.seed.to_string());
        command.env("PROPTEST_CASES", CASES.to_string()).env("PROPTEST_RNG_SEED", self.seed.to_string());
        if self.root != Path::new("") {
            command.current_dir(self.root);
        }
        let said = Mutex::new(String::new());
        let end = leash::run(&command, self.until, |line| {
            hear(line);
            if let Ok(mut said) = said.lock() {
                said.push_str(line);
                said.push('\n');
            }
        })?;
        let said = said.into_inner().ok().context("what cargo says cannot be read")?;
        match end {
            End::Itself(status) => Ok((said, status.success())),
            End::Stopped => bail!(
                "{said}\nnot done in {} minutes; --minutes gives it more. Again with {}",
                self.minutes,
                self.again("")
            ),
        }
    }

    /// Invents bytes for everything that reads foreign ones, where there is the tool for it.
    fn fuzz(&self) -> Result<()> {
        if !cargo_has("fuzz") {
            return say(&format!("nothing was fuzzed: {}\n", fuzz::INSTALL));
        }
        let time = FUZZED_FOR;
        let job = fuzz::Job { root: self.root, targets: Vec::new(), time, seed: self.seed, keep: false };
        job.run().map(drop)
    }

    fn again(&self, name: &str) -> String {
        let name = name.strip_prefix("torture::").unwrap_or(name);
        format!("`cargo xtask torture {name} --seed {}`", self.seed).replace("  ", " ")
    }
}

/// The parts of the torture: the modules that hold tests, and the properties.
fn parts(modules: &str) -> Vec<String> {
    let modules = modules.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    let parts = modules.filter(|module| !HELPERS.contains(module)).chain([PROPERTIES]);
    parts.map(str::to_owned).collect()
}

fn memory(root: &Path) -> PathBuf {
    root.join("target/torture-seconds")
}

fn remembered(file: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let entry =
        |line: &str| line.split_once(' ').and_then(|(s, name)| Some((name.to_owned(), s.parse().ok()?)));
    text.lines().filter_map(entry).collect()
}

fn remember(file: &Path, seconds: &BTreeMap<String, u64>) -> Result<()> {
    let lines: String = seconds.iter().map(|(name, seconds)| format!("{seconds} {name}\n")).collect();
    fs::write(file, lines).with_context(|| format!("cannot write {}", file.display()))
}

fn say(text: &str) -> Result<()> {
    io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}
