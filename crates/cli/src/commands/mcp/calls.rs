//! The calls of tools.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use inferstore::types::{DescriptorType, ModelVersioning, UploadFolder};
use inferstore::{Client, Decimal, Inputs, is_http};
use inferstore_batch::{JournalErrorKind, Step};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use super::tools::{self, CALL_ID, ModelTool};
use super::{Arguments, INTERNAL_ERROR, INVALID_PARAMS};
use crate::commands::outputs::{Delivery, OutputArguments, absolute, make_folder};
use crate::commands::run::{
    Contents, Entry, FileOutcome, Items, JOURNAL, Plan, RunOptions, Status, entry_of, run_one,
};
use crate::commands::task::identifier::identified;
use crate::commands::{files, models};
use crate::exit;
use crate::failure::{Failure, Result};
use crate::settings::Session;

/// The most bytes of an output that is part of a result. Larger ones are files alone.
const MAX_IMAGE: u64 = 1024 * 1024;

const FILES: u64 = 20;

pub(super) struct Server<'a> {
    client: Client,
    session: &'a Session,
    /// The one folder, from the root and without links.
    folder: PathBuf,
    delivery: Delivery,
    items: Items,
    budget: Option<Decimal>,
    only: Vec<String>,
    models: Mutex<Arc<Vec<ModelTool>>>,
    /// A call waits for one with the same key.
    locks: Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

/// The error of a request that is no call of a tool: a code of JSON-RPC, and a message.
pub(super) type Refusal = (i32, String);

impl<'a> Server<'a> {
    pub(super) fn open(arguments: Arguments, session: &'a Session) -> Result<Self> {
        let Arguments { folder, budget, models: only } = arguments;
        let client = session.client()?;
        let folder = session.here(folder);
        make_folder(&folder).map_err(|failure| failure.with_hint("choose another folder for --folder"))?;
        let folder = std::fs::canonicalize(&folder).map_err(Failure::of_path(&folder, "cannot be used"))?;
        let out = OutputArguments { out: Some(format!("{}/", folder.display())), ..Default::default() };
        let delivery = out.check(make_folder, None, session)?;
        let items = Items::open(&client, &folder.join(JOURNAL)).map_err(|error| {
            let hint = "end the other process that uses the folder, or give another --folder";
            let hint = (error.kind == JournalErrorKind::Locked).then_some(hint);
            Failure::from(error).or_hint(hint)
        })?;
        let items = items.with(|batch| batch.budget(budget.clone()));
        let (models, locks) = (Mutex::default(), Mutex::default());
        Ok(Self { client, session, folder, delivery, items, budget, only, models, locks })
    }

    pub(super) async fn list(&self) -> Result<Value, Refusal> {
        let models = tools::models(&self.only, &self.client).await;
        let models = Arc::new(models.map_err(|failure| (INTERNAL_ERROR, failure.headline))?);
        *self.models.lock().await = Arc::clone(&models);
        Ok(tools::listed(&models))
    }

    /// Answers `tools/call`: a failure of a tool is a result that says so, which the agent reads.
    pub(super) async fn call(&self, params: Map<String, Value>) -> Result<Value, Refusal> {
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut arguments = params.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default();
        let result = match name {
            _ if let Err(failure) = tools::check_arguments(name, &arguments) => Err(failure),
            "quote" => self.quote(&arguments).await,
            "task" => self.task(&arguments).await,
            "files" => self.files(&arguments).await,
            "run" => self.run_any(&arguments).await,
            name => {
                let model = self.model_of(name).await;
                let model = model.ok_or_else(|| (INVALID_PARAMS, format!("there is no tool {name:?}")))?;
                let call_id = arguments.remove(CALL_ID);
                self.run(&model, arguments, call_id.as_ref()).await
            }
        };
        Ok(result.unwrap_or_else(|failure| {
            let hint = failure.hint.map(|hint| format!("\n{hint}")).unwrap_or_default();
            let text = format!("{}{hint}", failure.headline);
            json!({"content": [{"type": "text", "text": text}], "isError": true})
        }))
    }

    /// The model of a tool. A client may call it without having listed the tools.
    async fn model_of(&self, name: &str) -> Option<String> {
        if self.models.lock().await.is_empty() {
            self.list().await.ok()?;
        }
        let models = Arc::clone(&*self.models.lock().await);
        tools::model_of(&models, name).map(str::to_owned)
    }

    async fn quote(&self, arguments: &Map<String, Value>) -> Result<Value> {
        let model = text(arguments, "model")?;
        if let Some(inputs) = arguments.get("inputs").and_then(Value::as_object) {
            let version = models::versioning(model, &self.client).await?;
            let entry = self.entry(inputs.clone(), None, &version)?;
            self.client.model(model).run(entry.inputs).check().await?;
        }
        let price = self.client.model(model).cost().await?;
        let committed = self.items.batch().committed(&price.cost.clone().unwrap_or_default());
        let left = self.budget.as_ref().map(|budget| (budget - &committed).to_string());
        Ok(result(&json!({
            "model": model,
            "cost": price.cost.as_ref().map(ToString::to_string),
            "symbol": price.symbol,
            "budget": self.budget.as_ref().map(ToString::to_string),
            "budget_left": left,
        })))
    }

    async fn task(&self, arguments: &Map<String, Value>) -> Result<Value> {
        let id = identified(text(arguments, "task")?, &self.client).await?;
        let task = self.client.task(id).get().await?;
        Ok(result(&serde_json::to_value(&task).unwrap_or_default()))
    }

    async fn files(&self, arguments: &Map<String, Value>) -> Result<Value> {
        let folder: UploadFolder = text(arguments, "folder")?
            .parse()
            .map_err(|_| Failure::usage("there is no such folder").with_hint("such as samples"))?;
        let search = arguments.get("search").and_then(Value::as_str).unwrap_or_default().to_lowercase();
        let limit = arguments.get("limit").and_then(Value::as_u64).unwrap_or(FILES);
        let stored = files::all(folder, &self.client).await?;
        let fits = |name: &str| name.to_lowercase().contains(&search);
        let files = stored.iter().rev().filter(|file| fits(file.name()));
        let files = files.take(usize::try_from(limit).unwrap_or(usize::MAX));
        let files: Vec<Value> =
            files.map(|file| json!({"key": file.key, "url": file.url, "size": file.size})).collect();
        Ok(result(&json!({"files": files, "total": stored.len()})))
    }

    async fn run_any(&self, arguments: &Map<String, Value>) -> Result<Value> {
        let model = text(arguments, "model")?;
        let inputs = arguments.get("inputs").and_then(Value::as_object).cloned().unwrap_or_default();
        self.run(model, inputs, arguments.get(CALL_ID)).await
    }

    /// Runs a model, or continues the same call.
    async fn run(&self, model: &str, inputs: Map<String, Value>, call_id: Option<&Value>) -> Result<Value> {
        let version = models::versioning(model, &self.client).await?;
        let mut entry = self.entry(inputs, call_id, &version)?;
        let options = RunOptions::into_folder(&self.folder);
        let plan = Plan::new(self.client.clone(), model.to_owned(), options, self.delivery.clone());
        plan.recognize(&mut entry, &mut Contents::default(), &self.items)?;
        let key = plan.key(&entry);
        let lock = Arc::clone(self.locks.lock().await.entry(key.clone()).or_default());
        let alone = lock.lock().await;
        let result = self.run_alone(plan, &entry, &key).await;
        drop(alone);
        // No other call waits for this one.
        let mut locks = self.locks.lock().await;
        if Arc::strong_count(&lock) == 2 {
            locks.remove(&key);
        }
        result
    }

    /// Runs the entry of a plan, whose key no other call has now.
    async fn run_alone(&self, mut plan: Plan, entry: &Entry, key: &str) -> Result<Value> {
        let is_new = matches!(self.items.batch().item(key).step()?, None | Some(Step::Failed(_)));
        if is_new || self.budget.is_some() {
            let price = self.client.model(&*plan.model).cost().await?.cost;
            if let Some(budget) = self.budget.as_ref().filter(|_| is_new) {
                let price = price.as_ref().ok_or_else(|| {
                    Failure::usage("the service states no price, so that no budget can be kept")
                        .with_hint("no task was created")
                })?;
                let committed = self.items.batch().committed(price);
                // Before anything is uploaded. The journal checks it again before the create.
                if &(&committed + price) > budget {
                    let (budget, cost) = (budget.clone(), price.clone());
                    return Err(inferstore_batch::Error::Budget { budget, committed, cost }.into());
                }
            }
            plan.price = price;
        }
        self.items.note(key)?;
        let ended = run_one(plan, entry, self.items.clone(), self.session).await;
        self.ended(ended, !is_new)
    }

    /// The entry of a call: its files are URLs, or in the folder.
    fn entry(
        &self,
        inputs: Map<String, Value>,
        call_id: Option<&Value>,
        version: &ModelVersioning,
    ) -> Result<Entry> {
        let declared = version.input_format.clone().unwrap_or_default();
        let mut values = Vec::new();
        for (name, value) in inputs {
            let is_file = declared.get(&name).is_some_and(|input| input.type_ == Some(DescriptorType::File));
            let value = match value.as_str().filter(|text| is_file && !is_http(text)) {
                Some(path) => self.inside(path)?.into(),
                None => value,
            };
            values.push((name, value));
        }
        let mut entry = entry_of("call", values, &declared, &Inputs::new(), &BTreeMap::new(), self.session)?;
        if entry.name.is_empty() {
            "output".clone_into(&mut entry.name);
        }
        if let Some(call_id) = call_id {
            entry.file = json!({ "call_id": call_id });
        }
        Ok(entry)
    }

    /// The path of a file in the folder, from the root.
    fn inside(&self, path: &str) -> Result<String> {
        let refused = || {
            Failure::new(exit::INPUT, format!("{path:?} is no file in {}", self.folder.display()))
                .with_hint("copy the file into that folder, or give a URL; nothing was sent")
        };
        let found = std::fs::canonicalize(self.folder.join(path)).map_err(|_| refused())?;
        let is_journal = found.file_name().is_some_and(|name| name == JOURNAL);
        if !found.starts_with(&self.folder) || !found.is_file() || is_journal {
            return Err(refused());
        }
        found.into_os_string().into_string().map_err(|_| refused())
    }

    fn ended(&self, ended: FileOutcome, is_repeated: bool) -> Result<Value> {
        if let Some(failure) = ended.failure {
            let task = ended.task.map(|task| format!(" (task {task})")).unwrap_or_default();
            return Err(Failure { headline: format!("{}{task}", failure.headline), ..failure });
        }
        let mut images = Vec::new();
        let mut names = Vec::new();
        for path in &ended.outputs {
            let path = absolute(&self.session.here(path));
            images.extend(image(&path));
            let name = path.strip_prefix(&self.folder).unwrap_or(&path);
            names.push(name.display().to_string());
        }
        let mut result = result(&json!({
            "task": ended.task,
            "status": if ended.status == Status::Success { "success" } else { "unfinished" },
            "cost": ended.cost.as_ref().map(ToString::to_string),
            "folder": self.folder,
            "files": names,
            "output": ended.output,
            "is_repeated": is_repeated,
        }));
        if let Some(content) = result["content"].as_array_mut() {
            content.extend(images);
        }
        Ok(result)
    }
}

fn result(value: &Value) -> Value {
    json!({"content": [{"type": "text", "text": value.to_string()}], "structuredContent": value, "isError": false})
}

fn image(path: &Path) -> Option<Value> {
    let length = std::fs::metadata(path).ok()?.len();
    let content = if length <= MAX_IMAGE { std::fs::read(path).ok()? } else { return None };
    let mime = image::guess_format(&content).ok()?.to_mime_type();
    Some(json!({"type": "image", "data": STANDARD.encode(content), "mimeType": mime}))
}

fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Result<&'a str> {
    arguments.get(name).and_then(Value::as_str).ok_or_else(|| {
        Failure::usage(format!("the argument {name} is missing")).with_hint("it is a text; nothing was sent")
    })
}
