//! `inferstore models`.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use inferstore::types::{ModelFilter, ModelListRequest, ModelSort};
use inferstore::{Client, Decimal};

use crate::codegen;
use crate::failure::{Failure, Result};
use crate::lists;
use crate::output::{Format, Report};
use crate::schema;
use crate::settings::Session;
use crate::table::Table;

/// Look through the catalog, and at one model
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the models of the catalog
    List(ListArguments),
    /// Show a model
    #[command(after_help = "Examples:\n  inferstore models show haze-removal")]
    Show(OneModel),
    /// Show what a model takes and returns, with samples
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

/// List the models of the catalog
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListArguments {
    /// Only models with this text in their name or description
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// The order
    #[arg(long, value_name = "ORDER", value_parser = PossibleValuesParser::new(ModelSort::ALL.iter().map(ModelSort::as_str)))]
    sort: Option<String>,
    /// Which models
    #[arg(long, value_name = "WHICH", value_parser = PossibleValuesParser::new(ModelFilter::ALL.iter().map(ModelFilter::as_str)))]
    filter: Option<String>,
    /// How many models to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// How many models to skip
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

/// One model.
#[derive(Debug, Args)]
pub(crate) struct OneModel {
    /// The identifier of the model
    id: String,
}

pub(crate) async fn execute(command: Command, session: &Session) -> Result {
    let client = &session.client()?;
    match command {
        Command::List(arguments) => list(arguments, client, session).await,
        Command::Show(model) => show(&model.id, client, session).await,
        Command::Schema(model) => declared(&model.id, client, session).await,
        Command::Cost(model) => cost(&model.id, client, session).await,
        Command::Serving(model) => serving(&model.id, client, session).await,
        Command::Code(model) => code(&model.id, client, session).await,
    }
}

async fn list(arguments: ListArguments, client: &Client, session: &Session) -> Result {
    let ListArguments { search, sort, filter, limit, offset, all } = arguments;
    let sort: Option<ModelSort> = sort.and_then(|word| word.parse().ok());
    let filter_by: Option<ModelFilter> = filter.and_then(|word| word.parse().ok());
    let query = ModelListRequest { search, sort, filter_by, limit: Some(limit), offset: Some(offset) };
    let models = client.models();
    let listed = if all {
        let page = |offset, _| models.page(ModelListRequest { offset: Some(offset), ..query.clone() });
        lists::all(session, offset, page).await?
    } else {
        lists::page(session, models.page(query)).await?
    };
    let mut table = Table::new(["ID", "PRICE", "OWNER", "DESCRIPTION"]);
    for (model, _) in &listed.records {
        table.add([
            model.id.to_string(),
            amount(model.price.as_ref()),
            model.username.clone().unwrap_or_default(),
            model.description.clone().unwrap_or_default(),
        ]);
    }
    session.output.report(&listed.report("records", table, |model| model.id.to_string()))
}

async fn show(id: &str, client: &Client, session: &Session) -> Result {
    let model = client.model(id).get().await?;
    let metadata = model.model_metadata.clone().unwrap_or_default();
    let word = |flag: Option<bool>| flag.map(|flag| if flag { "yes" } else { "no" }.to_owned());
    let table = Table::of_fields([
        ("id", Some(model.id.to_string())),
        ("name", model.name.clone()),
        ("title", metadata.pretty_name.clone()),
        ("description", model.description.clone()),
        ("owner", model.username.clone()),
        ("price", Some(amount(model.price.as_ref())).filter(|price| !price.is_empty())),
        ("official", word(model.is_official)),
        ("verified", word(model.is_verified)),
        ("visibility", model.visibility.as_ref().map(ToString::to_string)),
        ("task", metadata.task.clone()),
        ("license", metadata.license.clone()),
        ("library", metadata.library.as_ref().map(|words| words.join(", "))),
        ("created", model.created_at.as_ref().map(|stamp| stamp.as_str().to_owned())),
        ("updated", model.updated_at.as_ref().map(|stamp| stamp.as_str().to_owned())),
    ]);
    session.output.report(&Report::of_one(table, session.payload(), model.id.to_string()))
}

async fn declared(id: &str, client: &Client, session: &Session) -> Result {
    let version = client.model(id).versioning().await?;
    let report = Report {
        table: schema::table(&version),
        below: Some(format!("\n{}", schema::example(id, &version))),
        json: session.payload().map(|payload| payload.to_string()).unwrap_or_default(),
        quiet: version.commit_hash.into_iter().collect(),
        records: None,
    };
    session.output.report(&report)
}

async fn cost(id: &str, client: &Client, session: &Session) -> Result {
    let cost = client.model(id).cost().await?;
    let table = Table::of_fields([
        ("cost", Some(amount(cost.cost.as_ref()))),
        ("symbol", cost.symbol.clone()),
        ("unit", cost.unit.clone()),
    ]);
    session.output.report(&Report::of_one(table, session.payload(), amount(cost.cost.as_ref())))
}

async fn serving(id: &str, client: &Client, session: &Session) -> Result {
    let serving = client.model(id).serving().await?;
    let word = if serving.serving == Some(true) { "yes" } else { "no" };
    let consumers = serving.consumers.map(|count| count.to_string());
    let table = Table::of_fields([("serving", Some(word.to_owned())), ("consumers", consumers)]);
    session.output.report(&Report::of_one(table, session.payload(), word))
}

async fn code(id: &str, client: &Client, session: &Session) -> Result {
    let version = client.model(id).versioning().await?;
    let code = codegen::module(&version).map_err(|problem| {
        Failure::new(crate::exit::FAILED, format!("no types can be written for {id}: {problem}"))
            .with_hint("the model runs without types: `inferstore run`, or Inputs in the client")
    })?;
    match session.output.format {
        Format::Table | Format::Quiet => session.output.bytes(code.as_bytes()),
        Format::Json | Format::Jsonl => {
            session.output.data(serde_json::json!({"model_id": id, "rust": code}).to_string())
        }
    }
}

/// An amount, or nothing.
fn amount(amount: Option<&Decimal>) -> String {
    amount.map(ToString::to_string).unwrap_or_default()
}
