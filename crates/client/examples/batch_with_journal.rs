//! Runs a model on every picture of a folder, and pays for each once, whenever the program is killed.
//!
//! The journal has one line of JSON for each step of a picture: prepared, started, ended. Started again,
//! the program continues where the journal ends.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its results")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use futures_util::{StreamExt, stream};
use inferstore::types::TaskId;
use inferstore::{Client, Decimal, Inputs, PreparedRun};
use serde::{Deserialize, Serialize};

const MODEL: &str = "haze-removal";

/// The last step of a picture.
#[derive(Serialize, Deserialize)]
enum Step {
    Prepared(PreparedRun),
    Started(TaskId),
    Ended { cost: Decimal },
    Failed(String),
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::from_env()?;
    let mut journal = Journal::open("journal.jsonl")?;
    let mut pictures: BTreeMap<TaskId, PathBuf> = journal.started().collect();
    client.tasks().claim(pictures.keys().cloned());
    let mut tasks = client.tasks().wait_all(pictures.keys().cloned());

    let folder = std::env::args().nth(1).unwrap_or_else(|| "pictures".to_owned());
    let new: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    let new = new.into_iter().filter(|picture| !journal.0.contains_key(picture));
    let uploads = stream::iter(new.collect::<Vec<_>>()).map(|picture| {
        let prepared = client.model(MODEL).prepare(Inputs::new().file("input_image", &picture));
        async move { (picture, prepared.await) }
    });
    // Those of the last start first: they may have become tasks.
    let mut prepared: Vec<_> = journal.prepared().collect();
    let mut uploads = uploads.buffer_unordered(8);
    while let Some((picture, run)) = uploads.next().await {
        let run = run?;
        journal.note(&picture, Step::Prepared(run.clone()))?;
        prepared.push((picture, run));
    }
    for (picture, run) in prepared {
        let task = client.adopt_or_start(run).await?.id().clone();
        journal.note(&picture, Step::Started(task.clone()))?;
        tasks.add(task.clone());
        pictures.insert(task, picture);
    }

    while let Some((task, result)) = tasks.next().await {
        let Some(picture) = pictures.get(&task) else { continue };
        let name = picture.file_stem().unwrap_or_default().to_string_lossy();
        let step = match result {
            Ok(outcome) => {
                outcome.download("output_image")?.overwrite(true).to_dir("outputs", name).await?;
                Step::Ended { cost: outcome.cost.unwrap_or_default() }
            }
            Err(error) => {
                eprintln!("{name}: {error}");
                Step::Failed(error.to_string())
            }
        };
        journal.note(picture, step)?;
    }
    println!("the batch cost {}", journal.cost());
    Ok(())
}

/// The last step of each picture, and the file in which all steps are noted.
struct Journal(BTreeMap<PathBuf, Step>, File);

impl Journal {
    fn open(path: &str) -> Result<Self, Box<dyn Error>> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // A crash can cut the last line short, and what it says has not happened then.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let steps = text[..whole].lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        file.set_len(whole as u64)?;
        Ok(Self(steps, file))
    }

    fn note(&mut self, picture: &PathBuf, step: Step) -> Result<(), Box<dyn Error>> {
        let line = serde_json::to_string(&(picture, &step))?;
        writeln!(self.1, "{line}")?;
        self.1.sync_data()?;
        self.0.insert(picture.clone(), step);
        Ok(())
    }

    fn prepared(&self) -> impl Iterator<Item = (PathBuf, PreparedRun)> {
        self.0.iter().filter_map(|(picture, step)| match step {
            Step::Prepared(run) => Some((picture.clone(), run.clone())),
            _ => None,
        })
    }

    fn started(&self) -> impl Iterator<Item = (TaskId, PathBuf)> {
        self.0.iter().filter_map(|(picture, step)| match step {
            Step::Started(task) => Some((task.clone(), picture.clone())),
            _ => None,
        })
    }

    fn cost(&self) -> Decimal {
        let costs = self.0.values().filter_map(|step| match step {
            Step::Ended { cost } => Some(cost),
            _ => None,
        });
        costs.sum()
    }
}
