//! The raw Inferstore client: every operation of the OpenAPI document as a method of [`Client`], and
//! every schema as a type in [`types`].
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use inferstore_api::{ApiKey, Client, types};
//!
//! let client = Client::new("http://127.0.0.1:8787/api/v1", ApiKey::new("…"))?;
//! let request = types::ModelListRequest { search: Some("harmonization".into()), ..Default::default() };
//! for model in client.list_models(&request).await?.into_inner().data.records.unwrap_or_default() {
//!     println!("{} costs {:?}", model.id, model.price);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `cargo xtask generate` generates the client and the types; the rest is written by hand:
//!
//! - amounts are a [`Decimal`], exact to the last digit;
//! - a [`Timestamp`] preserves unreadable text;
//! - open enumerations preserve words that the document does not know;
//! - deserialization is lenient: a response may omit a field, set it to null, add one, or send a number as a
//!   string, as long as it has its identifier;
//! - fields of a descriptor or a version beyond the document are in its field `extra`;
//! - the [`ApiKey`] and the target of an upload (a [`Secret`]) cannot be printed.
//!
//! This crate sends each request once, without retries. A status outside 2xx arrives as
//! [`Error::UnexpectedResponse`] with its headers and body, which [`failure`] reads. An undecodable response
//! arrives as [`Error::InvalidResponsePayload`]; its `Debug` and `Display` print the body, so do not log it for
//! `create_presigned_upload`.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `client` (default) | the [`Client`]; without it the crate is its types, with neither reqwest nor tokio |
//! | `rustls` (default) | TLS by rustls over aws-lc, as the feature `rustls` of reqwest |
//! | `rustls-ring` | TLS by rustls over ring: builds faster, and is for programs, not for libraries; see [`install_ring`] |
//! | `native-tls` | TLS by the library of the operating system; used when no rustls feature is enabled |
//!
//! A feature for TLS implies `client`. Without any of them the client speaks only `http`;
//! [`https_support`] reports it.
//!
//! # Versions
//!
//! Types of these crates are part of the interface, so a new major version of one of them is one of this crate:
//! `reqwest` 0.13 with its `http` 1 and `url` 2, `progenitor-client` 0.15 with its `bytes` 1 and `futures-core` 0.3,
//! `serde` 1 and `serde_json` 1.

#[cfg(feature = "client")]
mod body;
#[cfg(feature = "client")]
mod client;
mod decimal;
mod envelope;
#[rustfmt::skip]
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "written by progenitor"
)]
#[cfg_attr(feature = "client", expect(unreachable_pub, reason = "written by progenitor"))]
mod generated;
mod ids;
mod kinds;
mod lenient;
mod operation;
mod sample;
mod scalar;
mod secret;
mod timestamp;
#[cfg(feature = "client")]
mod tls;
mod words;

#[cfg(feature = "client")]
pub use body::{BodyTooLarge, MAX_RESPONSE_BODY, failure};
#[cfg(feature = "client")]
pub use client::Transport;
pub use decimal::{Decimal, ParseDecimalError};
pub use envelope::{Envelope, NoData};
#[cfg(feature = "client")]
pub use generated::client::{Client, Error, ResponseValue};
pub use generated::{limits, operations, types};
pub use ids::NotVisibleAscii;
#[cfg(feature = "client")]
pub use inferstore_drift::{Difference, Finding};
pub use kinds::{KindParts, ModelKind, kind_parts};
pub use operation::{Operation, Safety};
pub use sample::Sample;
pub use secret::{ApiKey, Secret};
pub use timestamp::{ParseTimestampError, Timestamp};
#[cfg(feature = "rustls-ring")]
pub use tls::install_ring;
#[cfg(feature = "client")]
pub use tls::{
    BuildError, http_client_builder, http_client_builder_for, http_client_builder_sharing_tls, https_support,
    is_plain_loopback, trust_certificates, without_proxy_to_this_machine,
};
pub use words::UnknownVariant;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
