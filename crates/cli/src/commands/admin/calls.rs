//! The calls of `inferstore admin`, and what they print.

use inferstore::Timestamp;
use inferstore_service::AdminClient;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Account, Adjustment, Command, File, Key, Member, Model, Node, Page, Quota, Task};
use crate::commands::api::{not_read, text_of};
use crate::exit;
use crate::failure::{Failure, Result};
use crate::output::Report;
use crate::settings::Session;
use crate::table::{Cell, Column, Fit, Table};
use crate::time;

/// The most records of a list.
const MAX_PAGE: u32 = 1_000;

/// The columns of a list: the heading, and the field of the records.
type Columns = &'static [(&'static str, &'static str)];

const ACCOUNTS: Columns = &[
    ("ACCOUNT", "account"),
    ("SCOPE", "scope"),
    ("STATE", "state"),
    ("BALANCE", "balance"),
    ("FREE", "free_balance"),
    ("DEBT", "debt"),
    ("EARNINGS", "earnings"),
];
/// The fields of an account, in the order of `admin account show`.
const ACCOUNT: Columns = &[
    ("account", "account"),
    ("scope", "scope"),
    ("state", "state"),
    ("balance", "balance"),
    ("free credits", "free_balance"),
    ("reserved", "held"),
    ("debt", "debt"),
    ("earnings", "earnings"),
];
const MEMBERS: Columns = &[("MEMBER", "member")];
const KEYS: Columns = &[
    ("KEY", "key"),
    ("NAME", "name"),
    ("CREATED", "created_at"),
    ("EXPIRES", "expires_at"),
    ("DAILY LIMIT", "daily_limit"),
    ("MODELS", "models"),
    ("REVOKED", "revoked_at"),
];
const ACTIONS: Columns = &[("AT", "at"), ("REQUEST", "request"), ("BODY", "body"), ("STATUS", "status")];
const MOVEMENTS: Columns = &[
    ("AT", "at"),
    ("REASON", "reason"),
    ("AMOUNT", "amount"),
    ("FROM", "from"),
    ("TO", "to"),
    ("REFERENCE", "reference"),
    ("NOTE", "note"),
];
const MODELS: Columns = &[
    ("MODEL", "model"),
    ("PUBLISHER", "publisher"),
    ("PRICE", "price"),
    ("VISIBILITY", "visibility"),
    ("STATE", "state"),
    ("VERIFIED", "is_verified"),
    ("PLAYGROUND", "is_playground"),
    ("UPDATED", "updated_at"),
];
const NODES: Columns = &[
    ("KEY", "key"),
    ("NODE", "node"),
    ("SEEN", "seen_at"),
    ("MODELS", "models"),
    ("CREATED", "created_at"),
    ("REVOKED", "revoked_at"),
];
const TASKS: Columns = &[
    ("TASK", "task"),
    ("ACCOUNT", "account"),
    ("MODEL", "model"),
    ("STATUS", "status"),
    ("COST", "cost"),
    ("REFUNDED", "is_refunded"),
    ("CREATED", "created_at"),
];

pub(super) async fn perform(command: Command, admin: &mut AdminClient, session: &mut Session) -> Result {
    match command {
        Command::Account(command) => account(command, admin, session).await,
        Command::Member(command) => member(command, admin, session).await,
        Command::Key(command) => key(command, admin, session).await,
        Command::Credit { adjustment, note } => adjust(admin, session, "credits", adjustment, note).await,
        Command::Debit { adjustment, note } => adjust(admin, session, "debits", adjustment, Some(note)).await,
        Command::Model(command) => model(command, admin, session).await,
        Command::Node(command) => node(command, admin, session).await,
        Command::Task(command) => task(command, admin, session).await,
        Command::File(File::Delete { url }) => {
            let data = admin.call("DELETE", &["files"], Some(json!({ "url": url }).to_string())).await?;
            done(session, "the file is deleted", &data, &url)
        }
        Command::Log(page) => {
            let data = admin.list(&["log"], &paging(&page)).await?;
            list(session, &data, "actions", ACTIONS)
        }
        // They work on the data of a stopped service.
        Command::Export(_) | Command::Import(_) => Ok(()),
        Command::Audit => audit(&admin.call("GET", &["audit"], None).await?, session),
        Command::Backup { folder } => {
            let folder = std::path::absolute(session.environment.folder.join(folder))
                .map_err(|error| Failure::local_failure("the folder cannot be named", error))?;
            let body = json!({ "folder": folder });
            let data = admin.call("POST", &["backups"], Some(body.to_string())).await?;
            let note = format!("{} is a data folder with {} objects", folder.display(), data["objects"]);
            done(session, &note, &data, &folder.to_string_lossy())?;
            match data["missing"].as_u64() {
                Some(0) => Ok(()),
                _ => Err(Failure::new(exit::FAILED, format!("{} objects have no bytes", data["missing"]))
                    .with_hint("the data folder is damaged; everything else is in the copy")),
            }
        }
    }
}

async fn adjust(
    admin: &mut AdminClient,
    session: &Session,
    kind: &str,
    adjustment: Adjustment,
    note: Option<String>,
) -> Result {
    let Adjustment { account, amount, free, reference } = adjustment;
    let purse = if free { "free" } else { "paid" };
    let body = json!({ purse: amount.to_string(), "reference": reference, "note": note });
    let data = admin.call("POST", &["accounts", &account, kind], Some(body.to_string())).await?;
    let change = if kind == "debits" { "less" } else { "more" };
    let done_now = format!("{account} has {amount} {change}{}", if free { " free credits" } else { "" });
    let note = match data["is_repeated"].as_bool() {
        Some(true) => "this reference was used for the same amount before; nothing was changed",
        _ => &done_now,
    };
    done(session, note, &data, &account)
}

async fn account(command: Account, admin: &mut AdminClient, session: &Session) -> Result {
    match command {
        Account::Add { name, organization } => {
            let scope = if organization { "organization" } else { "personal" };
            let body = json!({ "account": name, "scope": scope });
            let data = admin.call("POST", &["accounts"], Some(body.to_string())).await?;
            done(session, &format!("the account {name} is added"), &data, &name)
        }
        Account::List => list(session, &admin.call("GET", &["accounts"], None).await?, "accounts", ACCOUNTS),
        Account::Show { account } => {
            let data = admin.call("GET", &["accounts", &account], None).await?;
            show(session, &data, &account, ACCOUNT)
        }
        Account::Suspend { account } => set_state(admin, session, &account, "suspended").await,
        Account::Resume { account } => set_state(admin, session, &account, "active").await,
        Account::Close { account } => set_state(admin, session, &account, "closed").await,
        Account::Quota { account, quota: Quota(quota) } => {
            let body = json!({ "quota": quota });
            let data = admin.call("PATCH", &["accounts", &account], Some(body.to_string())).await?;
            let note = match quota {
                Some(bytes) => format!("{account} may store {bytes} bytes"),
                None => format!("{account} may store any number of bytes"),
            };
            done(session, &note, &data, &account)
        }
        Account::Movements { account, page } => {
            let data = admin.list(&["accounts", &account, "movements"], &paging(&page)).await?;
            list(session, &data, "movements", MOVEMENTS)
        }
    }
}

async fn set_state(admin: &mut AdminClient, session: &Session, account: &str, state: &str) -> Result {
    let body = json!({ "state": state });
    let data = admin.call("PATCH", &["accounts", account], Some(body.to_string())).await?;
    let note = match data["canceled_tasks"].as_u64() {
        Some(1) => format!("{account} is {state}, and its queued task is canceled"),
        Some(tasks @ 2..) => format!("{account} is {state}, and its {tasks} queued tasks are canceled"),
        _ => format!("{account} is {state}"),
    };
    done(session, &note, &data, account)
}

async fn member(command: Member, admin: &mut AdminClient, session: &Session) -> Result {
    match command {
        Member::Add { organization, person } => {
            let data = admin.call("PUT", &["accounts", &organization, "members", &person], None).await?;
            done(session, &format!("{person} is a member of {organization}"), &data, &person)
        }
        Member::List { organization } => {
            let data = admin.call("GET", &["accounts", &organization, "members"], None).await?;
            list(session, &data, "members", MEMBERS)
        }
        Member::Remove { organization, person } => {
            let data = admin.call("DELETE", &["accounts", &organization, "members", &person], None).await?;
            let message = format!(
                "{person} is no longer a member of {organization}, which pays from now on for the files that {person} \
                 uploaded into its storage"
            );
            done(session, &message, &data, &person)
        }
    }
}

async fn key(command: Key, admin: &mut AdminClient, session: &mut Session) -> Result {
    match command {
        Key::Add { account, name, expires_in_days, daily_limit, models } => {
            let body = json!({
                "name": name,
                "expires_in_days": expires_in_days,
                "daily_limit": daily_limit,
                "models": Some(&models).filter(|models| !models.is_empty()),
            });
            let data = admin.call("POST", &["accounts", &account, "keys"], Some(body.to_string())).await?;
            warn_of_unknown(models, admin, session).await?;
            show_once(session, "account", "api_key", &data)
        }
        Key::List { account } => {
            let data = admin.call("GET", &["accounts", &account, "keys"], None).await?;
            list(session, &data, "keys", KEYS)
        }
        Key::Revoke { key } => {
            let key = key.map_or_else(|| session.read_secret("API key (it is not shown): "), Ok)?;
            let body = json!({ "key": key });
            let data = admin.call("POST", &["keys", "revoke"], Some(body.to_string())).await?;
            done(session, "the key is revoked", &data, "")
        }
    }
}

/// The part of a model to be published that the command itself reads.
#[derive(Deserialize)]
struct Spec {
    id: String,
    input_format: Box<RawValue>,
    output_format: Box<RawValue>,
}

async fn model(command: Model, admin: &mut AdminClient, session: &mut Session) -> Result {
    match command {
        Model::List(page) => {
            let data = admin.list(&["models"], &paging(&page)).await?;
            list(session, &data, "models", MODELS)
        }
        Model::Publish { account, file } => {
            let text = text_of(&file, session)?;
            let spec: Spec = read_spec(&text)?;
            let body = format!(r#"{{"account":{},"model":{text}}}"#, json!(account));
            let data = admin.call("POST", &["models"], Some(body)).await?;
            let note = format!("{account} has published the model {}", spec.id);
            done(session, &note, &data, &spec.id)
        }
        Model::Version { account, file } => {
            let Spec { id, input_format, output_format } = read_spec(&text_of(&file, session)?)?;
            let account = json!(account);
            let formats = format!(r#""input_format":{input_format},"output_format":{output_format}"#);
            let body = format!(r#"{{"account":{account},{formats}}}"#);
            let data = admin.call("POST", &["models", &id, "versions"], Some(body)).await?;
            let hash = cell(&data["commit_hash"]);
            done(session, &format!("version {hash} of {id} is the active one"), &data, &hash)
        }
        Model::Visibility { model, visibility } => {
            let note = format!("{model} is {visibility}");
            change(admin, session, &model, json!({ "visibility": visibility }), &note).await
        }
        Model::Verified { model, verified } => {
            let is_verified = verified == "yes";
            let note = format!("{model} is {}verified", if is_verified { "" } else { "not " });
            change(admin, session, &model, json!({ "is_verified": is_verified }), &note).await
        }
        Model::Playground { model, playground } => {
            let is_playground = playground == "yes";
            let note = format!("{model} is {}in the playground", if is_playground { "" } else { "not " });
            change(admin, session, &model, json!({ "is_playground": is_playground }), &note).await
        }
        Model::Pause { model } => {
            let note = format!("tasks of {model} wait");
            change(admin, session, &model, json!({ "state": "paused" }), &note).await
        }
        Model::Resume { model } => {
            let note = format!("tasks of {model} are run");
            change(admin, session, &model, json!({ "state": "active" }), &note).await
        }
        Model::Retire { model } => {
            let note = format!("{model} takes no tasks");
            change(admin, session, &model, json!({ "state": "retired" }), &note).await
        }
        Model::Describe { model, texts } => {
            let note = format!("{model} is described anew");
            change(admin, session, &model, json!(texts), &note).await
        }
        Model::Price { model, price } => {
            let note = format!("a run of {model} costs {price} from now on");
            change(admin, session, &model, json!({ "price": price.to_string() }), &note).await
        }
    }
}

fn read_spec(text: &str) -> Result<Spec> {
    serde_json::from_str(text).map_err(|error| not_read(format!("the file describes no model: {error}")))
}

async fn change(
    admin: &mut AdminClient,
    session: &Session,
    model: &str,
    change: Value,
    note: &str,
) -> Result {
    let data = admin.call("PATCH", &["models", model], Some(change.to_string())).await?;
    done(session, note, &data, model)
}

async fn node(command: Node, admin: &mut AdminClient, session: &Session) -> Result {
    match command {
        Node::List => list(session, &admin.call("GET", &["nodes"], None).await?, "nodes", NODES),
        Node::Add { name, models } => {
            let mut body = json!({ "name": name });
            if !models.is_empty() {
                body["models"] = json!(models);
            }
            let data = admin.call("POST", &["nodes", "keys"], Some(body.to_string())).await?;
            warn_of_unknown(models, admin, session).await?;
            show_once(session, "name", "node_key", &data)
        }
        Node::Revoke { name } => {
            let data = admin.call("DELETE", &["nodes", "keys", &name], None).await?;
            done(session, "the key is revoked", &data, &name)
        }
    }
}

/// Notes the models that are not published. A key for them is made nevertheless.
async fn warn_of_unknown(models: Vec<String>, admin: &mut AdminClient, session: &Session) -> Result {
    for model in unknown(models, admin).await? {
        session.output.note(format!("warning: there is no model {model} yet"));
    }
    Ok(())
}

/// Returns those of the models that are not published.
async fn unknown(mut models: Vec<String>, admin: &mut AdminClient) -> Result<Vec<String>> {
    let mut offset = 0;
    while !models.is_empty() {
        let page = admin.list(&["models"], &paging(&Page { limit: MAX_PAGE, offset })).await?;
        let published: Vec<String> =
            page["models"].as_array().into_iter().flatten().map(|model| cell(&model["model"])).collect();
        if published.is_empty() {
            break;
        }
        models.retain(|model| !published.contains(model));
        offset += published.len() as u64;
    }
    Ok(models)
}

async fn task(command: Task, admin: &mut AdminClient, session: &Session) -> Result {
    match command {
        Task::List { account, status, page } => {
            let mut query = paging(&page);
            query.extend(account.map(|account| ("account", account)));
            query.extend(status.map(|status| ("status", status)));
            list(session, &admin.list(&["tasks"], &query).await?, "tasks", TASKS)
        }
        Task::Show { task } => show(session, &admin.call("GET", &["tasks", &task], None).await?, &task, &[]),
        Task::Cancel { task } => {
            let data = admin.call("POST", &["tasks", &task, "cancel"], None).await?;
            done(session, "the task is canceled", &data, &task)
        }
        Task::Fail { task, message } => {
            let body = json!({ "message": message });
            let data = admin.call("POST", &["tasks", &task, "fail"], Some(body.to_string())).await?;
            done(session, "the task has failed", &data, &task)
        }
        Task::Requeue { task } => {
            let data = admin.call("POST", &["tasks", &task, "requeue"], None).await?;
            done(session, "the node has lost the task, and any node can run it", &data, &task)
        }
        Task::Refund { task } => {
            let data = admin.call("POST", &["tasks", &task, "refund"], None).await?;
            let note = format!("{} has {} back", cell(&data["account"]), cell(&data["amount"]));
            done(session, &note, &data, &task)
        }
    }
}

fn paging(page: &Page) -> Vec<(&'static str, String)> {
    vec![("limit", page.limit.to_string()), ("offset", page.offset.to_string())]
}

fn audit(data: &Value, session: &Session) -> Result {
    let faults: Vec<String> = data["faults"].as_array().into_iter().flatten().map(cell).collect();
    let count = cell(&data["movements"]);
    let table =
        Table::of_fields([("movements", Some(count.clone())), ("faults", Some(faults.len().to_string()))]);
    session.output.report(&Report::of_one(table, data, count))?;
    match &faults[..] {
        [] => Ok(()),
        faults => Err(Failure::new(exit::FAILED, format!("the books are wrong: {}", faults.join("; ")))
            .with_hint("keep a copy of the data folder, and report this to the maintainers of the service")),
    }
}

/// Reports something that was done.
pub(super) fn done(session: &Session, note: &str, data: &Value, quiet: &str) -> Result {
    session.output.note(note);
    let quiet = Some(quiet.to_owned()).filter(|quiet| !quiet.is_empty());
    let report = Report { json: data.to_string(), quiet: quiet.into_iter().collect(), ..Report::default() };
    session.output.report_done(&report)
}

/// Reports a key, of which the service keeps only a hash.
fn show_once(session: &Session, owner: &'static str, kind: &str, data: &Value) -> Result {
    let key = cell(&data[kind]);
    let table = Table::of_fields([(owner, Some(cell(&data[owner]))), ("key", Some(key.clone()))]);
    session.output.report_key(&Report::of_one(table, data, key))?;
    session.output.note("only a hash of the key is kept, so this is the one time it is shown");
    Ok(())
}

/// Reports the records of a list. The first column identifies them.
fn list(session: &Session, data: &Value, field: &str, columns: Columns) -> Result {
    // The last columns are left out first.
    let fit = |place| if place == 0 { Fit::Keep } else { Fit::Drop(u8::try_from(place).unwrap_or(u8::MAX)) };
    let headings: Vec<Column> =
        columns.iter().enumerate().map(|(place, (heading, _))| (*heading, fit(place))).collect();
    let mut table = Table::new(headings);
    let mut records = Vec::new();
    let mut quiet = Vec::new();
    for record in data[field].as_array().into_iter().flatten() {
        table.add(columns.iter().map(|(_, name)| match *name {
            "status" => Cell::status(&cell(&record["status"])),
            name if name == "at" || name.ends_with("_at") => {
                time::age(record[name].as_str().map(Timestamp::from).as_ref())
            }
            name => Cell::from(cell(&record[name])),
        }));
        records.push(record.to_string());
        quiet.extend(columns.first().map(|(_, name)| cell(&record[*name])));
    }
    session.output.report(&Report {
        table,
        json: data.to_string(),
        records: Some(records),
        quiet,
        ..Report::default()
    })
}

/// Reports the fields of one record: these first, then all others.
fn show(session: &Session, data: &Value, quiet: &str, first: Columns) -> Result {
    let mut table = Table::default();
    for (name, field) in first {
        table.add([(*name).to_owned(), cell(&data[*field])]);
    }
    for (name, value) in data.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        if !first.iter().any(|(_, field)| field == name) {
            table.add([name.replace('_', " "), cell(value)]);
        }
    }
    session.output.report(&Report::of_one(table, data, quiet))
}

/// A value as a cell of a table.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
