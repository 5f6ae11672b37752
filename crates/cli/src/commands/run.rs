//! `inferstore run`.

mod interrupt;
mod outputs;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use inferstore::types::UploadFolder;
use inferstore::{Client, Decimal, Error, File, Inputs, PollInterval, ViolationKind};
use serde_json::value::RawValue;

use super::api;
use super::files::before_or_after;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::output::{Format, Report};
use crate::progress::Progress;
use crate::schema;
use crate::settings::Session;
use crate::table::Table;
use crate::values::{self, Given, Input};
use interrupt::Interrupts;

/// Run a model and wait for its output
///
/// Inputs are checked against what the model declares before anything is sent; files are uploaded on
/// the way. The task is created at most once. Ctrl-C detaches: the task goes on, and its identifier is
/// printed; a second Ctrl-C cancels it if it is still in the queue. When a task stays in the queue for 10
/// minutes because no node serves the model, the run ends as at a deadline.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The identifier of the model
    model: String,
    /// An input: name=value, or name=@path for a file to upload; a value that begins with @ is written
    /// @@…
    #[arg(short, long = "input", value_name = "NAME=VALUE")]
    input: Vec<Input>,
    /// Inputs as a JSON object, from a file or from standard input for -; -i comes before it
    #[arg(long, value_name = "FILE|-")]
    input_json: Option<String>,
    /// Download the outputs into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<std::path::PathBuf>,
    /// Show the output picture in the terminal
    #[arg(long)]
    show: bool,
    /// End within this time, such as 90s, 5m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    deadline: Option<Duration>,
    /// Cancel the task at the deadline if it is still in the queue
    #[arg(long, requires = "deadline")]
    cancel_at_deadline: bool,
    /// How often the task is read: adaptive, fast (every 2 to 5 seconds), long (every 10 to 30 seconds),
    /// or every so many seconds
    #[arg(long, value_name = "INTERVAL", default_value = "adaptive", value_parser = values::poll_interval)]
    poll: PollInterval,
    /// Send the inputs as they are, without checking them against what the model declares
    #[arg(long)]
    no_check: bool,
    /// Also send inputs that the model does not declare
    #[arg(long)]
    allow_undeclared: bool,
    /// Refuse to run when it costs more
    #[arg(long, value_name = "AMOUNT", value_parser = values::amount)]
    max_cost: Option<Decimal>,
    /// Refuse to run when no node serves the model now
    #[arg(long)]
    require_serving: bool,
    /// Create the task, print its identifier, and do not wait
    #[arg(long, conflicts_with_all = ["out", "show"])]
    detach: bool,
    /// Check everything, print what would be sent, and create nothing
    #[arg(long, conflicts_with = "detach")]
    dry_run: bool,
    /// Cancel the task at the first Ctrl-C if it is still in the queue
    #[arg(long)]
    cancel_on_interrupt: bool,
    /// Upload files among the inputs into this folder
    #[arg(long, value_name = "FOLDER", default_value = "samples", value_parser = PossibleValuesParser::new(UploadFolder::ALL.iter().map(UploadFolder::as_str)))]
    folder: String,
    /// Upload files for this organization, with a key of personal scope
    #[arg(long, value_name = "USERNAME")]
    org: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  inferstore run haze-removal -i input_image=@street.jpg --out .
  inferstore run color-harmonization -i input_image=@a.png -i template=v_shape -i angle=30 --dry-run
  inferstore run haze-removal -i input_image=URL --deadline 5m --max-cost 0.10
  inferstore run haze-removal --input-json inputs.json --detach --format quiet";

/// What is run, and how.
struct Run {
    client: Client,
    arguments: Arguments,
    inputs: Inputs,
    /// The inputs that are files, by name.
    files: BTreeMap<String, String>,
}

pub(crate) async fn execute(arguments: Arguments, mut session: Session) -> Result {
    let (inputs, files) = inputs(&arguments, &mut session)?;
    let run = Run { client: session.client()?, arguments, inputs, files };
    let is_asking = run.arguments.input.is_empty() && run.arguments.input_json.is_none();
    if is_asking && session.environment.stdin_is_terminal && run.wants(&session).await? {
        return Err(Failure::new(exit::INPUT, "the model wants inputs; no task was created")
            .with_hint("give them with -i name=value, or -i name=@path for a file"));
    }
    if run.arguments.dry_run {
        run.dry(&session).await
    } else if run.arguments.detach {
        run.detached(&session).await
    } else {
        run.followed(&session).await
    }
}

/// The inputs of the command line over those of a JSON object.
fn inputs(arguments: &Arguments, session: &mut Session) -> Result<(Inputs, BTreeMap<String, String>)> {
    let mut inputs = Inputs::new();
    if let Some(path) = &arguments.input_json {
        let text = api::text_of(path, session)?;
        let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&text)
            .map_err(|error| api::not_read(format!("{path} is no JSON object: {error}")))?;
        for (name, value) in fields {
            inputs = inputs.set(name, value);
        }
    }
    let mut files = BTreeMap::new();
    for Input { name, value } in &arguments.input {
        inputs = match value {
            Given::Text(text) => inputs.set(name, text),
            Given::File(path) => {
                files.insert(name.clone(), path.clone());
                inputs.file(name, File::path(session.environment.folder.join(path)))
            }
        };
    }
    Ok((inputs, files))
}

impl Run {
    fn run(&self) -> inferstore::Run {
        let arguments = &self.arguments;
        let run = self.client.model(&arguments.model).run(self.inputs.clone());
        let run = run
            .deadline(arguments.deadline)
            .cancel_at_deadline(arguments.cancel_at_deadline)
            .poll(arguments.poll.clone())
            .skip_validation(arguments.no_check)
            .allow_undeclared(arguments.allow_undeclared)
            .require_serving(arguments.require_serving)
            .upload_folder(arguments.folder.parse().unwrap_or(UploadFolder::Samples))
            .org_username(arguments.org.clone());
        match &arguments.max_cost {
            Some(max_cost) => run.max_cost(max_cost.clone()),
            None => run,
        }
    }

    /// Shows what the model wants, if it cannot be run without inputs.
    async fn wants(&self, session: &Session) -> Result<bool> {
        match self.run().check().await {
            Ok(_) => return Ok(false),
            Err(Error::Inputs(_)) => self.show_wants(session).await?,
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    async fn show_wants(&self, session: &Session) -> Result {
        let id = &self.arguments.model;
        let version = self.client.model(id).versioning().await?;
        session.output.note(session.output.drawn(&schema::table(&version)));
        session.output.note(format!("\n{}\n", schema::example(id, &version)));
        Ok(())
    }

    /// The failure, after what the model wants if something was missing.
    async fn told(&self, failure: Failure, is_missing: bool, session: &Session) -> Failure {
        if is_missing && session.output.is_live {
            // The failure is told either way.
            let _ = self.show_wants(session).await;
        }
        failure
    }

    async fn dry(&self, session: &Session) -> Result {
        let model = self.client.model(&self.arguments.model);
        let values = match self.run().check().await {
            Ok(values) => values,
            Err(error) => {
                let is_missing = is_missing(&error);
                return Err(self.told(before_or_after(error, false), is_missing, session).await);
            }
        };
        let cost = model.cost().await?.cost;
        let mut table = Table::of_fields([
            ("model", Some(model.id().to_owned())),
            ("cost", cost.as_ref().map(ToString::to_string)),
        ]);
        let mut fields: BTreeMap<&str, String> = BTreeMap::new();
        for (name, value) in &values {
            fields.insert(name, value.to_string());
        }
        for (name, path) in &self.files {
            fields.insert(name, serde_json::Value::from(format!("@{path}")).to_string());
        }
        let members: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{}:{value}", serde_json::Value::from(*name)))
            .collect();
        for (name, value) in fields {
            table.add([format!("in {name}"), value]);
        }
        let quote = session.payload().map_or_else(|| "null".to_owned(), |quote| quote.to_string());
        let id = serde_json::Value::from(model.id());
        let json = format!(r#"{{"model":{id},"input":{{{}}},"cost":{quote}}}"#, members.join(","));
        session.output.note("nothing was uploaded, and no task was created");
        session.output.report(&Report { table, json, ..Report::default() })
    }

    async fn detached(self, session: &Session) -> Result {
        let task = match self.run().start().await {
            Ok(task) => task,
            Err(error) => {
                let is_missing = is_missing(&error);
                return Err(self.told(before_or_after(error, false), is_missing, session).await);
            }
        };
        // A task that was found in the history is not in the response to a create.
        let id = task.id().as_str();
        let response = session.payload().map(|payload| payload.to_string()).filter(|payload| {
            serde_json::from_str::<serde_json::Value>(payload).is_ok_and(|data| data["data"] == id)
        });
        let json = response.unwrap_or_else(|| serde_json::json!({"data": id}).to_string());
        session.output.note(format!("pick it up with: inferstore task wait {id}"));
        let table = Table::of_fields([("task", Some(id.to_owned()))]);
        session.output.report(&Report { table, json, quiet: vec![id.to_owned()], ..Report::default() })
    }

    async fn followed(self, session: &Session) -> Result {
        let mut events = self.run().events();
        let mut progress = Progress::new(&session.output);
        let mut interrupts = Interrupts::new(self.arguments.cancel_on_interrupt);
        loop {
            let event = tokio::select! {
                biased;
                () = interrupts.next() => {
                    progress.end();
                    interrupts.handle(&self.client, session).await?;
                    continue;
                }
                event = events.next() => event,
            };
            let Some(event) = event else { break };
            interrupts.see(&event);
            progress.run(&event);
            if interrupts.is_detaching() {
                progress.end();
                interrupts.detach(&self.client, session).await?;
            }
        }
        progress.end();
        match events.finish().await {
            Ok(outcome) => outputs::deliver(&self.arguments, &outcome, session.payload(), session).await,
            Err(error) => {
                let is_missing = is_missing(&error);
                let failure = before_or_after(error, interrupts.has_begun());
                Err(self.told(failure, is_missing, session).await)
            }
        }
    }
}

/// Whether a required input was not given.
fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Inputs(invalid) if invalid.has(ViolationKind::Missing))
}

/// What people read when outputs were downloaded.
fn with_paths(mut report: Report, paths: &[(String, String)], format: Format) -> Report {
    for (name, path) in paths {
        report.table.add([format!("{name} in"), path.clone()]);
    }
    if format == Format::Quiet && !paths.is_empty() {
        report.quiet = paths.iter().map(|(_, path)| path.clone()).collect();
    }
    report
}
