//! `cargo xtask contract`: shows that others can use what is published. Clients of other languages are
//! generated from it and drive a running service through the whole life of a caller, directly and through
//! a proxy that gives every response that the document allows. Schemathesis looks for responses that the
//! document does not describe. The published flows and the curl recipes run as printed.

mod expectations;
mod proxy;
mod results;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::consumers::Consumer;
use crate::document::Document;
use crate::flows::{self, MODEL};
use crate::leash::{self, End};
use crate::service::{Profile, Service, build};
use crate::tools::{Set, Tools, absolute, must};
use expectations::{MODES, unexpected};
use proxy::Proxy;
use results::{Row, page};

const SCHEMATHESIS: Set<'static> = Set { name: "schemathesis", npm: &[], pypi: &["schemathesis==4.32.5"] };

/// Where consumers leave their notes.
const WORK: &str = "target/contract";

/// The result table, as it is kept.
const TABLE: &str = "openapi/generators.md";

/// Money for every run of every consumer.
const SERVE: [&str; 2] = ["--balance", "1000"];

/// How long one run of a program, and one build, may take.
const RUN_TIMEOUT: Duration = Duration::from_secs(120);
const BUILD_TIMEOUT: Duration = Duration::from_secs(1800);

/// How much of the output of a failure is shown.
const SHOWN_LINES: usize = 25;

/// Which consumers are driven.
enum Selection {
    /// Those of `.ci/run`, with everything else that belongs to the contract.
    Ci,
    All,
    Only(String),
}

pub(crate) struct Job<'a> {
    pub(crate) root: &'a Path,
    /// A service that runs already, with the name of the variable that holds its key; without one, the
    /// command of this repository is started.
    pub(crate) running: Option<(String, String)>,
    /// Only generate the clients and compile them.
    pub(crate) prepare: bool,
    /// Write the result table.
    pub(crate) publish: bool,
    selection: Selection,
}

impl<'a> Job<'a> {
    pub(crate) fn read(root: &'a Path, options: &[&str]) -> Result<Self> {
        let mut job = Self { root, running: None, prepare: false, publish: false, selection: Selection::Ci };
        let mut base_url = None;
        let mut key_variable = None;
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let mut value = || options.next().with_context(|| format!("{option} needs a value"));
            match *option {
                "--prepare" => job.prepare = true,
                "--all" => job.selection = Selection::All,
                "--only" => job.selection = Selection::Only((*value()?).to_owned()),
                "--publish" => job.publish = true,
                "--base-url" => base_url = Some((*value()?).to_owned()),
                "--api-key-env" => key_variable = Some((*value()?).to_owned()),
                other => bail!("contract has no option {other}"),
            }
        }
        job.running = match (base_url, key_variable) {
            (Some(base_url), Some(variable)) => Some((base_url, variable)),
            (None, None) => None,
            _ => bail!("--base-url and --api-key-env go together: where the service is, and its key"),
        };
        ensure!(
            !job.publish || (matches!(job.selection, Selection::All) && !job.prepare),
            "--publish goes with --all, since the table holds every consumer"
        );
        Ok(job)
    }

    pub(crate) fn run(&self) -> Result<String> {
        let document = self.published("inferstore.yaml")?;
        let consumers = self.consumers()?;
        let service = if self.prepare { None } else { Some(self.service()?) };
        let mut rows = Vec::new();
        for consumer in &consumers {
            let row = self.prove(consumer, &document, service.as_ref())?;
            // A run of all takes minutes.
            writeln!(io::stderr(), "{}", row.line()).context("cannot write to standard error")?;
            rows.push(row);
        }
        let failures: Vec<String> = rows.iter().flat_map(Row::failures).collect();
        ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
        let mut report = format!("{} generated clients: every column is as it must be\n", rows.len());
        if self.publish {
            let version = Document::load(&document)?.value["info"]["version"].clone();
            let table = page(&rows, version.as_str().unwrap_or_default());
            fs::write(self.root.join(TABLE), table).with_context(|| format!("cannot write {TABLE}"))?;
            report.push_str(&format!("{TABLE} written\n"));
        }
        if let (Selection::Ci, Some(service)) = (&self.selection, &service) {
            self.compare(&rows)?;
            report.push_str(&self.schemathesis(&document, service)?);
            report.push_str(&flows::run(self.root, service)?);
        }
        Ok(report)
    }

    /// The selected consumers. All their programs must be installed.
    fn consumers(&self) -> Result<Vec<Consumer>> {
        let consumers = match &self.selection {
            Selection::Only(id) => vec![Consumer::named(self.root, id)?],
            Selection::All => Consumer::all(self.root)?,
            Selection::Ci => Consumer::all(self.root)?.into_iter().filter(|consumer| consumer.ci).collect(),
        };
        let missing: Vec<String> = consumers
            .iter()
            .flat_map(|consumer| {
                let name = &consumer.name;
                consumer.missing().map(move |(program, package)| format!("{name}: {program} ({package})"))
            })
            .collect();
        ensure!(
            missing.is_empty(),
            "programs are missing; install the Debian packages in parentheses\n  {}",
            missing.join("\n  ")
        );
        Ok(consumers)
    }

    fn service(&self) -> Result<Service> {
        match &self.running {
            Some((base_url, variable)) => Service::that_runs(base_url, variable),
            None => {
                build(Profile::Debug, &["--package", "inferstore-cli"])?;
                Service::start(Profile::Debug, &SERVE)
            }
        }
    }

    /// Generates and compiles a client, and drives the service with it in every mode.
    fn prove(&self, consumer: &Consumer, document: &Path, service: Option<&Service>) -> Result<Row> {
        let mut row = Row::new(consumer);
        if let Some(used) = &consumer.uses {
            Consumer::named(self.root, used)?.built(self.root, document, &[])?;
        }
        let workspace = consumer.workspace(self.root, document, &[])?;
        let proxy = service.map(|service| Proxy::start(self.root, service)).transpose()?;
        let mut is_built = true;
        for (column, lines) in [("generate", consumer.generate.as_ref()), ("build", Some(&consumer.build))] {
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
            service.told_to(&mut command).env("MODEL", MODEL).env("MODE", mode);
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

    /// The kept table must hold the rows as they are.
    fn compare(&self, rows: &[Row]) -> Result<()> {
        let kept =
            fs::read_to_string(self.root.join(TABLE)).with_context(|| format!("cannot read {TABLE}"))?;
        for row in rows {
            let line = row.line();
            ensure!(
                kept.lines().any(|kept| kept == line),
                "{TABLE} lacks this row; write it with `cargo xtask contract --all --publish`\n{line}"
            );
        }
        Ok(())
    }

    fn published(&self, name: &str) -> Result<PathBuf> {
        let path = absolute(&self.root.join("target/publish").join(name))?;
        ensure!(path.is_file(), "{} is not there; run `cargo xtask publish` first", path.display());
        Ok(path)
    }

    fn schemathesis(&self, document: &Path, service: &Service) -> Result<String> {
        let tools = Tools::install(self.root, &SCHEMATHESIS)?;
        let mut command = tools.python("schemathesis")?;
        command.arg("--config-file").arg(absolute(&self.root.join("tests/contract/schemathesis.toml"))?);
        command.arg("run").arg(document).args(["--url", &service.base_url]);
        // It leaves notes where it is run.
        command.current_dir(self.folder("schemathesis")?);
        driven("Schemathesis", &mut command, service)
    }

    /// A folder to work in.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = absolute(&self.root.join(WORK).join(name))?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }
}

/// Runs a consumer; the report keeps one line of what it says when all is well.
fn driven(name: &str, command: &mut Command, service: &Service) -> Result<String> {
    must(name, service.told_to(command.env("MODEL", MODEL)))?;
    Ok(format!("{name}: the service keeps its promises\n"))
}

/// The output of a command, line by line; or the end of it when the command fails.
fn lines_of(command: &Command, timeout: Duration) -> Result<Result<Vec<String>, String>> {
    let lines = Mutex::new(Vec::new());
    let on_line = |line: &str| {
        if let Ok(mut lines) = lines.lock() {
            lines.push(line.to_owned());
        }
    };
    let end = leash::run(command, Instant::now() + timeout, on_line)?;
    let lines = lines.into_inner().unwrap_or_default();
    let failure = match end {
        End::Itself(status) if status.success() => return Ok(Ok(lines)),
        End::Itself(status) => status.to_string(),
        End::Stopped => format!("no end after {} s", timeout.as_secs()),
    };
    let shown = lines.len().saturating_sub(SHOWN_LINES);
    Ok(Err(format!("{failure}\n{}", lines[shown..].join("\n"))))
}

/// The last line that is a JSON object.
fn last_object(lines: &[String]) -> Result<Value, String> {
    let objects = lines.iter().rev().filter(|line| line.starts_with('{'));
    let mut values = objects.filter_map(|line| serde_json::from_str(line).ok());
    values.next().ok_or_else(|| format!("no line of JSON in the output\n{}", lines.join("\n")))
}
