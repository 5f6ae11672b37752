//! The Inferstore client: from inputs to outputs in one call, and never billed twice.
//!
//! ```no_run
//! # async fn example() -> Result<(), inferstore::Error> {
//! use inferstore::{Client, File, Inputs};
//!
//! let client = Client::new("https://host.example/api/v1", "key")?; // or Client::from_env()?
//! let inputs = Inputs::new().file("input_image", File::path("photo.jpg")).set("template", "v_shape").set("angle", 30);
//! let outcome = client.model("color-harmonization").run(inputs).await?;
//! for path in outcome.save_all("outputs").await? {
//!     println!("{}", path.display());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! That one call reads what the model declares (cached for 5 minutes), checks the inputs against it, writes each value in
//! the JSON type that the model takes, uploads the files (concurrently, the same content once), creates the
//! task **at most once**, and polls it: four times within the first second, then on a schedule that learns.
//!
//! # What it does not do
//!
//! It runs no programs, reads no configuration but two environment variables ([`Client::from_env`]), keeps no state on disk,
//! and takes no text for the path of a file. Batches, profiles and the test kit are crates of their own.
//!
//! # Handles
//!
//! | handle | operations |
//! |---|---|
//! | [`Client::model`] | one model: record, price, serving state, and [`run`](Model::run) |
//! | [`Client::models`] | the catalog, searched, sorted and filtered, as a stream |
//! | [`Client::task`] | one task, also in another process: read, [`wait`](Task::wait), cancel |
//! | [`Client::tasks`] | the history |
//! | [`Client::folder`] | one folder: [`upload`](Folder::upload) and list |
//! | [`Client::delete_file`], [`Client::storage_statistics`], [`Client::storage_price`] | stored files |
//! | [`Client::balance`] | the account |
//! | [`Client::download`] | an output as bytes, stream or file |
//! | [`Client::adopt_or_start`] | a [prepared run](PreparedRun) that becomes one task, even across a crash |
//! | [`Client::request`], [`Client::raw`] | any other request; the generated client |
//!
//! The [`cookbook`] has a page for each sort of program. The crate
//! [`inferstore-testing`](https://docs.rs/inferstore-testing) has a service for tests without a network, and
//! [`inferstore-profiles`](https://docs.rs/inferstore-profiles) the profiles of the command `inferstore`, and
//! [`inferstore-batch`](https://docs.rs/inferstore-batch) a journal for batches and one wait for many tasks.
//!
//! # Retries
//!
//! | operation | retried after |
//! |---|---|
//! | every read, the model list, the presigned target | connect failure, timeout, dropped connection, a response that cannot be decoded, 408, 429, 502 to 504, honouring `Retry-After` |
//! | creating a task, where the service knows idempotency keys | as a read, with the same key |
//! | creating a task, elsewhere | a failure before anything was sent |
//! | canceling a task, deleting a file | a failure before anything was sent |
//! | the bytes of an upload | connect failure, dropped connection, timeout, 408, 429, 5xx; with a new target when one was refused |
//!
//! Every create carries an idempotency key, and a service that supports keys announces it in each response: a
//! retried create then returns the task of the first one. Without that support, if the response to a create is
//! lost, the client searches the end of the task history and adopts the one task with the same model, the same
//! inputs and a matching time ([`Outcome::is_adopted`]). If there is not exactly one, [`Error::OutcomeUnknown`]
//! lists the candidates, and you decide. With a [`middleware`], no error proves that nothing was sent.
//!
//! # Secrets
//!
//! The API key and presigned URLs print as `…`, and are masked in every text of the service. The key is refused over
//! plain `http` to other machines, follows no redirect to another origin, and never goes to object storage.
//!
//! # Features
//!
//! `blocking` adds the module `blocking`: every operation in a form for programs without async. `rustls` (default),
//! `rustls-ring` and `native-tls` choose TLS. The [README](https://docs.rs/crate/inferstore/latest) compares them, and
//! says which crates are part of the interface.
// A program cannot spawn a future that is not `Send`.
#![warn(clippy::future_not_send)]

#[cfg(feature = "blocking")]
pub mod blocking;
mod builder;
mod client;
mod files;
mod inputs;
mod memory;
mod resources;
mod run;
mod transport;

pub use builder::{ClientBuilder, Settings};
pub use client::{API_KEY_VARIABLE, BASE_URL_VARIABLE, Client};
pub use files::download::{
    Download, DownloadEvent, DownloadEvents, DownloadStream, DownloadedFile, Limits, rename_new,
};
pub use files::source::File;
pub use files::upload::{Upload, UploadEvent, UploadEvents, UploadedFile};
#[cfg(feature = "rustls-ring")]
pub use inferstore_api::install_ring;
pub use inferstore_api::{
    ApiKey, Decimal, Difference, Finding, KindParts, ModelKind, Sample, Timestamp, UnknownVariant,
    is_plain_loopback, kind_parts, trust_certificates, types,
};
pub use inputs::{Input, Inputs};
/// The HTTP client of this crate, for the types in [`ClientBuilder`] and [`middleware`].
pub use reqwest;
pub use resources::{FileQuery, Folder, Keys, Listing, Model, Page, Tasks};
pub use run::{
    Abandon, Adopt, Outcome, PollInterval, PreparedRun, Run, RunEvent, RunEvents, RunOptions, SaveAll, Task,
    TaskPoll, Wait,
};
pub use transport::retry::Retry;
pub use transport::{
    CallContext, CostLimit, DeadlineReached, Error, ErrorKind, Events, FileError, FileErrorKind, HistoryRead,
    InvalidInputs, Items, OutputMismatch, Resource, Result, Step, TaskDisposition, TaskFailure,
    UnknownOutcome, Violation, ViolationKind,
};
/// For the command, the profiles and the console, which show foreign text and name files as the client does.
#[doc(hidden)]
pub use {
    builder::redact_url,
    files::download::numbered,
    inputs::{by_position, is_http, nearest},
    transport::{is_unprintable, json_problem, printable},
};

/// Custom code around every request.
pub mod middleware {
    pub use futures_util::future::BoxFuture;

    pub use crate::transport::middleware::{Middleware, Next};
}

pub mod cookbook {
    //! Cookbook: one page for each sort of program. The tests compile the code on these pages.
    //!
    //! Three ways to run a model:
    //!
    //! | call | for |
    //! |---|---|
    //! | [`run`](crate::Model::run), awaited | most programs: one call from inputs to the outcome |
    //! | [`start`](crate::Run::start), then [`wait`](crate::Task::wait) | programs that store the task identifier, or wait elsewhere |
    //! | [`prepare`](crate::Model::prepare), then [`adopt_or_start`](crate::Client::adopt_or_start) | programs that may be killed and must not pay twice |
    //!
    //! | page | about |
    //! |---|---|
    //! | [`web_handler`] | a run inside a request: a deadline, and a cancel when the caller disconnects |
    //! | [`typed`] | inputs and outputs as Rust types |
    //! | [`progress`] | uploads, statuses and downloads as events |
    //! | [`sse`] | progress as server-sent events |
    //! | [`graceful_shutdown`] | a worker that stops without losing a task |
    //! | [`errors`] | the meaning of each error, whether to retry, HTTP statuses and exit codes |
    //! | [`http_client`] | proxies, root certificates, timeouts, middleware |
    //! | [`blocking`] | programs without async |
    //! | [`executors`] | smol, async-std and the loop of a user interface |
    //! | [`inferstore-testing`](https://docs.rs/inferstore-testing) | tests: the test kit, values made by hand, the real service |
    //! | [`tracing`] | spans and events for logs and metrics |
    //! | [`opentelemetry`] | spans in a trace, and its context in each request |
    //! | [`cancel_safety`] | the effect of dropping each future |
    //! | [`batch`] | a folder of files, paid once even if the program is killed |
    //!
    //! The folder `examples` of the package has a whole program for most of them.

    macro_rules! pages {
        ($($page:ident)*) => {
            $(#[doc = include_str!(concat!("cookbook/", stringify!($page), ".md"))] pub mod $page {})*
        };
    }
    pages!(batch blocking cancel_safety errors executors graceful_shutdown http_client opentelemetry progress sse tracing typed web_handler);
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
