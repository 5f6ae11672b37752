//! The Inferstore client: from inputs to outputs in one call, and never billed twice.
//!
//! ```no_run
//! # async fn example() -> Result<(), inferstore::Error> {
//! use inferstore::{ApiKey, Client, Inputs};
//!
//! let client = Client::new("https://host.example/api/v1", ApiKey::new("…"))?; // or Client::from_env()?
//! let inputs = Inputs::new().file("input_image", "photo.jpg").set("template", "v_shape").set("angle", 30);
//! let outcome = client.model("color-harmonization").run(inputs).await?;
//! println!("{} for {:?}", outcome.output["output_image"], outcome.cost);
//! # Ok(())
//! # }
//! ```
//!
//! What that one call does: it reads what the model declares (once in a while), checks the inputs
//! against it and brings each to the spelling that the model wants, uploads the files (side by side,
//! the same content once), creates the task **at most once**, and waits for it in few requests.
//!
//! # The handles
//!
//! | handle | what it does |
//! |---|---|
//! | [`Client::account`] | the balance |
//! | [`Client::models`] | the catalog, searched, sorted and filtered, as a stream or page by page |
//! | [`Client::model`] | one model: its record, its price, whether it is served, and running it: [`run`](Model::run), [`follow`](Model::follow), [`start`](Model::start) |
//! | [`Client::tasks`] | the history; waiting for [many tasks at once](Tasks::wait_all) |
//! | [`Client::task`] | one task: reading, [waiting](Task::wait), [following](Task::follow), canceling; also in another process |
//! | [`Client::folder`] | one folder: [uploading](Folder::upload) and listing |
//! | [`Client::storage`] | statistics, deleting |
//! | [`Client::request`] | any other request; [`with_payload`] tells what a call was answered, as the service wrote it |
//! | [`Client::download`] | an output as a file, resumed after a drop |
//!
//! # What is sent again, and what is not
//!
//! | operation | is repeated after |
//! |---|---|
//! | every read, the model list, the presigned target | connect failure, timeout, dropped connection, an unreadable answer, 408, 429, 502 to 504, honouring `Retry-After` |
//! | creating a task | a failure before anything was sent; more only if [`RunOptions::repeat_refused_create`] or [`RunOptions::repeat_absent_create`] says so |
//! | canceling a task, deleting a file | a failure before anything was sent |
//! | the bytes of an upload | connect failure, dropped connection, timeout, 5xx; with a fresh target when it was refused |
//!
//! When a create was sent and its answer was lost, the client reads the end of the task history and
//! adopts the one task that has the same model, the same inputs and a fitting time. If there is not
//! exactly one, [`Error::OutcomeUnknown`] names the candidates, and you decide.
//!
//! # Time
//!
//! [`Wait::deadline`] bounds a whole run: uploads, repeats and the wait. Timeouts in [`Settings`] are for
//! silence, not for length, so a large upload over a slow line is fine.
//!
//! # Secrets
//!
//! The API key and the targets of uploads print as `…`, and are masked in what the service sends back.
//! The key is refused over plain `http` to anything but this machine, follows no redirect to another
//! origin, and is not known to the part that talks to object storage.
//!
//! # Features
//!
//! `rustls-ring` (default), `rustls-aws-lc` or `native-tls` choose the TLS, as in
//! [`inferstore_api`].

mod account;
mod any;
mod call;
mod client;
mod clock;
mod create;
mod deadline;
mod download;
mod envelope;
mod error;
mod event;
mod file;
#[cfg(feature = "fuzzed")]
#[doc(hidden)]
pub mod fuzzed;
mod input_files;
mod inputs;
mod many;
mod mime;
mod models;
mod outcome;
mod pace;
mod page;
mod redact;
mod retry;
mod run;
mod same;
mod schema;
mod segment;
mod settings;
mod storage;
mod tasks;
mod text;
mod upload;
mod wait;

pub use account::Account;
pub use any::{Method, with_payload};
pub use client::{API_KEY_VARIABLE, BASE_URL_VARIABLE, Client};
pub use download::{DownloadOptions, DownloadProgress, Downloaded};
pub use error::{
    Context, DeadlineReached, Error, Fate, FileError, OutputMismatch, Result, TaskFailure, UnknownOutcome,
};
pub use event::{RunEvent, RunEvents};
pub use file::File;
pub use inferstore_api::{
    ApiKey, Decimal, KindParts, ModelKind, Sample, Timestamp, UnknownVariant, http_client_builder,
    kind_parts, types,
};
pub use inputs::{Inputs, IntoInputs, InvalidInputs, Problem, Violation};
pub use models::{Model, Models};
pub use outcome::Outcome;
pub use pace::Pace;
pub use page::Page;
pub use retry::Retry;
pub use run::RunOptions;
pub use settings::Settings;
pub use storage::{FileQuery, Folder, Storage};
pub use tasks::{Task, Tasks};
pub use upload::{UploadEvent, UploadOptions, Uploaded};
pub use wait::Wait;
