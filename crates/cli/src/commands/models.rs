//! `inferstore models`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use futures_util::StreamExt;
use futures_util::stream;
use inferstore::types::{
    self, Descriptor, DescriptorType, ModelFilter, ModelListRequest, ModelSort, ModelSummary,
};
use inferstore::{Client, Decimal, Error, by_position, nearest};
use tokio::time::sleep;

use crate::complete;
use crate::failure::{Failure, Result};
use crate::lists;
use crate::output::Report;
use crate::recorded::with_json;
use crate::schema;
use crate::settings::Session;
use crate::table::{Cell, Fit, Table};
use crate::time;

const SERVING_TIMEOUT: Duration = Duration::from_millis(500);

const MAX_CONCURRENT_READS: usize = 8;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the models of the catalog
    #[command(visible_alias = "ls")]
    List(ListArguments),
    /// Show a model, and what it takes and returns, in words
    #[command(after_help = "Examples:\n  inferstore models show haze-removal")]
    Show(OneModel),
    /// Show the types of what a model takes and returns, with samples
    #[command(after_help = "Examples:\n  inferstore models schema color-harmonization")]
    Schema(OneModel),
    /// Show what one run of a model costs
    #[command(after_help = "Examples:\n  inferstore models cost haze-removal --format quiet")]
    Cost(OneModel),
    /// Show whether a model can be run now
    #[command(after_help = "Examples:\n  inferstore models serving haze-removal")]
    Serving(OneModel),
    /// Write Rust types for what a model takes and returns
    #[command(
        after_help = "Examples:\n  inferstore models code color-harmonization > src/color_harmonization.rs"
    )]
    Code(OneModel),
}

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListArguments {
    /// Only models with this text in their name or description
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// The order
    #[arg(long, value_name = "ORDER", value_parser = PossibleValuesParser::new(ModelSort::ALL.iter().map(ModelSort::as_str)).try_map(|word| word.parse::<ModelSort>()))]
    sort: Option<ModelSort>,
    /// A selection of models
    #[arg(long, value_name = "WHICH", value_parser = PossibleValuesParser::new(ModelFilter::ALL.iter().map(ModelFilter::as_str)).try_map(|word| word.parse::<ModelFilter>()))]
    filter: Option<ModelFilter>,
    /// Number of models to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Number of models to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
    /// Show all models, page after page
    #[arg(long)]
    all: bool,
}

const LIST_EXAMPLES: &str = "\
Examples:
  inferstore models list --search enhancement
  inferstore models list --sort trending --limit 5
  inferstore models list --filter official --all --format jsonl";

#[derive(Debug, Args)]
pub(crate) struct OneModel {
    /// The identifier of the model
    #[arg(value_name = "MODEL", add = complete::models())]
    id: String,
}

pub(crate) async fn execute(command: Command, session: &Session) -> Result {
    let client = &session.client()?;
    let (report, id) = match command {
        Command::List(arguments) => return list(arguments, client, session).await,
        Command::Code(OneModel { id }) => return code(&id, client, session).await,
        Command::Show(OneModel { id }) => (show(&id, client).await, id),
        Command::Schema(OneModel { id }) => (declared(&id, client).await, id),
        Command::Cost(OneModel { id }) => (cost(&id, client).await, id),
        Command::Serving(OneModel { id }) => (serving(&id, client).await, id),
    };
    match report {
        Ok(report) => session.output.report(&report),
        Err(error) => Err(explained(error, &id, client).await),
    }
}

/// The failure of a call about a model, with the nearest model if there is none of that name.
pub(crate) async fn explained(error: Error, id: &str, client: &Client) -> Failure {
    if !error.is_not_found() {
        return error.into();
    }
    let known = lists::first_models(client).await.unwrap_or_default();
    let names = known.iter().flat_map(|model| [Some(model.id.as_str()), model.name.as_deref()]);
    let nearest = nearest(id, names.flatten());
    let is_nearest = |model: &&ModelSummary| {
        nearest.is_some_and(|near| model.id.as_str() == near || model.name.as_deref() == Some(near))
    };
    let suggestion = known.iter().find(is_nearest).map(|model| format!("did you mean `{}`? ", model.id));
    let suggestion = suggestion.unwrap_or_default();
    Failure::from(error).with_hint(format!("{suggestion}`inferstore models list` shows the models"))
}

pub(crate) async fn check_exists(id: &str, client: &Client) -> Result {
    match client.model(id).get().await {
        Err(error) if error.is_not_found() => Err(explained(error, id, client).await),
        _ => Ok(()),
    }
}

pub(crate) fn files(format: Option<&BTreeMap<String, Descriptor>>) -> Vec<String> {
    let is_file = |(_, descriptor): &(_, &Descriptor)| descriptor.type_ == Some(DescriptorType::File);
    by_position(format).into_iter().filter(is_file).map(|(name, _)| name.clone()).collect()
}

async fn list(arguments: ListArguments, client: &Client, session: &Session) -> Result {
    let ListArguments { search, sort, filter: filter_by, limit, offset, all } = arguments;
    let query = ModelListRequest { search, sort, filter_by, ..Default::default() };
    let page = |offset, size| {
        client.models_page(ModelListRequest { offset: Some(offset), limit: Some(size), ..query.clone() })
    };
    let limit = if all { u64::MAX } else { u64::from(limit) };
    let listed = lists::range(offset, limit, page).await?;
    let models: Vec<&ModelSummary> = listed.records.iter().map(|(model, _)| model).collect();
    let serving =
        if session.output.is_terminal() { serving_of(&models, client).await } else { BTreeMap::new() };
    let mut columns = vec![("ID", Fit::Keep), ("PRICE", Fit::Keep)];
    columns.extend((!serving.is_empty()).then_some(("SERVED", Fit::Keep)));
    columns.extend([("OWNER", Fit::Drop(1)), ("DESCRIPTION", Fit::Shorten)]);
    let cells = |model: &ModelSummary| {
        let mut cells = vec![Cell::from(model.id.as_str()), Cell::from(amount(model.price.as_ref()))];
        cells.extend((!serving.is_empty()).then(|| match serving.get(model.id.as_str()) {
            Some(true) => Cell::from("yes"),
            Some(false) => Cell::warning("no"),
            None => Cell::default(),
        }));
        let texts = [&model.username, &model.description];
        cells.extend(texts.map(|text| text.as_deref().unwrap_or_default().into()));
        cells
    };
    session.output.report(&listed.report("records", columns, cells, |model| model.id.to_string()))
}

/// Reads for each model whether nodes serve it, as far as the service responds in time.
async fn serving_of(models: &[&ModelSummary], client: &Client) -> BTreeMap<String, bool> {
    let reads = stream::iter(models).map(|model| async move {
        let serving = client.model(model.id.as_str()).serving().await.ok()?.serving?;
        Some((model.id.to_string(), serving))
    });
    // The list only becomes clearer by it, so it does not wait long.
    let reads = reads.buffer_unordered(MAX_CONCURRENT_READS).take_until(sleep(SERVING_TIMEOUT));
    reads.filter_map(std::future::ready).collect().await
}

async fn show(id: &str, client: &Client) -> Result<Report, Error> {
    let (model, json) = with_json(client.model(id).get()).await?;
    // The record says enough without the declaration.
    let version = client.model(id).versioning().await.ok();
    let metadata = model.model_metadata.unwrap_or_default();
    let text = |text: Option<String>| text.map(Cell::from);
    let word = |flag: Option<bool>| flag.map(|flag| Cell::from(if flag { "yes" } else { "no" }));
    let mut table = Table::of_fields([
        ("id", Some(Cell::from(model.id.as_str()))),
        ("name", text(model.name)),
        ("title", text(metadata.pretty_name)),
        ("description", text(model.description)),
        ("owner", text(model.username)),
        ("price", text(model.price.map(|price| price.to_string()))),
        ("official", word(model.is_official)),
        ("verified", word(model.is_verified)),
        ("visibility", text(model.visibility.map(|word| word.to_string()))),
        ("task", text(metadata.task)),
        ("license", text(metadata.license)),
        ("library", text(metadata.library.map(|words| words.join(", ")))),
        ("created", time::stamp(model.created_at.as_ref())),
        ("updated", time::stamp(model.updated_at.as_ref())),
    ]);
    for (name, words) in version.iter().flat_map(schema::explained) {
        table.add([Cell::from(name), Cell::from(words)]);
    }
    Ok(Report::of_one(table, json, model.id.to_string()).of_type::<types::ModelDetail>())
}

pub(crate) async fn versioning(id: &str, client: &Client) -> Result<types::ModelVersioning> {
    match client.model(id).versioning().await {
        Ok(version) => Ok(version),
        Err(error) => Err(explained(error, id, client).await),
    }
}

async fn declared(id: &str, client: &Client) -> Result<Report, Error> {
    let (version, json) = with_json(client.model(id).versioning()).await?;
    let report = Report {
        table: schema::table(&version),
        below: vec![String::new(), schema::example(id, &version)],
        json,
        quiet: version.commit_hash.into_iter().collect(),
        ..Report::default()
    };
    Ok(report.of_type::<types::ModelVersioning>())
}

async fn cost(id: &str, client: &Client) -> Result<Report, Error> {
    let (cost, json) = with_json(client.model(id).cost()).await?;
    let table = Table::of_fields([
        ("cost", Some(amount(cost.cost.as_ref()))),
        ("symbol", cost.symbol.clone()),
        ("unit", cost.unit.clone()),
    ]);
    Ok(Report::of_one(table, json, amount(cost.cost.as_ref())).of_type::<types::TaskCost>())
}

async fn serving(id: &str, client: &Client) -> Result<Report, Error> {
    let (serving, json) = with_json(client.model(id).serving()).await?;
    let word = if serving.serving == Some(true) { "yes" } else { "no" };
    let waiting = serving.consumers.map(|count| count.to_string());
    let table = Table::of_fields([("serving", Some(word.to_owned())), ("consumers", waiting)]);
    Ok(Report::of_one(table, json, word).of_type::<types::ServingStatus>())
}

async fn code(id: &str, client: &Client, session: &Session) -> Result {
    let version = versioning(id, client).await?;
    let code = crate::codegen::module(&version).map_err(|problem| {
        Failure::new(crate::exit::FAILED, format!("no types can be written for {id}: {problem}"))
            .with_hint("the model runs without types: `inferstore run`, or Inputs in the client")
    })?;
    if session.output.is_json() {
        return session.output.data(serde_json::json!({"model_id": id, "rust": code}).to_string());
    }
    session.output.bytes(code.as_bytes())
}

fn amount(amount: Option<&Decimal>) -> String {
    amount.map(ToString::to_string).unwrap_or_default()
}
