//! Requests of a stranger, by operation of the document.

use inferstore_document::Operation;
use reqwest::Method;
use serde_json::{Value, json};

use super::victim::Belongings;
use crate::support::caller::{Answer, Caller, Odd};

#[derive(Debug, Clone)]
pub(super) struct Probe {
    pub(super) operation: &'static str,
    method: Method,
    path: String,
    body: Option<Value>,
    has_parameter: bool,
}

/// Returns every request of an operation that could reach resources of another account. Add new operations
/// with parameters or a body here.
pub(super) fn probes(operation: Operation, owns: &Belongings) -> Vec<Probe> {
    let id = operation.id();
    let method: Method = operation.method.to_uppercase().parse().expect("a method");
    let template = operation.path;
    let probe = |value: &str, body: Option<Value>| Probe {
        operation: id,
        method: method.clone(),
        path: crate::support::caller::filled(template, value),
        body,
        has_parameter: template.contains('{'),
    };
    match id {
        "listTasks" => {
            let all = probe("", None);
            vec![Probe { path: format!("{}?limit=100", all.path), ..all }]
        }
        "listModels" => {
            let searches = [&*owns.model, &owns.username].map(|text| json!({ "search": text }));
            let filters = ["author", "permission", "public", "community"];
            let filters = filters.map(|word| json!({ "filter_by": word, "search": owns.model }));
            searches.into_iter().chain(filters).map(|body| probe("", Some(body))).collect()
        }
        "getModel" | "getModelCost" | "getModelServing" | "getModelVersioning" => {
            vec![probe(&owns.model, None)]
        }
        "createTask" | "createTaskAlias" => vec![probe(&owns.model, Some(json!({ "say": "psst" })))],
        "getTask" | "cancelTask" => {
            [&owns.queued, &owns.computing, &owns.ended].map(|task| probe(task, None)).to_vec()
        }
        "createPresignedUpload" => {
            let order = json!({
                "folder": "documents", "mime": "image/bmp", "name": "private plans.bmp", "size": 70,
                "org_username": owns.username,
            });
            vec![probe("", Some(order))]
        }
        "listFiles" => {
            let path = owns.file.rsplit('/').nth(2).unwrap_or_default();
            ["documents", path, &owns.username].map(|folder| probe(folder, None)).to_vec()
        }
        "deleteFile" => vec![probe("", Some(json!({ "url": owns.file })))],
        "getTaskLogs" => vec![probe(&owns.ended, None)],
        // Refused for everyone: a stranger may make keys of its own account.
        "createKey" => vec![probe("", Some(json!({ "name": "" })))],
        "revokeKey" => vec![probe(&owns.key, None)],
        _ if !template.contains('{') && operation.request().is_none() => vec![probe("", None)],
        other => panic!("the operation {other} is new: say here what a stranger may not see of it"),
    }
}

impl Probe {
    pub(super) async fn send(&self, caller: &Caller, headers: &[(&str, &str)], query: &str) -> Answer {
        let joint = match (query, self.path.contains('?')) {
            ("", _) => "",
            (_, true) => "&",
            (_, false) => "?",
        };
        let mut headers = headers.to_vec();
        headers.extend(self.body.as_ref().map(|_| ("content-type", "application/json")));
        let odd = Odd { headers, body: self.body.as_ref().map(|body| body.to_string().into_bytes()) };
        caller.send(self.method.clone(), &format!("{}{joint}{query}", self.path), odd).await
    }

    pub(super) fn is_for_the_owner(&self) -> bool {
        let names_something = self.has_parameter || self.body.is_some();
        names_something && !matches!(self.operation, "listModels" | "listFiles" | "createKey")
    }
}
