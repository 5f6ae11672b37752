//! The calls of `inferstore admin`, and what they print.

use inferstore::Timestamp;
use inferstore_service::AdminClient;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{
    Account, Adjustment, Command, File, Key, Member, Model, Node, OneAccount, OneModel, OneTask, Page, Quota,
    Task,
};
use crate::commands::api::{not_read, text_of};
use crate::exit;
use crate::failure::{Failure, Result};
use crate::output::Report;
use crate::settings::Session;
use crate::table::{Cell, Fit, Table};
use crate::time;

const MAX_PAGE: u32 = 1_000;

/// The fields of the records of a list, in the order of its columns. The first one identifies a record.
type Fields = &'static [&'static str];

const ACCOUNTS: Fields = &["account", "scope", "state", "balance", "free_balance", "debt", "earnings"];
const KEYS: Fields = &["key", "name", "created_at", "expires_at", "daily_limit", "models", "revoked_at"];
const MOVEMENTS: Fields = &["at", "reason", "amount", "from", "to", "reference", "note"];
const NODES: Fields = &["key", "node", "seen_at", "models", "created_at", "revoked_at"];
const TASKS: Fields = &["task", "account", "model", "status", "cost", "is_refunded", "created_at"];
const MODELS: Fields =
    &["model", "publisher", "price", "visibility", "state", "is_verified", "is_playground", "updated_at"];

/// The first fields of `admin account show`.
const ACCOUNT: Fields = &["account", "scope", "state", "balance", "free_balance", "held", "debt", "earnings"];

pub(super) async fn perform(command: Command, admin: &mut AdminClient, session: &mut Session) -> Result {
    let mut calls = Calls { admin, session };
    match command {
        Command::Account(command) => calls.account(command).await,
        Command::Member(command) => calls.member(command).await,
        Command::Key(command) => calls.key(command).await,
        Command::Credit { adjustment, note } => calls.adjust("credits", adjustment, note).await,
        Command::Debit { adjustment, note } => calls.adjust("debits", adjustment, Some(note)).await,
        Command::Model(command) => calls.model(command).await,
        Command::Node(command) => calls.node(command).await,
        Command::Task(command) => calls.task(command).await,
        Command::File(File::Delete { url }) => {
            calls.change("DELETE", &["files"], Some(json!({ "url": url })), "the file is deleted", &url).await
        }
        Command::Log(page) => {
            calls.list(&["log"], page.query(), "actions", &["at", "request", "body", "status"]).await
        }
        // They work on the data of a stopped service.
        Command::Export(_) | Command::Import(_) => Ok(()),
        Command::Audit => calls.audit().await,
        Command::Backup { folder } => {
            let folder = std::path::absolute(calls.session.here(folder))
                .map_err(|error| Failure::local_failure("the folder cannot be named", error))?;
            let data = calls.call("POST", &["backups"], Some(json!({ "folder": folder }))).await?;
            let note = format!("{} is a data folder with {} objects", folder.display(), data["objects"]);
            done(calls.session, &note, &data, &folder.to_string_lossy())?;
            match data["missing"].as_u64() {
                Some(0) => Ok(()),
                _ => Err(Failure::new(exit::FAILED, format!("{} objects have no bytes", data["missing"]))
                    .with_hint("the data folder is damaged; everything else is in the copy")),
            }
        }
    }
}

impl Page {
    fn query(&self) -> Vec<(&'static str, String)> {
        vec![("limit", self.limit.to_string()), ("offset", self.offset.to_string())]
    }
}

struct Calls<'a> {
    admin: &'a mut AdminClient,
    session: &'a mut Session,
}

impl Calls<'_> {
    async fn call(&mut self, method: &str, path: &[&str], body: Option<Value>) -> Result<Value> {
        Ok(self.admin.call(method, path, body.map(|body| body.to_string())).await?)
    }

    async fn change(
        &mut self,
        method: &str,
        path: &[&str],
        body: Option<Value>,
        note: &str,
        quiet: &str,
    ) -> Result {
        let data = self.call(method, path, body).await?;
        done(self.session, note, &data, quiet)
    }

    /// A list, whose records are in the member `name` of the response.
    async fn list(
        &mut self,
        path: &[&str],
        query: Vec<(&str, String)>,
        name: &str,
        fields: &[&str],
    ) -> Result {
        let data = self.admin.list(path, &query).await?;
        let headings = (0..).zip(fields).map(|(rank, field)| match rank {
            0 => (heading(field), Fit::Keep),
            // The last columns are left out first.
            rank => (heading(field), Fit::Drop(rank)),
        });
        let mut table = Table::new(headings);
        let (mut records, mut quiet) = (Vec::new(), Vec::new());
        for record in data[name].as_array().into_iter().flatten() {
            table.add(fields.iter().map(|field| match *field {
                "status" => Cell::status(&cell(&record["status"])),
                field if field == "at" || field.ends_with("_at") => {
                    time::age(record[field].as_str().map(Timestamp::from).as_ref())
                }
                field => Cell::from(cell(&record[field])),
            }));
            records.push(record.to_string());
            quiet.push(cell(&record[fields[0]]));
        }
        let report = Report { json: data.to_string(), ..Report::of_list(table, records, quiet) };
        self.session.output.report(&report)
    }

    /// The fields of one record: these first, then all others.
    async fn show(&mut self, path: &[&str], quiet: &str, first: &[&str]) -> Result {
        let data = self.call("GET", path, None).await?;
        let others = data.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        let others = others.map(|(field, _)| field.as_str()).filter(|field| !first.contains(field));
        let mut table = Table::default();
        for field in first.iter().copied().chain(others) {
            let name = match field {
                "free_balance" => "free credits",
                "held" => "reserved",
                field => &field.replace('_', " "),
            };
            table.add([name.to_owned(), cell(&data[field])]);
        }
        self.session.output.report(&Report::of_one(table, data, quiet))
    }

    fn show_once(&self, owner: &str, kind: &str, data: &Value) -> Result {
        let key = cell(&data[kind]);
        let table = Table::of_fields([(owner, Some(cell(&data[owner]))), ("key", Some(key.clone()))]);
        self.session.output.report_key(&Report::of_one(table, data, key))?;
        self.session.note("only a hash of the key is kept, so this is the one time it is shown");
        Ok(())
    }

    async fn adjust(&mut self, kind: &str, adjustment: Adjustment, note: Option<String>) -> Result {
        let Adjustment { account, amount, free, reference } = adjustment;
        let purse = if free { "free" } else { "paid" };
        let body = json!({ purse: amount.to_string(), "reference": reference, "note": note });
        let data = self.call("POST", &["accounts", &account, kind], Some(body)).await?;
        let change = if kind == "debits" { "less" } else { "more" };
        let done_now = format!("{account} has {amount} {change}{}", if free { " free credits" } else { "" });
        let note = match data["is_repeated"].as_bool() {
            Some(true) => "this reference was used for the same amount before; nothing was changed",
            _ => &done_now,
        };
        done(self.session, note, &data, &account)
    }

    async fn account(&mut self, command: Account) -> Result {
        match command {
            Account::Add { name, organization } => {
                let scope = if organization { "organization" } else { "personal" };
                let body = json!({ "account": name, "scope": scope });
                let note = format!("the account {name} is added");
                self.change("POST", &["accounts"], Some(body), &note, &name).await
            }
            Account::List => self.list(&["accounts"], Vec::new(), "accounts", ACCOUNTS).await,
            Account::Show(OneAccount { account }) => {
                self.show(&["accounts", &account], &account, ACCOUNT).await
            }
            Account::Suspend(OneAccount { account }) => self.set_state(&account, "suspended").await,
            Account::Resume(OneAccount { account }) => self.set_state(&account, "active").await,
            Account::Close(OneAccount { account }) => self.set_state(&account, "closed").await,
            Account::Quota { account, quota: Quota(quota) } => {
                let most = quota.map_or_else(|| "any number of".to_owned(), |bytes| bytes.to_string());
                let note = format!("{account} may store {most} bytes");
                let body = json!({ "quota": quota });
                self.change("PATCH", &["accounts", &account], Some(body), &note, &account).await
            }
            Account::Movements { account, page } => {
                let path = ["accounts", &account, "movements"];
                self.list(&path, page.query(), "movements", MOVEMENTS).await
            }
        }
    }

    async fn set_state(&mut self, account: &str, state: &str) -> Result {
        let body = json!({ "state": state });
        let data = self.call("PATCH", &["accounts", account], Some(body)).await?;
        let note = match data["canceled_tasks"].as_u64() {
            Some(1) => format!("{account} is {state}, and its queued task is canceled"),
            Some(tasks @ 2..) => format!("{account} is {state}, and its {tasks} queued tasks are canceled"),
            _ => format!("{account} is {state}"),
        };
        done(self.session, &note, &data, account)
    }

    async fn member(&mut self, command: Member) -> Result {
        let (method, organization, person, note) = match command {
            Member::List { organization } => {
                let path = ["accounts", &organization, "members"];
                return self.list(&path, Vec::new(), "members", &["member"]).await;
            }
            Member::Add { organization, person } => ("PUT", organization, person, "a member of"),
            Member::Remove { organization, person } => {
                ("DELETE", organization, person, "no longer a member of")
            }
        };
        let mut note = format!("{person} is {note} {organization}");
        if method == "DELETE" {
            note +=
                &format!(", which pays from now on for the files that {person} uploaded into its storage");
        }
        self.change(method, &["accounts", &organization, "members", &person], None, &note, &person).await
    }

    async fn key(&mut self, command: Key) -> Result {
        match command {
            Key::Add { account, name, expires_in_days, daily_limit, models } => {
                let body = json!({
                    "name": name,
                    "expires_in_days": expires_in_days,
                    "daily_limit": daily_limit,
                    "models": Some(&models).filter(|models| !models.is_empty()),
                });
                let data = self.call("POST", &["accounts", &account, "keys"], Some(body)).await?;
                self.warn_of_unknown(models).await?;
                self.show_once("account", "api_key", &data)
            }
            Key::List(OneAccount { account }) => {
                self.list(&["accounts", &account, "keys"], Vec::new(), "keys", KEYS).await
            }
            Key::Revoke { key } => {
                let key = match key {
                    Some(key) => key,
                    None => self.session.read_secret("API key (it is not shown): ").await?,
                };
                let data = self.call("POST", &["keys", "revoke"], Some(json!({ "key": key }))).await?;
                let key = cell(&data["key"]);
                done(self.session, &format!("the key {key} is revoked"), &data, &key)
            }
        }
    }

    async fn model(&mut self, command: Model) -> Result {
        let (note, change, model) = match command {
            Model::List(page) => return self.list(&["models"], page.query(), "models", MODELS).await,
            Model::Publish { account, file } => return self.publish(&account, &file).await,
            Model::Version { account, file } => return self.publish_version(&account, &file).await,
            Model::Visibility { model, visibility } => {
                (format!("{model} is {visibility}"), json!({ "visibility": visibility }), model)
            }
            Model::Verified { model, verified } => {
                let not = if verified { "" } else { "not " };
                (format!("{model} is {not}verified"), json!({ "is_verified": verified }), model)
            }
            Model::Playground { model, playground } => {
                let not = if playground { "" } else { "not " };
                (format!("{model} is {not}in the playground"), json!({ "is_playground": playground }), model)
            }
            Model::Pause(OneModel { model }) => {
                (format!("tasks of {model} wait"), json!({ "state": "paused" }), model)
            }
            Model::Resume(OneModel { model }) => {
                (format!("tasks of {model} are run"), json!({ "state": "active" }), model)
            }
            Model::Retire(OneModel { model }) => {
                (format!("{model} takes no tasks"), json!({ "state": "retired" }), model)
            }
            Model::Describe { model, texts } => (format!("{model} is described anew"), json!(texts), model),
            Model::Price { model, price } => {
                let note = format!("a run of {model} costs {price} from now on");
                (note, json!({ "price": price.to_string() }), model)
            }
        };
        self.change("PATCH", &["models", &model], Some(change), &note, &model).await
    }

    /// Publishes the model in a file, whose text stays as it is.
    async fn publish(&mut self, account: &str, file: &str) -> Result {
        let text = text_of(file, self.session)?;
        let Spec { id, .. } = read_spec(&text)?;
        let body = format!(r#"{{"account":{},"model":{text}}}"#, json!(account));
        let data = self.admin.call("POST", &["models"], Some(body)).await?;
        done(self.session, &format!("{account} has published the model {id}"), &data, &id)
    }

    async fn publish_version(&mut self, account: &str, file: &str) -> Result {
        let Spec { id, input_format, output_format } = read_spec(&text_of(file, self.session)?)?;
        let account = json!(account);
        let formats = format!(r#""input_format":{input_format},"output_format":{output_format}"#);
        let body = format!(r#"{{"account":{account},{formats}}}"#);
        let data = self.admin.call("POST", &["models", &id, "versions"], Some(body)).await?;
        let hash = cell(&data["commit_hash"]);
        done(self.session, &format!("version {hash} of {id} is the active one"), &data, &hash)
    }

    async fn node(&mut self, command: Node) -> Result {
        match command {
            Node::List => self.list(&["nodes"], Vec::new(), "nodes", NODES).await,
            Node::Add { name, models } => {
                let models_or_any = Some(&models).filter(|models| !models.is_empty());
                let body = json!({ "name": name, "models": models_or_any });
                let data = self.call("POST", &["nodes", "keys"], Some(body)).await?;
                self.warn_of_unknown(models).await?;
                self.show_once("name", "node_key", &data)
            }
            Node::Revoke { name } => {
                self.change("DELETE", &["nodes", "keys", &name], None, "the key is revoked", &name).await
            }
        }
    }

    /// Notes the models that are not published. A key for them is made nevertheless.
    async fn warn_of_unknown(&mut self, mut models: Vec<String>) -> Result {
        let mut page = Page { limit: MAX_PAGE, offset: 0 };
        while !models.is_empty() {
            let listed = self.admin.list(&["models"], &page.query()).await?;
            let published = listed["models"].as_array().map(Vec::as_slice).unwrap_or_default();
            if published.is_empty() {
                break;
            }
            models.retain(|model| published.iter().all(|published| published["model"] != **model));
            page.offset += published.len() as u64;
        }
        for model in models {
            self.session.note(format!("warning: there is no model {model} yet"));
        }
        Ok(())
    }

    async fn task(&mut self, command: Task) -> Result {
        let (task, action, body, note) = match command {
            Task::List { account, status, page } => {
                let mut query = page.query();
                query.extend(account.map(|account| ("account", account)));
                query.extend(status.map(|status| ("status", status)));
                return self.list(&["tasks"], query, "tasks", TASKS).await;
            }
            Task::Show(OneTask { task }) => return self.show(&["tasks", &task], &task, &[]).await,
            Task::Refund(OneTask { task }) => {
                let data = self.call("POST", &["tasks", &task, "refund"], None).await?;
                let note = format!("{} has {} back", cell(&data["account"]), cell(&data["amount"]));
                return done(self.session, &note, &data, &task);
            }
            Task::Cancel(OneTask { task }) => (task, "cancel", None, "the task is canceled"),
            Task::Fail { task, message } => {
                (task, "fail", Some(json!({ "message": message })), "the task has failed")
            }
            Task::Requeue(OneTask { task }) => {
                (task, "requeue", None, "the node has lost the task, and any node can run it")
            }
        };
        self.change("POST", &["tasks", &task, action], body, note, &task).await
    }

    async fn audit(&mut self) -> Result {
        let data = self.call("GET", &["audit"], None).await?;
        let faults: Vec<String> = data["faults"].as_array().into_iter().flatten().map(cell).collect();
        let count = cell(&data["movements"]);
        let table = Table::of_fields([
            ("movements", Some(count.clone())),
            ("faults", Some(faults.len().to_string())),
        ]);
        self.session.output.report(&Report::of_one(table, data, count))?;
        if faults.is_empty() {
            return Ok(());
        }
        Err(Failure::new(exit::FAILED, format!("the books are wrong: {}", faults.join("; ")))
            .with_hint("keep a copy of the data folder, and report this to the maintainers of the service"))
    }
}

#[derive(Deserialize)]
struct Spec {
    id: String,
    input_format: Box<RawValue>,
    output_format: Box<RawValue>,
}

fn read_spec(text: &str) -> Result<Spec> {
    serde_json::from_str(text).map_err(|error| not_read(format!("the file describes no model: {error}")))
}

pub(super) fn done(session: &Session, note: &str, data: &Value, quiet: &str) -> Result {
    session.note(note);
    let quiet = Some(quiet.to_owned()).filter(|quiet| !quiet.is_empty());
    let report = Report { json: data.to_string(), quiet: quiet.into_iter().collect(), ..Report::default() };
    session.output.report_done(&report)
}

/// The heading of a column: `free_balance` is FREE, `is_verified` VERIFIED, and `created_at` CREATED.
fn heading(field: &str) -> String {
    let name = field.trim_end_matches("_at").trim_end_matches("_balance").trim_start_matches("is_");
    name.replace('_', " ").to_uppercase()
}

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
