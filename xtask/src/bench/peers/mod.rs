//! The same work done by clients that one would use instead of ours, against one service: runs, uploads,
//! and runs in which something is lost on the way.

mod consumer;
mod controls;
mod work;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::row::{Better, Row};
use crate::consumers::Consumer;
use crate::service::{Profile, Service, build, built};
use crate::tools::{Set, Tools, absolute};
use work::{Figures, Stage};

/// What is published is this file, byte for byte.
const DOCUMENT: &str = "openapi/inferstore.yaml";
const WORK: &str = "target/bench/peers";
const ROUNDS: usize = 3;

const SDK_STYLE: Set<'static> = Set { name: "sdk-style", npm: &[], pypi: &["requests==2.32.5"] };

/// The service and our client.
const BUILD: [&str; 8] = [
    "--package",
    "inferstore-cli",
    "--bin",
    "inferstore",
    "--package",
    "inferstore-tests",
    "--example",
    "ours",
];

/// Money for every run, a port for the controls, and as many tasks side by side as there are runs.
const SERVE: [&str; 6] = ["--balance", "1000", "--controls-port", "0", "--workers", "8"];

/// What each client is measured by.
struct Metric {
    what: &'static str,
    unit: &'static str,
    better: Better,
    figures: fn(&Figures) -> &[f64],
    /// Why ours is behind where it is, and what would change it.
    behind: &'static str,
}

const METRICS: [Metric; 10] = [
    Metric {
        what: "a run, beyond the time of its model (0 to 5.3 s)",
        unit: "s",
        better: Better::Lower,
        figures: |figures| &figures.late,
        behind: "ours looks soon at first and then less and less often, which is some tenths of a second later \
                 for tasks of these lengths, and saves requests on long ones; `Pace::Between` looks as often as \
                 one likes",
    },
    Metric {
        what: "requests for such a run",
        unit: "requests",
        better: Better::Lower,
        figures: |figures| &figures.requests,
        behind: "ours reads once what the model declares, and refuses inputs that do not fit; `skip_check` \
                 leaves that out",
    },
    Metric {
        what: "time on a processor for a run",
        unit: "ms",
        better: Better::Lower,
        figures: |figures| &figures.processor,
        behind: "ours reads the task more often at first, so as to see the end of a short one early",
    },
    Metric {
        what: "an upload of 100 MiB, as a PUT",
        unit: "MB/s",
        better: Better::Higher,
        figures: |figures| &figures.put.speed,
        behind: "the service decides how fast it takes the bytes; ours sends them from a file piece by piece",
    },
    Metric {
        what: "memory of the process that sends it",
        unit: "MB",
        better: Better::Lower,
        figures: |figures| &figures.put.memory,
        behind: "",
    },
    Metric {
        what: "an upload of 5 MiB, as a form",
        unit: "MB/s",
        better: Better::Higher,
        figures: |figures| &figures.form.speed,
        behind: "the service decides how fast it takes the bytes; ours sends them from a file piece by piece",
    },
    Metric {
        what: "memory of the process that sends the form",
        unit: "MB",
        better: Better::Lower,
        figures: |figures| &figures.form.memory,
        behind: "",
    },
    Metric {
        what: "results of 5 runs whose create was not answered",
        unit: "results",
        better: Better::Higher,
        figures: |figures| &figures.creates_lost,
        behind: "",
    },
    Metric {
        what: "tasks that such a run makes and pays",
        unit: "tasks",
        better: Better::Lower,
        figures: |figures| &figures.tasks_a_run,
        behind: "",
    },
    Metric {
        what: "results of 5 runs in which a read of the task was dropped",
        unit: "results",
        better: Better::Higher,
        figures: |figures| &figures.reads_dropped,
        behind: "",
    },
];

/// A client: how it is called, and how it is started.
struct Client {
    name: &'static str,
    command: Box<dyn Fn() -> Command>,
    figures: Figures,
}

pub(super) fn peers(root: &Path, rows: &mut Vec<Row>) -> Result<()> {
    let work = root.join(WORK);
    fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    build(Profile::Release, &BUILD)?;
    let mut clients = clients(root)?;
    let mut stage = Stage::set(Service::start(Profile::Release, &SERVE)?, &work)?;
    for _ in 0..ROUNDS {
        for client in &mut clients {
            stage
                .measure(&client.command, &mut client.figures)
                .with_context(|| format!("measuring {}", client.name))?;
        }
    }
    let Some((ours, theirs)) = clients.split_first() else { return Ok(()) };
    rows.extend(theirs.iter().flat_map(|peer| METRICS.iter().map(|metric| row(metric, ours, peer))));
    Ok(())
}

/// Ours, and then the others.
fn clients(root: &Path) -> Result<Vec<Client>> {
    let ours = built(Profile::Release, "examples/ours")?;
    let document = absolute(&root.join(DOCUMENT))?;
    let python = Consumer::named(root, "python")?.built(root, &document, &["tests/peers/generated.py"])?;
    let typescript =
        Consumer::named(root, "typescript")?.built(root, &document, &["tests/peers/generated.mts"])?;
    let interpreter = absolute(Tools::install(root, &SDK_STYLE)?.python("python")?.get_program().as_ref())?;
    let sdk_style = absolute(&root.join("tests/peers/sdk_style.py"))?;
    let client = |name, command| Client { name, command, figures: Figures::default() };
    Ok(vec![
        client("inferstore", Box::new(move || Command::new(&ours))),
        client("openapi-python-client 0.29.1", Box::new(move || python.command("exec python generated.py"))),
        client("openapi-fetch 0.17.0", Box::new(move || typescript.command("exec node generated.mjs"))),
        client(
            "requests 2.32.5, in the manner of SDKs",
            Box::new(move || {
                let mut command = Command::new(&interpreter);
                command.arg(&sdk_style);
                command
            }),
        ),
    ])
}

fn row(metric: &Metric, ours: &Client, peer: &Client) -> Row {
    let figures = |client: &Client| (metric.figures)(&client.figures).to_vec();
    let mut row = Row {
        group: "peers".to_owned(),
        what: metric.what.to_owned(),
        against: peer.name.to_owned(),
        unit: metric.unit.to_owned(),
        better: metric.better,
        ours: figures(ours),
        theirs: figures(peer),
        bar: None,
        note: None,
        command: "cargo xtask bench peers".to_owned(),
    };
    if row.is_behind() {
        row.note = Some(metric.behind.to_owned()).filter(|note| !note.is_empty());
    }
    row
}
