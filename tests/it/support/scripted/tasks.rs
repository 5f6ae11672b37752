//! The tasks: how they are created, what the API tells about them, and how they are canceled.

use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::catalog::Model;
use super::clock::Stamp;
use super::plan::{End, Progress, Push, TaskPlan};
use super::storage::Storage;
use super::uri;

/// A task that a request created.
#[derive(Clone, Debug)]
pub(crate) struct CreatedTask {
    pub(crate) id: String,
    pub(crate) model_id: String,
    pub(crate) input_data: Value,
    pub(crate) status: String,
}

pub(super) struct Task {
    id: String,
    pub(super) model_id: String,
    input_data: Value,
    input_format: Value,
    output_format: Value,
    cost: Value,
    made_up_result: Value,
    plan: TaskPlan,
    progress: Progress,
    is_canceled: bool,
    pub(super) was_requested: bool,
    created_at: String,
    updated_at: String,
}

impl Task {
    pub(super) fn new(
        number: usize,
        model: &Model,
        input_data: Value,
        now: Stamp,
        storage: &mut Storage,
    ) -> Self {
        let id = format!("task-{number:06}");
        let declared = |name| model.version[name].clone();
        Self {
            made_up_result: made_up_result(&id, &model.version["output_format"], storage),
            id,
            model_id: model.id().to_owned(),
            input_data,
            input_format: declared("input_format"),
            output_format: declared("output_format"),
            cost: model.plan.cost.clone().unwrap_or_else(|| model.record["price"].clone()),
            plan: model.plan.clone(),
            progress: Progress::new(),
            is_canceled: false,
            was_requested: true,
            created_at: now.iso(),
            updated_at: now.iso(),
        }
    }

    pub(super) fn with_plan(self, plan: TaskPlan) -> Self {
        Self { plan, ..self }
    }

    pub(super) fn elsewhere(self) -> Self {
        Self { was_requested: false, ..self }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn go_on(&mut self, push: Push, served: bool, now: Stamp) {
        if !self.is_canceled && self.progress.go_on(&self.plan, push, served) {
            self.updated_at = now.iso();
        }
    }

    fn status(&self) -> &str {
        match (self.progress.word(&self.plan), &self.plan.end) {
            _ if self.is_canceled => "canceled",
            (Some(word), _) => word,
            (None, End::Success(_)) => "success",
            (None, End::Failed { .. }) => "failed",
            (None, End::Canceled) => "canceled",
        }
    }

    /// What tells a task that ended apart: cost, message and result.
    fn outcome(&self) -> [Value; 3] {
        match &self.plan.end {
            _ if self.is_canceled => [json!(0), Value::Null, Value::Null],
            _ if self.progress.word(&self.plan).is_some() => [Value::Null, Value::Null, Value::Null],
            End::Success(result) => {
                let result = result.as_ref().unwrap_or(&self.made_up_result);
                [self.cost.clone(), json!(""), json!({"result": result, "error": null})]
            }
            End::Failed { message, error } => {
                [json!(0), json!(message), json!({"result": null, "error": error})]
            }
            End::Canceled => [json!(0), Value::Null, Value::Null],
        }
    }

    pub(super) fn detail(&self) -> Answer {
        let [cost, message, result] = self.outcome();
        Answer::success(&json!({
            "id": self.id,
            "task_id": self.id,
            "status": self.status(),
            "cost": cost,
            "message": message,
            "input_data": self.input_data,
            "input_format": self.input_format,
            "output_format": self.output_format,
            "result": result,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }))
    }

    fn record(&self) -> Value {
        let [cost, ..] = self.outcome();
        json!({
            "task_id": self.id,
            "status": self.status(),
            "model_id": self.model_id,
            "cost": cost,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        })
    }

    pub(super) fn cancel(&mut self, now: Stamp) -> Answer {
        if self.status() != "in_queue" {
            return Answer::failure(409, "only a task in the queue can be canceled");
        }
        self.is_canceled = true;
        self.updated_at = now.iso();
        Answer::done("task canceled")
    }

    pub(super) fn as_created(&self) -> CreatedTask {
        CreatedTask {
            id: self.id.clone(),
            model_id: self.model_id.clone(),
            input_data: self.input_data.clone(),
            status: self.status().to_owned(),
        }
    }
}

/// A page of the history.
pub(super) fn page(tasks: &[Task], query: &str) -> Answer {
    let number = |name, default| match uri::query_value(query, name) {
        Some(text) => text.parse::<usize>().ok(),
        None => Some(default),
    };
    let (Some(limit @ 1..=100), Some(offset)) = (number("limit", 10), number("offset", 0)) else {
        return Answer::failure(400, "limit must be from 1 to 100, offset at least 0");
    };
    let records: Vec<Value> = tasks.iter().skip(offset).take(limit).map(Task::record).collect();
    Answer::success(&json!({"records": records, "total": tasks.len()}))
}

/// Something for every output that the model declares; files can be downloaded.
fn made_up_result(id: &str, output_format: &Value, storage: &mut Storage) -> Value {
    let mut result = Map::new();
    for (name, descriptor) in output_format.as_object().into_iter().flatten() {
        let value = match descriptor["type"].as_str() {
            Some("file") => {
                let content = format!("{name} of {id}");
                json!(storage.put_unlisted(
                    &format!("outputs/{id}/{name}.png"),
                    "image/png",
                    content.as_str()
                ))
            }
            Some("int" | "float") => json!(1),
            _ => json!(format!("{name} of {id}")),
        };
        result.insert(name.clone(), value);
    }
    Value::Object(result)
}
