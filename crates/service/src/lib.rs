//! The complete Inferstore service on one machine: accounts, a ledger, a catalog, a durable queue, nodes that run
//! models, and an object store that verifies signatures.
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
//! [`Config::ephemeral`] keeps the data in a temporary folder, which the service deletes at its end. [`Config::folder`]
//! keeps the data in a folder of yours, where acknowledged writes survive a power failure. A folder has one service at
//! a time.
//!
//! # The parts
//!
//! | part | what it does |
//! |---|---|
//! | API | serves every operation of the API document under `/api/v1`, with one format for all errors |
//! | object storage | serves presigned uploads and permanent download URLs on its own address, without API keys |
//! | ledger | reserves the price of a task at its create, charges it on success, releases it otherwise; bills storage; [`Admin::audit`] recomputes every balance |
//! | queue and nodes | lease tasks to nodes, which run them with limits of time and memory; each task ends exactly once, even if nodes die |
//! | operations | serves `/health` and `/metrics` on its own listener, if [`Config::operations`] is set |
//!
//! # What it does not do
//!
//! The service speaks plain HTTP: put a proxy in front of it that does TLS. It has no sign-up pages; the methods of
//! [`Admin`] create accounts and keys.

#![cfg_attr(
    not(feature = "controls"),
    allow(dead_code, unused_imports, reason = "what only controls use is left to the linker")
)]

mod accounts;
mod admin;
mod api;
mod background;
mod catalog;
mod clock;
mod config;
#[cfg_attr(not(feature = "controls"), path = "no_controls.rs")]
mod controls;
mod database;
mod error;
mod files;
mod folder;
#[cfg(feature = "fuzzed")]
#[doc(hidden)]
pub mod fuzzed;
mod hex;
mod http;
mod ids;
mod jobs;
mod ledger;
mod lifecycle;
mod marker;
mod metrics;
mod models;
mod nodes;
mod object_storage;
mod operations;
mod operator;
mod policies;
mod queue;
mod random;
mod registry;
mod shared_clock;
mod shared_files;
mod string_enum;
mod telemetry;
mod totals;
mod transfer;

pub use accounts::{AccountOverview, AccountState, Scope};
pub use admin::{Admin, Backup};
pub use catalog::{Metadata, ModelChange, ModelSpec, ModelState, Visibility, check_model_id};
#[cfg(feature = "controls")]
pub use config::ControlsConfig;
pub use config::{Config, CorsOrigin, Data, DatabaseUrl, FirstAccount, Limits, NotASetting, Roles, S3Config};
#[cfg(feature = "controls")]
pub use controls::{Amounts, Controls, Effect, Fault, JournalEntry, KeptFault, Operation, Side};

pub use error::Error;
pub(crate) use error::Result;
pub use inferstore_models as model;
pub use ledger::{Audit, Credit, Money, NotMoney};
pub use lifecycle::admin_client::{AdminClient, AdminError};
pub use lifecycle::service::Service;
pub use models::serve_models;
#[cfg(feature = "controls")]
pub use nodes::{Script, Then};
pub use queue::InsufficientBalance;
pub use transfer::{DataLocation, Transferred};
