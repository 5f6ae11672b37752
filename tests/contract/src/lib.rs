//! `cargo xtask contract`: tests published artifacts from the outside. Generated clients of other languages
//! drive a running service, directly and through a proxy that injects every response that the document
//! allows. Schemathesis searches for undocumented responses. The published flows, curl recipes, examples and
//! collections run as printed. The packages of `sdk` pass their tests.

mod collections;
pub mod consumers;
pub mod examples;
mod expectations;
mod flows;
mod packages;
pub mod process_group;
mod proxy;
mod recipes;
pub mod repository;
mod results;
mod service;
pub mod tools;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use crate::consumers::Consumer;
use crate::flows::MODEL;
use crate::process_group::End;
use crate::service::Service;
use crate::tools::{Set, Tools, absolute, must};
use expectations::{MODES, unexpected};
use packages::PACKAGES;
use proxy::Proxy;
use results::{Row, page};

const SCHEMATHESIS: Set<'static> = Set { name: "schemathesis", npm: &[], pypi: &["schemathesis==4.32.5"] };

const WORK: &str = "target/contract";

const TABLE: &str = "openapi/generators.md";

const SERVE: [&str; 2] = ["--balance", "1000"];

const RUN_TIMEOUT: Duration = Duration::from_secs(120);
const BUILD_TIMEOUT: Duration = Duration::from_secs(1800);

const SHOWN_LINES: usize = 25;

/// Drive the service with clients generated from what is published: those of CI, with the published flows,
/// the curl recipes, the examples, the collections, Schemathesis and the tests of the packages in sdk.
#[derive(clap::Args)]
pub struct Job {
    /// Every client instead.
    #[arg(long, conflicts_with = "only")]
    all: bool,
    /// One client instead: a folder of tests/contract, openapi/examples, collections, sdk/python or
    /// sdk/typescript.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Only generate the clients and compile them.
    #[arg(long)]
    prepare: bool,
    /// Write openapi/generators.md, the table of the results of every client.
    #[arg(long, requires = "all", conflicts_with = "prepare")]
    publish: bool,
}

impl Job {
    /// Drives the chosen clients and returns the report.
    pub fn run(&self, root: &Path) -> Result<String> {
        let only = self.only.as_deref();
        if let Some(package) = PACKAGES.iter().find(|package| Some(package.folder) == only) {
            return package.test(root);
        }
        if only == Some(examples::FOLDER) {
            return examples::run(root);
        }
        if only == Some(collections::NAME) {
            return collections::run(root);
        }
        let document = absolute(&root.join("target/publish/inferstore.yaml"))?;
        ensure!(document.is_file(), "{} is not there; run `cargo xtask publish` first", document.display());
        let consumers = self.consumers(root)?;
        let service = if self.prepare { None } else { Some(Service::start(&SERVE)?) };
        let contract = Contract { root, document: &document, service: service.as_ref() };
        let mut rows = Vec::new();
        for consumer in &consumers {
            let row = contract.prove(consumer)?;
            // Reported at once: a run of all takes minutes.
            writeln!(io::stderr(), "{}", row.line()).context("cannot write to standard error")?;
            rows.push(row);
        }
        let failures: Vec<String> = rows.iter().flat_map(Row::failures).collect();
        ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
        let mut report = format!("{} generated clients: every column is as it must be\n", rows.len());
        if self.publish {
            let version = read_document(&document)?["info"]["version"].clone();
            let table = page(&rows, version.as_str().unwrap_or_default());
            fs::write(root.join(TABLE), table).with_context(|| format!("cannot write {TABLE}"))?;
            report.push_str(&format!("{TABLE} written\n"));
        }
        if let Some(service) = service.filter(|_| !self.all && self.only.is_none()) {
            compare(root, &rows)?;
            let published = || {
                let searched = schemathesis(root, &document, &service)?;
                // The samples need another service, because Schemathesis has made a key with their name.
                Ok(searched + &flows::run(root, &Service::start(&SERVE)?)?)
            };
            let programs = || Ok(examples::run(root)? + &collections::run(root)?);
            let [python, typescript] = PACKAGES.each_ref().map(|package| || package.test(root));
            report.extend(side_by_side([&published as &Part<'_, _>, &programs, &python, &typescript])?);
        }
        Ok(report)
    }

    fn consumers(&self, root: &Path) -> Result<Vec<Consumer>> {
        let mut consumers = match &self.only {
            Some(id) => vec![Consumer::named(root, id)?],
            None => Consumer::all(root)?,
        };
        consumers.retain(|consumer| consumer.ci || self.all || self.only.is_some());
        let missing = consumers.iter().flat_map(|consumer| {
            let name = &consumer.name;
            consumer.missing().map(move |(program, package)| format!("\n  {name}: {program} ({package})"))
        });
        let missing: String = missing.collect();
        ensure!(
            missing.is_empty(),
            "programs are missing; install the Debian packages in parentheses{missing}"
        );
        Ok(consumers)
    }
}

fn read_document(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    openapi_impact::parse(path, &text)
}

struct Contract<'a> {
    root: &'a Path,
    document: &'a Path,
    /// `None` if clients are only compiled.
    service: Option<&'a Service>,
}

impl Contract<'_> {
    fn prove(&self, consumer: &Consumer) -> Result<Row> {
        let mut row = Row::new(consumer);
        if let Some(used) = &consumer.uses {
            Consumer::named(self.root, used)?.build(self.root, self.document)?;
        }
        let workspace = consumer.workspace(self.root, self.document)?;
        let service = self.service;
        let proxy = service.map(|service| Proxy::start(self.root, service)).transpose()?;
        let mut is_built = true;
        for (column, lines) in [("generate", consumer.generate.as_ref()), ("build", Some(&consumer.build))] {
            if column == "build" {
                consumer.add_test_packages(self.root, &workspace)?;
            }
            match lines {
                Some(lines) if is_built => {
                    let run = lines_of(&workspace.command(lines), BUILD_TIMEOUT)?;
                    is_built = row.record(consumer, column, run.err());
                }
                _ => row.skip(column),
            }
        }
        let Some((service, proxy)) = service.zip(proxy) else { return Ok(row.skip_modes()) };
        let mut passed = Vec::new();
        for (mode, _) in MODES {
            let applies = consumer.modes.as_ref().is_none_or(|modes| modes.iter().any(|name| name == mode));
            if !is_built || !applies {
                row.skip(mode);
                continue;
            }
            let mut command = workspace.command(&consumer.run);
            service.connect(&mut command).env("MODEL", MODEL).env("MODE", mode);
            if mode != "plain" {
                command.env("BASE_URL", proxy.base_url(service, mode));
            }
            let seen = lines_of(&command, RUN_TIMEOUT)?.and_then(|lines| last_object(&lines));
            let failure = match seen {
                Ok(seen) if consumer.expects.is_none() => unexpected(mode, &seen),
                Ok(seen) if consumer.expects.as_ref() == Some(&seen) => None,
                Ok(seen) => Some(format!("the program returned {seen}")),
                Err(failure) => Some(failure),
            };
            if row.record(consumer, mode, failure) && mode != "plain" {
                passed.push(mode);
            }
        }
        let changes = proxy.stop()?;
        for mode in passed {
            if changes.get(mode).is_none_or(|count| *count == 0) {
                row.fail(mode, "the proxy changed no response");
            }
        }
        Ok(row)
    }
}

type Part<'a, T> = dyn Fn() -> Result<T> + Sync + 'a;

/// Runs the parts at the same time, because each mostly waits for its programs. Returns their results.
fn side_by_side<T: Send, const N: usize>(parts: [&Part<'_, T>; N]) -> Result<Vec<T>> {
    thread::scope(|scope| {
        let threads = parts.map(|part| scope.spawn(part));
        let ended = threads.map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked"))));
        ended.into_iter().collect()
    })
}

fn compare(root: &Path, rows: &[Row]) -> Result<()> {
    let kept = fs::read_to_string(root.join(TABLE)).with_context(|| format!("cannot read {TABLE}"))?;
    for line in rows.iter().map(Row::line) {
        ensure!(
            kept.lines().any(|kept| kept == line),
            "{TABLE} lacks this row; write it with `cargo xtask contract --all --publish`\n{line}"
        );
    }
    Ok(())
}

fn schemathesis(root: &Path, document: &Path, service: &Service) -> Result<String> {
    let folder = absolute(&root.join(WORK).join("schemathesis"))?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut command = Tools::install(root, &SCHEMATHESIS)?.python("schemathesis")?;
    command.arg("--config-file").arg(absolute(&root.join("tests/contract/schemathesis.toml"))?);
    command.arg("run").arg(document).args(["--url", &service.base_url]);
    // Schemathesis writes into the current folder.
    must("Schemathesis", service.connect(command.current_dir(folder)))?;
    Ok("Schemathesis: every response is as the document describes it\n".to_owned())
}

fn lines_of(command: &Command, timeout: Duration) -> Result<Result<Vec<String>, String>> {
    let lines = Mutex::new(Vec::new());
    let on_line = |line: &str| {
        if let Ok(mut lines) = lines.lock() {
            lines.push(line.to_owned());
        }
    };
    let end = process_group::run(command, Instant::now() + timeout, on_line)?;
    let lines = lines.into_inner().unwrap_or_default();
    let failure = match end {
        End::Exited(status) if status.success() => return Ok(Ok(lines)),
        End::Exited(status) => status.to_string(),
        End::TimedOut => format!("no end after {} s", timeout.as_secs()),
    };
    let shown = lines.len().saturating_sub(SHOWN_LINES);
    Ok(Err(format!("{failure}\n{}", lines[shown..].join("\n"))))
}

fn last_object(lines: &[String]) -> Result<Value, String> {
    let objects = lines.iter().rev().filter(|line| line.starts_with('{'));
    let mut values = objects.filter_map(|line| serde_json::from_str(line).ok());
    values.next().ok_or_else(|| format!("no line of JSON in the output\n{}", lines.join("\n")))
}
