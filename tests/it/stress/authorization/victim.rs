//! Account with one resource of each type, and a view of all of them.

use std::time::Duration;

use inferstore_service::{Config, Controls, ModelSpec, Scope, Script, Service};
use serde_json::{Value, json};

use super::super::uploads::Target;
use crate::support::caller::Caller;
use crate::support::picture::red_and_blue;

const HOUR: Duration = Duration::from_hours(1);

pub(super) const MODEL: &str = "color-extraction";

#[derive(Debug, Clone)]
pub(super) struct Belongings {
    pub(super) queued: String,
    pub(super) computing: String,
    pub(super) ended: String,
    pub(super) model: String,
    pub(super) file: String,
    pub(super) username: String,
    pub(super) key: String,
}

pub(super) struct Victim {
    pub(super) caller: Caller,
    pub(super) owns: Belongings,
}

impl Victim {
    pub(super) async fn endow(service: &Service, controls: &Controls, caller: &Caller, name: &str) -> Self {
        let model = format!("private-to-{name}");
        let format = |text: &str| json!({ text: { "type": "string", "required": true, "position": 0 } });
        let spec = json!({
            "id": model, "name": "secret", "description": format!("Known to {name} alone."), "price": "0.01",
            "visibility": "private", "input_format": format("say"), "output_format": format("said"),
        });
        let spec = ModelSpec::from_json(&spec.to_string()).expect("the model is well-formed");
        service.publish_model(name, spec).await.expect("the model can be published");

        let file = upload(caller, "documents", "private plans.bmp").await;
        let run = async |model: &str, input: Value| {
            let answer = caller.post(&format!("/api-key/model/{model}/task"), &input).await;
            answer.data()["data"].as_str().expect("a task has an identifier").to_owned()
        };
        let queued = run(&model, json!({ "say": "psst" })).await;
        let script =
            async |script: Script| controls.let_model(MODEL, script).await.expect("the model is there");
        script(Script::run()).await;
        let ended = run(MODEL, json!({ "input": file })).await;
        until(caller, &ended, "success").await;
        script(Script::run().after(HOUR)).await;
        let computing = run(MODEL, json!({ "input": file })).await;
        until(caller, &computing, "computing").await;
        script(Script::run()).await;
        let key = caller.post("/api-key/keys", &json!({ "name": "second" })).await;
        let key = key.data()["id"].as_str().expect("a key has an identifier").to_owned();
        let owns = Belongings { queued, computing, ended, model, file, username: name.to_owned(), key };
        Self { caller: caller.clone(), owns }
    }

    pub(super) async fn view(&self) -> Vec<Value> {
        let owns = &self.owns;
        let mut view = Vec::new();
        for path in [
            "/api-key/balance".to_owned(),
            "/api-key/task/histories?limit=100".to_owned(),
            format!("/api-key/task/{}/detail", owns.queued),
            format!("/api-key/task/{}/detail", owns.computing),
            format!("/api-key/task/{}/detail", owns.ended),
            format!("/api-key/model/{}", owns.model),
            format!("/api-key/model/{}/versioning", owns.model),
            "/api-key/storage/upload/documents".to_owned(),
            "/api-key/storage/upload/statistics".to_owned(),
            "/api-key/keys".to_owned(),
        ] {
            view.push(self.caller.get(&path).await.data().clone());
        }
        view.push(
            self.caller.post("/api-key/model/list", &json!({"filter_by": "author"})).await.data().clone(),
        );
        view
    }
}

impl Belongings {
    pub(super) fn made_up(&self, service: &Service) -> Self {
        let hex = |digits: usize| (0..digits).map(|_| fastrand::digit(16)).collect::<String>();
        let task = || format!("{}-{}-4{}-a{}-{}", hex(8), hex(4), hex(3), hex(3), hex(12));
        // As long as a real URL, because messages show its beginning.
        let bucket = format!("{}/files-ofnoone123456789", service.storage_url());
        Self {
            queued: task(),
            computing: task(),
            ended: task(),
            model: "private-and-unknown".to_owned(),
            file: format!("{bucket}/{}/documents/private%20plans.bmp", hex(32)),
            username: "no-such-account".to_owned(),
            key: hex(12),
        }
    }

    pub(super) fn names(&self) -> [&str; 7] {
        [&self.queued, &self.computing, &self.ended, &self.model, &self.file, &self.username, &self.key]
    }
}

pub(super) async fn upload(caller: &Caller, folder: &str, name: &str) -> String {
    let content = red_and_blue();
    let order = json!({"folder": folder, "mime": "image/bmp", "name": name, "size": content.len()});
    let target =
        Target::read(caller.post("/api-key/storage/upload/create-presigned-url", &order).await.data());
    let reply = target.upload(content).send().await.expect("an answer");
    assert_eq!(reply.status, 204, "{reply:?}");
    target.download_url
}

pub(super) async fn until(caller: &Caller, task: &str, status: &str) {
    let path = format!("/api-key/task/{task}/detail");
    let is_reached = || async { caller.get(&path).await.data()["status"] == status };
    inferstore_wire::until(&format!("{task} is {status}"), is_reached).await;
}

pub(super) async fn start() -> (Service, Controls, [Victim; 2]) {
    let mut config = Config::ephemeral().with_controls();
    config.workers = 3;
    config.owners_manage_keys = Some(true);
    config.operations = Some(([127, 0, 0, 1], 0).into());
    config.nodes = Some(([127, 0, 0, 1], 0).into());
    let service = Service::start(config).await.expect("the service starts");
    let controls = service.controls().expect("they are on");
    service.add_account("acme", Scope::Organization).await.expect("the name is free");
    let person = Caller::first(&service);
    let mut victims = Vec::new();
    for (caller, name) in [(person.clone(), "demo"), (key_of(&service, &person, "acme").await, "acme")] {
        victims.push(Victim::endow(&service, &controls, &caller, name).await);
    }
    (service, controls, victims.try_into().unwrap_or_else(|_| panic!("there are two")))
}

pub(super) async fn key_of(service: &Service, caller: &Caller, name: &str) -> Caller {
    let money = "10".parse().expect("an amount");
    service.credit(name, inferstore_service::Credit::Paid(money)).await.expect("the account is there");
    caller.with_key(Some(&service.add_key(name).await.expect("the account is there")))
}
