//! Progress: bars on a terminal, plain lines everywhere else.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use inferstore::{DownloadEvent, Error, Events, RunEvent, UploadEvent};
use parking_lot::Mutex;

use crate::output::Output;
use crate::table::printable;
use crate::values::size;

/// Interval at which a spinner turns.
const TURN: Duration = Duration::from_millis(120);

const BAR: &str = "  {prefix:<24} {bar:24} {bytes:>10} of {total_bytes}";
const COUNT: &str = "  {bar:24} {pos} of {len} files {elapsed}";
const SPINNER: &str = "  {prefix:<24} {spinner} {msg}";

pub(crate) async fn watch<E, T>(mut events: Events<E, T>, mut show: impl FnMut(&E)) -> Result<T, Error>
where
    E: Send + 'static,
    T: Send + 'static,
{
    while let Some(event) = events.next().await {
        show(&event);
    }
    events.finish().await
}

pub(crate) struct Progress {
    output: Output,
    bars: Option<MultiProgress>,
    shown: BTreeMap<String, ProgressBar>,
    /// The last plain line about each.
    said: BTreeMap<String, String>,
    /// The bar over all files of a batch.
    total: Option<ProgressBar>,
}

pub(crate) type SharedProgress = Mutex<Progress>;

impl Progress {
    pub(crate) fn shared(output: &Output) -> SharedProgress {
        Mutex::new(Self::new(output))
    }

    pub(crate) fn new(output: &Output) -> Self {
        let bars = output.is_live.then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));
        Self { output: output.clone(), bars, shown: BTreeMap::new(), said: BTreeMap::new(), total: None }
    }

    pub(crate) fn note(&self, line: &str) {
        self.suspend(|| self.output.note(line));
    }

    /// Writes lines that stay, above the bars.
    pub(crate) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        }
    }

    pub(crate) fn count(&mut self, total: usize) {
        if let Some(bar) = &self.total {
            bar.inc_length(total as u64);
        } else if let Some(bars) = &self.bars {
            let bar = bars.add(ProgressBar::new(total as u64).with_style(style(COUNT)));
            bar.enable_steady_tick(TURN);
            self.total = Some(bar);
        }
    }

    pub(crate) fn counted(&mut self, name: &str) {
        if let Some(bar) = self.shown.remove(name) {
            bar.finish_and_clear();
        }
        self.said.remove(name);
        if let Some(total) = &self.total {
            total.inc(1);
        }
    }

    /// Takes the bar of a transfer away. Where there are no bars, a line names the transfer that has succeeded.
    pub(crate) fn done(&mut self, name: &str, verb: Option<&str>) {
        self.counted(name);
        if let Some(verb) = verb.filter(|_| self.bars.is_none()) {
            self.output.note(format!("{verb} {name}"));
        }
    }

    pub(crate) fn run(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Upload { field, event, .. } => self.upload(field, event),
            RunEvent::Created(task) => self.state("task", &format!("{task} created")),
            RunEvent::Status(status) => self.state("task", status.as_str()),
            RunEvent::ReadFailed(problem) => self.state("task", &format!("could not be read: {problem}")),
            _ => {}
        }
    }

    pub(crate) fn status(&mut self, name: &str, event: &RunEvent) {
        if let RunEvent::Status(status) = event {
            self.state(name, status.as_str());
        }
    }

    pub(crate) fn upload(&mut self, name: &str, event: &UploadEvent) {
        match event {
            UploadEvent::Started { size: total, .. } => self.begin(name, *total, "uploading"),
            UploadEvent::Progress { sent, size: total, .. } => self.advance(name, *sent, Some(*total)),
            UploadEvent::Retrying { problem, .. } => self.note(&format!("{name} is sent again: {problem}")),
            _ => {}
        }
    }

    pub(crate) fn download(&mut self, name: &str, event: &DownloadEvent) {
        let DownloadEvent::Progress { received, total, .. } = event else { return };
        if !self.shown.contains_key(name) && self.bars.is_some() {
            self.begin(name, total.unwrap_or(0), "downloading");
        }
        self.advance(name, *received, *total);
    }

    /// The present state of something of unknown length.
    pub(crate) fn state(&mut self, name: &str, state: &str) {
        let state = printable(state);
        let Some(bars) = &self.bars else {
            if self.said.get(name) != Some(&state) {
                self.output.note(format!("{name}: {state}"));
                self.said.insert(name.to_owned(), state);
            }
            return;
        };
        let spinner = self.shown.entry(name.to_owned()).or_insert_with(|| {
            let spinner = ProgressBar::new_spinner().with_style(style(SPINNER));
            let spinner = match &self.total {
                Some(total) => bars.insert_before(total, spinner),
                None => bars.add(spinner),
            };
            spinner.set_prefix(printable(name));
            spinner.enable_steady_tick(TURN);
            spinner
        });
        spinner.set_message(state);
    }

    pub(crate) fn end(&mut self) {
        let bars = std::mem::take(&mut self.shown).into_values().chain(self.total.take());
        bars.for_each(|bar| bar.finish_and_clear());
        self.said.clear();
    }

    fn begin(&mut self, name: &str, total: u64, verb: &str) {
        let Some(bars) = &self.bars else {
            self.output.note(format!("{verb} {name} ({})", size(total)));
            return;
        };
        let bar = bars.add(ProgressBar::new(total).with_style(style(BAR)));
        bar.set_prefix(printable(name));
        self.shown.insert(name.to_owned(), bar);
    }

    fn advance(&mut self, name: &str, done: u64, total: Option<u64>) {
        let Some(bar) = self.shown.get(name) else { return };
        if let Some(total) = total {
            bar.set_length(total);
        }
        bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("█▌ ")
}
