//! The Inferstore client: from inputs to outputs in one call, and never billed twice.
//!
//! ```no_run
//! # async fn example() -> Result<(), inferstore::Error> {
//! use inferstore::{Client, Inputs};
//!
//! let client = Client::new("https://host.example/api/v1", "key")?; // or Client::from_env()?
//! let inputs = Inputs::new().file("input_image", "photo.jpg").set("template", "v_shape").set("angle", 30);
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
//! task **at most once**, and polls it on a schedule that learns.
//!
//! # Handles
//!
//! | handle | operations |
//! |---|---|
//! | [`Client::model`] | one model: record, price, serving state, and [`run`](Model::run) |
//! | [`Client::models`] | the catalog, searched, sorted and filtered, as a stream or page by page |
//! | [`Client::task`] | one task, also in another process: read, [`wait`](Task::wait), cancel |
//! | [`Client::tasks`] | the history; [`wait_all`](Tasks::wait_all) for many tasks at once |
//! | [`Client::folder`] | one folder: [`upload`](Folder::upload) and list |
//! | [`Client::storage`] | statistics, deletion |
//! | [`Client::account`] | the balance |
//! | [`Client::download`] | an output as bytes, stream, file or writer, resumed after a lost connection |
//! | [`Client::adopt_or_start`] | a [prepared run](PreparedRun) that becomes one task, even across a crash |
//! | [`Client::request`], [`Client::raw`] | any other request; the generated client |
//!
//! The [`cookbook`] has a page for each kind of program, and [`testing`] a service for tests without a network.
//!
//! # Retries
//!
//! | operation | retried after |
//! |---|---|
//! | every read, the model list, the presigned target | connect failure, timeout, dropped connection, a response that cannot be decoded, 408, 429, 502 to 504, honouring `Retry-After` |
//! | creating a task | a failure before anything was sent; more only with [`Run::retry_create_on_rejection`] or [`Run::retry_create_if_absent_after`] |
//! | canceling a task, deleting a file | a failure before anything was sent |
//! | the bytes of an upload | connect failure, dropped connection, timeout, 408, 429, 5xx; with a new target when one was refused |
//!
//! When the response to a create is lost, the client searches the end of the task history and adopts the one
//! task that has the same model, the same inputs and a matching time. If there is not exactly one,
//! [`Error::OutcomeUnknown`] names the candidates, and you decide.
//!
//! # Secrets
//!
//! The API key and presigned URLs print as `…`, and are masked in every text of the service. The key is
//! refused over plain `http` to other machines, follows no redirect to another origin, and is unknown to
//! the part that talks to object storage.
//!
//! # Features
//!
//! | feature | TLS |
//! |---|---|
//! | `rustls-ring` (default) | rustls over ring, with the certificates of the system; builds fast |
//! | `rustls-aws-lc` | rustls over aws-lc; set `default-features = false` to build without ring |
//! | `native-tls` | the library of the operating system |

mod builder;
mod client;
mod files;
#[cfg(feature = "__fuzz")]
#[doc(hidden)]
pub mod fuzzed;
mod inputs;
mod memory;
mod profile;
mod resources;
mod run;
pub mod testing;
mod transport;

pub use builder::ClientBuilder;
pub use client::{API_KEY_VARIABLE, BASE_URL_VARIABLE, Client};
pub use files::download::{Download, DownloadEvent, DownloadEvents, DownloadStream, DownloadedFile};
pub use files::source::File;
pub use files::upload::{Upload, UploadEvent, UploadEvents, UploadedFile};
pub use inferstore_api::{
    ApiKey, Decimal, KindParts, ModelKind, Sample, Timestamp, UnknownVariant, kind_parts, types,
};
pub use inputs::{Input, Inputs};
pub use profile::{CONFIG_VARIABLE, PROFILE_VARIABLE};
// For the command, which runs the programs of keyrings; they may change in any version.
#[doc(hidden)]
pub use profile::{printed_key, run_program};
/// The HTTP client of this crate, for the types in [`ClientBuilder`] and [`middleware`].
pub use reqwest;
pub use resources::{Account, FileQuery, Folder, Listing, Model, Models, Page, Storage, Task, Tasks};
pub use run::{Outcome, PollInterval, PreparedRun, Run, RunEvent, RunEvents, Wait, WaitAll};
pub use transport::causes::{FileError, FileErrorKind, InvalidInputs, Violation, ViolationKind};
pub use transport::retry::Retry;
pub use transport::{
    CallContext, CostLimit, DeadlineReached, Error, Events, Items, ModelOffline, OutputMismatch, Result,
    TaskDisposition, TaskFailure, UnknownOutcome,
};

/// Code of the user around every request.
pub mod middleware {
    pub use futures_util::future::BoxFuture;

    pub use crate::transport::{Middleware, Next};
}

pub mod cookbook {
    //! Cookbook: one page for each kind of program. The code on these pages is compiled
    //! by the tests.
    //!
    //! | page | about |
    //! |---|---|
    //! | [`web_handler`] | a run inside a request: a deadline, and a cancel when the caller disconnects |
    //! | [`batch`] | a folder of files, paid once even when the program is killed |
    //! | [`typed`] | inputs and outputs as Rust types |
    //! | [`progress`] | uploads, statuses and downloads as events |
    //! | [`errors`] | every error: what it means, whether to retry, HTTP statuses and exit codes |
    //! | [`http_client`] | proxies, root certificates, timeouts, middleware |
    //! | [`blocking`] | programs without async |
    //! | [`tests_without_network`] | the test kit, values made by hand, the real service in a test |
    //! | [`tracing`] | spans and events for logs and metrics |
    //! | [`cancel_safety`] | what dropping each future does |
    //!
    //! The folder `examples` of the package has a whole program for most of them.

    #[doc = include_str!("cookbook/batch.md")]
    pub mod batch {}
    #[doc = include_str!("cookbook/blocking.md")]
    pub mod blocking {}
    #[doc = include_str!("cookbook/cancel_safety.md")]
    pub mod cancel_safety {}
    #[doc = include_str!("cookbook/errors.md")]
    pub mod errors {}
    #[doc = include_str!("cookbook/http_client.md")]
    pub mod http_client {}
    #[doc = include_str!("cookbook/progress.md")]
    pub mod progress {}
    #[doc = include_str!("cookbook/tests_without_network.md")]
    pub mod tests_without_network {}
    #[doc = include_str!("cookbook/tracing.md")]
    pub mod tracing {}
    #[doc = include_str!("cookbook/typed.md")]
    pub mod typed {}
    #[doc = include_str!("cookbook/web_handler.md")]
    pub mod web_handler {}
}
