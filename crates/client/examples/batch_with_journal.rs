//! Runs a model on every picture of a folder, and pays for each once, whenever the program is killed.
//!
//! The journal has one line of JSON for each step of a picture: prepared, started, ended. Started again,
//! the program continues where the journal ends, also with tasks that it could not read to their end.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its results")]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use futures_util::{StreamExt, stream};
use inferstore::types::TaskId;
use inferstore::{Client, Decimal, Error, Inputs, PreparedRun};
use serde::{Deserialize, Serialize};

/// The last step of a picture.
#[derive(Serialize, Deserialize)]
enum Step {
    Prepared(PreparedRun),
    Started(TaskId),
    Ended(Decimal),
    Failed(String),
}

/// The last step of each picture, and the file in which all steps are noted.
struct Journal(BTreeMap<PathBuf, Step>, File);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cost = run(Client::from_env()?, "pictures".as_ref(), "outputs".as_ref()).await?;
    println!("the batch cost {cost}");
    Ok(())
}

pub(crate) async fn run(
    client: Client,
    pictures: &Path,
    outputs: &Path,
) -> Result<Decimal, Box<dyn std::error::Error>> {
    let mut journal = Journal::open(&outputs.join("journal.jsonl"))?;
    let mut tasks = client.tasks().wait_all([""; 0]);
    let mut pictures_by_task = BTreeMap::new();
    let mut prepared = Vec::new();
    for (picture, step) in &journal.0 {
        match step {
            Step::Prepared(run) => prepared.push((picture.clone(), run.clone())),
            Step::Started(task) => {
                client.tasks().claim([task.clone()]);
                tasks.add(task.clone());
                pictures_by_task.insert(task.clone(), picture.clone());
            }
            _ => {}
        }
    }

    let all = std::fs::read_dir(pictures)?.collect::<Result<Vec<_>, _>>()?;
    let mut new: Vec<PathBuf> = all.into_iter().map(|file| file.path()).collect();
    new.retain(|picture| !journal.0.contains_key(picture));
    let new = stream::iter(new).map(|picture| {
        let run = client.model("haze-removal").prepare(Inputs::new().file("input_image", &picture));
        async move { (picture, run.await) }
    });
    let prepared = stream::iter(prepared).map(|(picture, run)| (picture, Ok(run)));
    // Few are uploaded before their tasks are created.
    let mut runs = prepared.chain(new.buffer_unordered(8));
    while let Some((picture, run)) = runs.next().await {
        let run = run?;
        journal.note(&picture, Step::Prepared(run.clone()))?;
        let task = client.adopt_or_start(run).await?.id().clone();
        journal.note(&picture, Step::Started(task.clone()))?;
        tasks.add(task.clone());
        pictures_by_task.insert(task, picture);
    }

    let mut unread = None;
    while let Some((task, result)) = tasks.next().await {
        let picture = &pictures_by_task[&task];
        let step = match result {
            Ok(outcome) => {
                let name = picture.file_name().unwrap_or_default().to_string_lossy();
                outcome.download("output_image")?.overwrite(true).to_dir(outputs, name).await?;
                Step::Ended(outcome.cost.unwrap_or_default())
            }
            Err(error @ (Error::TaskFailed(_) | Error::TaskCanceled(_))) => Step::Failed(error.to_string()),
            // The task may still succeed, and is paid then: the next start waits for it again.
            Err(error) => {
                eprintln!("{}: {error}", picture.display());
                unread = Some(error);
                continue;
            }
        };
        journal.note(picture, step)?;
    }
    if let Some(error) = unread {
        return Err(error.into());
    }
    let costs =
        journal.0.values().filter_map(|step| if let Step::Ended(cost) = step { Some(cost) } else { None });
    Ok(costs.sum())
}

impl Journal {
    fn open(path: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        std::fs::create_dir_all(path.parent().unwrap_or(path))?;
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // A crash can cut the last line short.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let steps = text[..whole].lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        file.set_len(whole as u64)?;
        Ok(Self(steps, file))
    }

    fn note(&mut self, picture: &PathBuf, step: Step) -> Result<(), Box<dyn std::error::Error>> {
        writeln!(self.1, "{}", serde_json::to_string(&(picture, &step))?)?;
        self.1.sync_data()?;
        self.0.insert(picture.clone(), step);
        Ok(())
    }
}
