//! Redaction: secrets are planted everywhere, and searched in everything that a program could print.

use std::error::Error as _;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::{ApiKey, Client, Error, File, Inputs};
use inferstore_api::operations;
use inferstore_service::{Fault, Operation};
use reqwest::{Request, Response, Url};
use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

use super::on_the_service::{MODEL, builder_of, start};
use super::{IMAGE, Quickly, built, inputs, quick};
use inferstore_wire::{Server, response};

const PLANTED_SECRET: &str = "planted-signature-27c0";

#[derive(Default)]
struct Surfaces(Vec<(String, String)>);

impl Surfaces {
    fn add(&mut self, name: &str, value: &(impl Debug + ?Sized)) {
        self.0.push((format!("{name} as Debug"), format!("{value:?}")));
        self.0.push((format!("{name} as pretty Debug"), format!("{value:#?}")));
    }

    fn add_error(&mut self, name: &str, error: &Error) {
        self.add(name, error);
        self.0.push((format!("{name} as Display"), error.to_string()));
        self.0.push((format!("hint of {name}"), error.hint().to_owned()));
        let mut source = error.source();
        while let Some(inner) = source {
            self.0.push((format!("source of {name}"), format!("{inner} {inner:?}")));
            source = inner.source();
        }
    }

    fn search(&self, secrets: &[&str]) {
        let shown = |text: &str| secrets.iter().any(|secret| text.contains(secret));
        let found: Vec<_> = self.0.iter().filter(|(_, text)| shown(text)).collect();
        assert!(found.is_empty(), "{found:#?}");
    }
}

#[tokio::test]
async fn no_surface_shows_a_planted_secret() {
    let log = Log::of_this_thread();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).finish();
    // For the whole process: tracing caches disabled spans, and other tests may run first.
    tracing::subscriber::set_global_default(subscriber).expect("no other test listens");
    let mut surfaces = Surfaces::default();

    let (service, controls, _) = start().await;
    let issued = Issued::default();
    let client = built(builder_of(&service).middleware(issued.clone()));
    let key = service.api_key().expect("a fresh service has a key");
    surfaces.add("client", &client);
    surfaces.add("builder", &builder_of(&service));
    surfaces.add("key", &ApiKey::new(key));
    surfaces.add("model", &client.model(MODEL));
    surfaces.add("task", &client.task("t"));
    surfaces.add("folder", &client.folder("samples"));
    surfaces.add("tasks", &client.tasks());
    surfaces.add("run", &client.model(MODEL).run(inputs()));

    let file = || File::bytes("a.png", vec![7_u8; 64]);
    let uploaded = client.folder("samples").upload(file()).await.expect("it is uploaded");
    surfaces.add("upload", &uploaded);
    let large = File::bytes("large.png", vec![7_u8; 5_242_881]);
    surfaces.add("large upload", &client.folder("samples").upload(large).await.expect("it is uploaded"));
    let echo = format!(
        "<Error><Code>Denied</Code><Message>policy={PLANTED_SECRET} x-api-key: {key}</Message></Error>"
    );
    let echo = |status| Fault::status(status).body("application/xml", &echo);
    for fault in
        [echo(400), echo(403), echo(500), Fault::hang_up(), Fault::status(307).header("location", IMAGE)]
    {
        controls.add_fault(fault.on(Operation::POST_OBJECT)).expect("it is a fault");
        let error = client.folder("samples").upload(file()).await.expect_err("it is refused");
        surfaces.add_error("upload error", &error);
        let with_file = inputs().file("input_image", file());
        let error = client.model(MODEL).run(with_file).quickly().await.expect_err("no file, no run");
        surfaces.add_error("run error", &error);
        controls.clear_faults();
    }
    let half =
        format!(r#"{{"status":"success","data":{{"endpoint":"https://b/?X-Amz-Signature={PLANTED_SECRET}"#);
    for fault in [Fault::status(200).body("application/json", half), Fault::cut_body(400)] {
        controls.add_fault(fault.on(operations::CREATE_PRESIGNED_UPLOAD)).expect("it is a fault");
        let error = client.folder("samples").upload(file()).await.expect_err("there is no target");
        surfaces.add_error("presign error", &error);
        controls.clear_faults();
    }
    for status in
        ["400 Bad Request", "401 Unauthorized", "403 Forbidden", "500 Oops", "502 Bad Gateway", "200 OK"]
    {
        let body = format!(
            r#"{{"status":"fail","message":"bad x-api-key: {key}","signature":"X-Amz-Signature={PLANTED_SECRET}"}}"#
        );
        let server = Server::answering(response(status, "application/json", &body));
        let client = built(quick(server.base_url(), key));
        surfaces.add_error("echo", &client.balance().await.expect_err("it is a failure"));
        surfaces.add_error("echo of a create", &create_unchecked(&client).await);
    }
    let absent = built(quick("http://127.0.0.1:9/api/v1", key));
    surfaces.add_error("absent", &absent.balance().await.expect_err("there is no listener"));
    let broken = Client::new(service.base_url(), format!("{key}\nx"));
    surfaces.add_error("broken key", &broken.expect_err("it cannot be sent"));
    let insecure = Client::new("http://host.example/api/v1", key);
    surfaces.add_error("insecure", &insecure.expect_err("the key would be readable"));
    let signed = format!("https://files.example/a?X-Amz-Signature={PLANTED_SECRET}");
    let wrong = Inputs::new().set("template", &signed).set("input_image", 5).set("angle", &signed);
    let error = client.model(MODEL).run(wrong).quickly().await.expect_err("it does not fit");
    surfaces.add_error("inputs", &error);

    surfaces.0.push(("the log at trace level".to_owned(), log.text()));
    assert!(surfaces.0.len() >= 40, "only {} surfaces", surfaces.0.len());
    assert!(log.text().contains("getBalance"), "the log is there: {}", log.text());
    let issued = issued.secrets();
    assert!(issued.len() > 10, "only {} secrets", issued.len());
    surfaces.search(&[key, PLANTED_SECRET]);
    surfaces.search(&issued.iter().map(String::as_str).collect::<Vec<_>>());
}

async fn create_unchecked(client: &Client) -> Error {
    let unchecked =
        client.model(MODEL).run(inputs()).quickly().options(|options| options.skip_validation = true);
    unchecked.start().await.expect_err("it is a failure")
}

#[derive(Clone, Default)]
struct Issued(Arc<Mutex<Vec<String>>>);

impl Issued {
    fn secrets(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn collect(&self, presigned: &Value) {
        let text = |field: &str| presigned["data"][field].as_str().unwrap_or_default().to_owned();
        let fields: Value = serde_json::from_str(&text("fields")).unwrap_or_default();
        let fields = ["policy", "x-amz-signature"].map(|name| fields[name].as_str().map(str::to_owned));
        let endpoint = Url::parse(&text("endpoint")).ok();
        let signature = endpoint.and_then(|endpoint| {
            let mut query = endpoint.query_pairs();
            query.find(|(name, _)| name == "X-Amz-Signature").map(|(_, value)| value.into_owned())
        });
        let secrets = fields.into_iter().flatten().chain(signature);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(secrets);
    }
}

impl Middleware for Issued {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async move {
            let is_presign = request.url().path().ends_with("/create-presigned-url");
            let response = next.run(request).await?;
            if !is_presign || !response.status().is_success() {
                return Ok(response);
            }
            let body = response.bytes().await?;
            self.collect(&serde_json::from_slice(&body).unwrap_or_default());
            Ok(http::Response::new(body).into())
        })
    }
}

#[derive(Clone)]
struct Log {
    text: Arc<Mutex<Vec<u8>>>,
    thread: ThreadId,
}

impl Log {
    fn of_this_thread() -> Self {
        Self { text: Arc::default(), thread: thread::current().id() }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if thread::current().id() == self.thread {
            self.text.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
