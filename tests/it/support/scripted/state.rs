//! All that the service knows, and which part of it answers a request.

use serde_json::{Value, json};

use super::answer::Answer;
use super::catalog::{self, Model};
use super::clock::Clock;
use super::content::Received;
use super::http::Head;
use super::inputs;
use super::object_storage::refuse_foreign_authorization;
use super::plan::{Push, TaskPlan};
use super::route::Route;
use super::storage::Storage;
use super::tasks::{self, Task};

/// The key that the service accepts.
pub(super) const KEY: &str = "scripted-key-5f0c2d9e";

const TOO_LITTLE: &str = "the balance is insufficient to run this model";

/// Whether the balance suffices, and what happens when it does not. Uploads are refused then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Funds {
    Enough,
    /// Too little; the creation of a task is refused.
    TasksAreRefused,
    /// Too little; a task is created and has failed at once.
    TasksFail,
}

/// A request that was read whole.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) route: Route,
    /// What its path names: a model, a task, a folder, an object.
    pub(super) subject: String,
    pub(super) head: Head,
    pub(super) body: Received,
}

pub(super) struct State {
    pub(super) clock: Clock,
    pub(super) funds: Funds,
    pub(super) models: Vec<Model>,
    pub(super) tasks: Vec<Task>,
    pub(super) canceled: Vec<String>,
    /// How many of the oldest tasks the history no longer shows.
    pub(super) trimmed: usize,
    pub(super) storage: Storage,
}

impl State {
    pub(super) fn new(storage_origin: String) -> Self {
        let mut storage = Storage::new(storage_origin);
        let sample = storage.put_unlisted("examples/street.png", "image/png", "a street");
        Self {
            clock: Clock::default(),
            funds: Funds::Enough,
            models: vec![Model::color_harmonization(&sample)],
            tasks: Vec::new(),
            canceled: Vec::new(),
            trimmed: 0,
            storage,
        }
    }

    pub(super) fn model(&mut self, id: &str) -> &mut Model {
        let found = self.models.iter_mut().find(|model| model.id() == id);
        found.unwrap_or_else(|| panic!("the service has no model {id}"))
    }

    pub(super) fn answer(&mut self, request: &Request, upload: Option<usize>) -> Answer {
        let now = self.clock.now();
        let body = request.body.first.as_slice();
        if matches!(request.route, Route::StorageUpload | Route::Download) {
            return refuse_foreign_authorization(&request.head).unwrap_or_else(|| match upload {
                Some(_) if self.funds != Funds::Enough => {
                    Answer::storage_error(403, "AccessDenied", "the balance must be positive")
                }
                Some(upload) => self.storage.accept_upload(request, upload, now),
                None => self.storage.download(request),
            });
        }
        if request.head.header("x-api-key") != Some(KEY) {
            return Answer::failure(401, "the API key is missing or not valid");
        }
        match request.route {
            Route::GetBalance => balance(),
            Route::ListModels => catalog::page(&self.models, body),
            Route::GetModel => self.about_model(&request.subject, Model::full_record),
            Route::GetModelCost => self.about_model(&request.subject, Model::cost),
            Route::GetModelServing => self.about_model(&request.subject, Model::serving),
            Route::GetModelVersioning => self.about_model(&request.subject, Model::versioning),
            Route::CreateTask => self.create_task(&request.subject, body),
            Route::GetTask => self.with_task(&request.subject, Push::Read, |task| task.detail()),
            Route::ListTasks => {
                self.let_time_pass();
                tasks::page(&self.tasks[self.trimmed..], request.head.query())
            }
            Route::CancelTask => self.cancel_task(&request.subject),
            Route::CreatePresignedUpload if self.funds != Funds::Enough => {
                Answer::failure(402, "the balance must be positive to upload")
            }
            Route::CreatePresignedUpload => self.storage.presign(body, now),
            Route::ListFiles => self.storage.page(&request.subject, request.head.query()),
            Route::GetStorageStatistics => self.storage.statistics(),
            Route::DeleteFile => self.storage.delete(body),
            Route::StorageUpload | Route::Download | Route::Unknown | Route::Any => not_found(),
        }
    }

    fn about_model(&self, id: &str, tell: fn(&Model) -> Answer) -> Answer {
        self.models.iter().find(|model| model.id() == id).map_or_else(not_found, tell)
    }

    fn create_task(&mut self, model: &str, body: &[u8]) -> Answer {
        let Some(model) = self.models.iter().find(|known| known.id() == model) else { return not_found() };
        let Ok(Value::Object(input)) = serde_json::from_slice(body) else {
            return Answer::failure(400, "the body must be a JSON object");
        };
        if let Some(mistake) = inputs::mistake(&input, &model.version["input_format"]) {
            return Answer::failure(422, &mistake);
        }
        if self.funds == Funds::TasksAreRefused {
            return Answer::failure(402, TOO_LITTLE);
        }
        let input = Value::Object(input);
        let mut task = Task::new(self.tasks.len() + 1, model, input, self.clock.now(), &mut self.storage);
        if self.funds == Funds::TasksFail {
            task = task.with_plan(TaskPlan::new().fails_with(TOO_LITTLE, Value::Null));
        }
        let answer = Answer::success(&json!({"data": task.id()}));
        self.tasks.push(task);
        answer
    }

    /// Puts a task into the history that no request of this client created. Its model need not be in
    /// the catalog: what was withdrawn stays in the history.
    pub(super) fn add_task(&mut self, model: &str, input_data: Value) -> String {
        let number = self.tasks.len() + 1;
        let withdrawn;
        let model = match self.models.iter().find(|known| known.id() == model) {
            Some(known) => known,
            None => {
                withdrawn = Model::new(json!({"id": model}));
                &withdrawn
            }
        };
        let task = Task::new(number, model, input_data, self.clock.now(), &mut self.storage).elsewhere();
        let id = task.id().to_owned();
        self.tasks.push(task);
        id
    }

    fn cancel_task(&mut self, id: &str) -> Answer {
        let now = self.clock.now();
        let answer = self.with_task(id, Push::Time, |task| task.cancel(now));
        if answer.is_success() {
            self.canceled.push(id.to_owned());
        }
        answer
    }

    fn with_task(&mut self, id: &str, push: Push, then: impl FnOnce(&mut Task) -> Answer) -> Answer {
        let Some(task) = self.tasks.iter_mut().find(|task| task.id() == id) else { return not_found() };
        go_on(task, push, &self.models, &self.clock);
        then(task)
    }

    /// Brings every task to where the time has taken it.
    pub(super) fn let_time_pass(&mut self) {
        for task in &mut self.tasks {
            go_on(task, Push::Time, &self.models, &self.clock);
        }
    }

    pub(super) fn note_upload(&mut self, request: &Request) -> Option<usize> {
        (request.route == Route::StorageUpload).then(|| self.storage.note_upload(request))
    }
}

fn go_on(task: &mut Task, push: Push, models: &[Model], clock: &Clock) {
    let is_served = models.iter().any(|model| model.id() == task.model_id && model.is_serving);
    task.go_on(push, is_served, clock.now());
}

fn balance() -> Answer {
    Answer::success(&json!({
        "balance": "128.507300000000000001",
        "free_balance": "5.00",
        "debt": "0",
        "earnings": "17.25",
        "wallet_address": "0x00000000000000000000000000000000000000a1",
    }))
}

fn not_found() -> Answer {
    Answer::failure(404, "not found")
}
