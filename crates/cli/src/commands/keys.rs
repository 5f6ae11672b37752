//! `inferstore keys`.

use clap::Subcommand;
use inferstore::types::{CreatedKey, KeyId, KeyPage, KeyRecord, NewKeyRequest};
use inferstore::{Client, Decimal, Error, Timestamp};

use crate::complete;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::lists;
use crate::output::Report;
use crate::recorded::with_json;
use crate::settings::Session;
use crate::table::{Fit, Table};
use crate::time;
use crate::values::amount;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the keys, the newest first: all valid ones, and the latest of the others; of a key, only its identifier is known
    #[command(
        after_help = "Examples:\n  inferstore keys list\n  inferstore keys list --format json --jq .can_manage"
    )]
    List,
    /// Create a key, and print it; this is the one time it is shown
    #[command(after_help = EXAMPLES)]
    Create {
        /// The name, which no other valid key of the account has
        #[arg(long, value_name = "TEXT")]
        name: String,
        /// The last day in UTC, or the time from which the key is refused; a key without it does not expire
        #[arg(long, value_name = "DAY|TIME")]
        expires: Option<String>,
        /// Largest sum of the prices of the tasks that the key creates on a day of UTC
        #[arg(long, value_name = "AMOUNT", value_parser = amount)]
        daily_limit: Option<Decimal>,
        /// A model that the key creates tasks of; may be repeated. Any model without it
        #[arg(long = "model", value_name = "MODEL", add = complete::models())]
        models: Vec<String>,
    },
    /// Revoke another key of the account, for good
    #[command(after_help = "Examples:\n  inferstore keys revoke q3v9k2m8x0ab")]
    Revoke {
        /// The identifier of the key, which `inferstore keys list` shows
        #[arg(value_name = "KEY", value_parser = identifier)]
        key: KeyId,
    },
}

const EXAMPLES: &str = "\
Examples:
  inferstore keys create --name laptop > laptop.key
  inferstore keys create --name nightly --daily-limit 2.50 --model haze-removal --expires 2099-12-31";

/// The identifier of a key, alone or in `isk_IDENTIFIER_…`.
fn identifier(text: &str) -> Result<KeyId, &'static str> {
    let id = text.strip_prefix("isk_").unwrap_or(text).split('_').next().filter(|id| !id.is_empty());
    id.map(KeyId::from).ok_or("it is the part of a key behind isk_")
}

pub(crate) async fn execute(command: Command, session: &Session) -> Result {
    let client = session.client()?;
    match command {
        Command::List => {
            let (page, json) = with_json(client.keys().list()).await?;
            session.output.report(&list(&page, json))
        }
        Command::Create { name, expires, daily_limit, models } => {
            let is_day = |text: &str| text.len() == 10;
            let end = |text: String| if is_day(&text) { format!("{text}T23:59:59Z") } else { text };
            let models: Vec<_> = models.into_iter().map(Into::into).collect();
            let new = NewKeyRequest {
                expires_at: expires.map(|text| end(text).into()),
                daily_limit,
                models: Some(models).filter(|models| !models.is_empty()),
                ..NewKeyRequest::new(name)
            };
            let created = with_json(client.keys().create(new)).await;
            let (created, json) = permitted(created, &client).await?;
            let key = created.key.expose().to_owned();
            let report = Report { below: vec![key.clone()], json, quiet: vec![key], ..Report::default() };
            let reported = session.output.report_key(&report.of_type::<CreatedKey>());
            let id = created.id;
            let hint = format!("the key {id} is created; if it was not shown: inferstore keys revoke {id}");
            reported.map_err(|failure| failure.with_hint(hint.clone()))?;
            if session.output.is_closed() {
                return Err(Failure::new(exit::FAILED, "standard output is closed").with_hint(hint));
            }
            session.note(format!("the key {id} is created; this is the one time it is shown"));
            Ok(())
        }
        Command::Revoke { key } => {
            permitted(client.keys().revoke(key.clone()).await, &client).await?;
            session.note(format!("the key {key} is revoked"));
            let quiet = vec![key.to_string()];
            let json = serde_json::json!({ "revoked": key }).to_string();
            session.output.report_done(&Report { json, quiet, ..Report::default() })
        }
    }
}

/// Adds what to try when the service refuses that this key makes or revokes keys.
async fn permitted<T>(outcome: Result<T, Error>, client: &Client) -> Result<T> {
    let error = match outcome {
        Err(error) if error.context().and_then(|context| context.status) == Some(403) => error,
        outcome => return Ok(outcome?),
    };
    // A key with rules manages no keys on any service.
    let keys = client.keys().list().await.ok().and_then(|page| page.records).unwrap_or_default();
    let current = keys.iter().find(|key| key.is_current == Some(true));
    let has_rules =
        |key: &KeyRecord| key.expires_at.is_some() || key.daily_limit.is_some() || key.models.is_some();
    let hint = if current.is_some_and(has_rules) {
        "`inferstore login` stores another key of the account, one without rules"
    } else {
        "accounts manage their keys after `inferstore serve --owners-manage-keys yes`; the operator can always use \
         `inferstore admin key`"
    };
    Err(Failure::from(error).with_hint(hint))
}

fn list(page: &KeyPage, json: String) -> Report {
    let mut table = Table::new([
        ("KEY", Fit::Keep),
        ("NAME", Fit::Shorten),
        ("CREATED", Fit::Drop(4)),
        ("EXPIRES", Fit::Drop(3)),
        ("DAILY LIMIT", Fit::Drop(2)),
        ("MODELS", Fit::Drop(1)),
        ("REVOKED", Fit::Drop(5)),
    ]);
    let keys = page.records.as_deref().unwrap_or_default();
    let stamp =
        |stamp: Option<&Timestamp>| stamp.map(|stamp| stamp.as_str().to_owned()).unwrap_or_default().into();
    for key in keys {
        let name = key.name.clone().unwrap_or_default();
        let models: Vec<_> = key.models.iter().flatten().map(ToString::to_string).collect();
        let current = if key.is_current == Some(true) { " (this key)" } else { "" };
        table.add([
            key.id.to_string().into(),
            format!("{name}{current}").trim().into(),
            time::age(key.created_at.as_ref()),
            stamp(key.expires_at.as_ref()),
            key.daily_limit.as_ref().map(ToString::to_string).unwrap_or_default().into(),
            models.join(", ").into(),
            time::age(key.revoked_at.as_ref()),
        ]);
    }
    let quiet = keys.iter().map(|key| key.id.to_string()).collect();
    let records = Some(lists::records(&json));
    Report { table, json, records, quiet, ..Report::default() }.of_type::<KeyRecord>()
}
