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
//! | creating a task | a failure before anything was sent; more only if [`RunOptions::retry_create_on_rejection`] or [`RunOptions::retry_create_if_absent_after`] says so |
//! | canceling a task, deleting a file | a failure before anything was sent |
//! | the bytes of an upload | connect failure, dropped connection, timeout, 5xx; with a fresh target when it was refused |
//!
//! When a create was sent and its answer was lost, the client reads the end of the task history and
//! adopts the one task that has the same model, the same inputs and a fitting time. If there is not
//! exactly one, [`Error::OutcomeUnknown`] names the candidates, and you decide.
//!
//! # Time
//!
//! [`WaitOptions::deadline`] bounds a whole run: uploads, repeats and the wait. Timeouts in [`Settings`] are for
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

mod client;
mod files;
#[cfg(feature = "fuzzed")]
#[doc(hidden)]
pub mod fuzzed;
mod inputs;
mod resources;
mod run;
mod settings;
mod transport;

pub use client::{API_KEY_VARIABLE, BASE_URL_VARIABLE, Client};
pub use files::download::{Download, DownloadOptions, DownloadProgress};
pub use files::source::File;
pub use files::upload::{UploadEvent, UploadOptions, UploadedFile};
pub use inferstore_api::{
    ApiKey, Decimal, ModelKind, Sample, Timestamp, UnknownWord, http_client_builder, types,
};
pub use inputs::{FileInput, Input, Inputs};
pub use resources::account::Account;
pub use resources::models::{Model, Models};
pub use resources::page::Page;
pub use resources::raw::{Method, with_payload};
pub use resources::storage::{FileQuery, Folder, Storage};
pub use resources::tasks::{Task, Tasks};
pub use run::event::{RunEvent, RunEvents};
pub use run::outcome::Outcome;
pub use run::pace::PollInterval;
pub use run::run::RunOptions;
pub use run::wait::WaitOptions;
pub use settings::Settings;
pub use transport::error::{
    CallContext, DeadlineReached, Error, FileError, OutputMismatch, Result, TaskDisposition, TaskFailure,
    UnknownOutcome,
};
pub use transport::retry::Retry;
pub use transport::violation::{InvalidInputs, Violation, ViolationKind};
