//! The Inferstore service, whole and real, on one machine: accounts, a ledger, a catalog, a durable queue,
//! nodes that run models, and an object store that verifies signatures.
//!
//! ```
//! use inferstore_service::{Config, Service};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = Service::start(Config::ephemeral()).await?;
//! let (base_url, api_key) = (service.base_url(), service.api_key());
//! assert!(base_url.ends_with("/api/v1") && api_key.is_some());
//! // … talk to it with any client …
//! assert!(service.audit().await?.faults.is_empty());
//! service.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`Config::ephemeral`] keeps its data in a temporary folder that goes with the service, and
//! [`Config::folder`] in a folder of yours, where what was acknowledged survives the loss of power. A
//! folder has one service at a time.
//!
//! # The parts
//!
//! | part | what it does |
//! |---|---|
//! | API | every operation of the document under `/api/v1`, every refusal in one shape |
//! | object storage | on an address of its own, so that no key is ever wanted there: uploads in both tiers, downloads by permanent URL |
//! | ledger | a price is set aside when a task is created, charged when it succeeds, given back otherwise; storage is billed apart; [`Admin::audit`] adds it all up again |
//! | queue and nodes | tasks are leased, run with limits of time and memory, and end exactly once, even when nodes die |
//! | operations | `/health` and `/metrics` on a listener of their own, if [`Config::operations`] says where |
//!
//! # What it does not do
//!
//! It speaks plain HTTP: put a proxy in front of it that does TLS. It has no pages for signing up;
//! accounts and keys are made with the methods of [`Admin`].

#![cfg_attr(
    not(feature = "controls"),
    allow(dead_code, unused_imports, reason = "what only controls use is left to the linker")
)]

mod accounts;
mod admin;
mod api;
mod catalog;
mod clock;
#[cfg(feature = "controls")]
mod controls;
mod database;
mod error;
#[cfg(feature = "fuzzed")]
#[doc(hidden)]
pub mod fuzzed;
mod http;
mod jobs;
mod ledger;
mod lifecycle;
mod models;
mod nodes;
mod object_storage;
mod operations;
mod queue;
mod random;
mod words;

pub use accounts::{AccountOverview, AccountState, Scope};
pub use admin::{Admin, AdminClient, AdminError, Backup};
pub use catalog::{Metadata, ModelChange, ModelSpec, ModelState, Visibility};
#[cfg(feature = "controls")]
pub use controls::{
    Amounts, Controls, ControlsConfig, Effect, Fault, JournalEntry, KeptFault, Operation, Script, Side, Then,
};
pub use error::Error;
pub(crate) use error::Result;
pub use inferstore_models as model;
pub use ledger::{Audit, Credit, Money, NotMoney};
pub use lifecycle::cluster::{DatabaseUrl, NotASetting, Roles};
pub use lifecycle::config::{Config, CorsOrigin, Data, FirstAccount, Limits};
pub use lifecycle::service::Service;
pub use models::serve_models;
pub use object_storage::S3Config;
pub use queue::InsufficientBalance;
