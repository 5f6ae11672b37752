//! The work that every client does, and what is measured of it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::consumer::Consumer;
use super::controls::Controls;
use crate::service::Service;

/// Models that take one file as `input`, and how long each computes. The first is also what runs are
/// counted on.
const MODELS: [(&str, Duration); 5] = [
    ("color-extraction", Duration::ZERO),
    ("background-removal", Duration::from_millis(700)),
    ("face-mesh", Duration::from_millis(1_700)),
    ("image-to-anime", Duration::from_millis(3_100)),
    ("video-edge-map", Duration::from_millis(5_300)),
];

/// Runs of which something is counted.
const RUNS: u32 = 5;

/// The sizes of the two tiers: the largest file that is sent by PUT, and the largest that is sent as a
/// form.
const PUT: u64 = 104_857_600;
const FORM: u64 = 5_242_880;

/// What one client came to; a list has a figure for each round.
#[derive(Default)]
pub(super) struct Figures {
    /// Seconds, on average of the models, that a run took longer than its model.
    pub(super) late: Vec<f64>,
    pub(super) requests: Vec<f64>,
    /// Milliseconds on a processor for a run.
    pub(super) processor: Vec<f64>,
    pub(super) put: Uploads,
    pub(super) form: Uploads,
    /// Of [`RUNS`] whose create was carried out and not answered.
    pub(super) creates_lost: Vec<f64>,
    /// How many tasks such a run made and paid.
    pub(super) tasks_a_run: Vec<f64>,
    /// Of [`RUNS`] in which one read of the task was dropped.
    pub(super) reads_dropped: Vec<f64>,
}

/// Uploads of one size.
#[derive(Default)]
pub(super) struct Uploads {
    /// MB a second.
    pub(super) speed: Vec<f64>,
    /// The most memory of the process, in MB.
    pub(super) memory: Vec<f64>,
}

/// A service with models that succeed without computing, and files to send to it.
pub(super) struct Stage {
    service: Service,
    controls: Controls,
    put: PathBuf,
    form: PathBuf,
    /// Every run has an input of its own, so that no two can be taken for each other.
    runs: u32,
}

impl Stage {
    pub(super) fn set(service: Service, work: &Path) -> Result<Self> {
        let controls = Controls::of(&service)?;
        for (model, length) in MODELS {
            controls.let_succeed(model, length)?;
        }
        let file = |name: &str, size: u64| {
            let path = std::path::absolute(work.join(name))?;
            File::create(&path).and_then(|file| file.set_len(size)).context("cannot make a file to send")?;
            Ok::<_, anyhow::Error>(path)
        };
        Ok(Self { put: file("put.mp4", PUT)?, form: file("form.mp4", FORM)?, service, controls, runs: 0 })
    }

    /// One round of everything.
    pub(super) fn measure(&mut self, client: impl Fn() -> Command, figures: &mut Figures) -> Result<()> {
        let start = || Consumer::start(self.service.told_to(&mut client()));
        let mut consumers = (0..MODELS.len()).map(|_| start()).collect::<Result<Vec<_>>>()?;
        let mut consumer = start()?;
        for (size, path, uploads) in
            [(PUT, &self.put, &mut figures.put), (FORM, &self.form, &mut figures.form)]
        {
            let mut consumer = start()?;
            let seconds = consumer.succeeds(&format!("upload {}", path.display()))?;
            uploads.speed.push(f64::from(u32::try_from(size)?) / 1e6 / seconds);
            uploads.memory.push(consumer.most_megabytes()?);
        }
        self.waits(&mut consumers, figures)?;
        self.counts(&mut consumer, figures)
    }

    /// A run on every model at once, each in a process of its own.
    fn waits(&mut self, consumers: &mut [Consumer], figures: &mut Figures) -> Result<()> {
        self.controls.requests()?;
        let works: Vec<_> = MODELS.iter().map(|(model, length)| (self.run_of(model), *length)).collect();
        let late: Vec<f64> = thread::scope(|scope| {
            let runs: Vec<_> = consumers
                .iter_mut()
                .zip(&works)
                .map(|(consumer, (work, length))| {
                    scope.spawn(move || Ok(consumer.succeeds(work)? - length.as_secs_f64()))
                })
                .collect();
            let ended = runs.into_iter().map(|run| run.join().map_err(|_| anyhow!("a run panicked"))?);
            ended.collect::<Result<_>>()
        })?;
        let runs = f64::from(u32::try_from(late.len())?);
        figures.late.push(late.iter().sum::<f64>() / runs);
        figures.requests.push(f64::from(self.controls.requests()?) / runs);
        Ok(())
    }

    /// Runs of which the processor is measured, and runs that meet a fault.
    fn counts(&mut self, consumer: &mut Consumer, figures: &mut Figures) -> Result<()> {
        let (model, _) = MODELS[0];
        // The first one opens connections and loads what is loaded late.
        consumer.succeeds(&self.run_of(model))?;
        let before = consumer.processor_seconds()?;
        for _ in 0..RUNS {
            consumer.succeeds(&self.run_of(model))?;
        }
        let milliseconds = (consumer.processor_seconds()? - before) * 1_000.0;
        figures.processor.push(milliseconds / f64::from(RUNS));

        let tasks = self.controls.tasks()?;
        figures.creates_lost.push(self.under(consumer, "createTask", "lose_response")?);
        let tasks = u32::try_from(self.controls.tasks()? - tasks)?;
        figures.tasks_a_run.push(f64::from(tasks) / f64::from(RUNS));
        figures.reads_dropped.push(self.under(consumer, "getTask", "hang_up")?);
        Ok(())
    }

    /// How many runs give their result although each meets a fault once.
    fn under(&mut self, consumer: &mut Consumer, operation: &str, effect: &str) -> Result<f64> {
        let mut results = 0.0;
        for _ in 0..RUNS {
            self.controls.add_fault(operation, effect)?;
            if consumer.done(&self.run_of(MODELS[0].0))?.is_ok {
                results += 1.0;
            }
        }
        Ok(results)
    }

    fn run_of(&mut self, model: &str) -> String {
        self.runs += 1;
        format!("run {model} https://host.example/{}.png", self.runs)
    }
}
