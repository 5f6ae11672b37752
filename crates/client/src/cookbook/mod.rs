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

#[doc = include_str!("batch.md")]
pub mod batch {}
#[doc = include_str!("blocking.md")]
pub mod blocking {}
#[doc = include_str!("cancel_safety.md")]
pub mod cancel_safety {}
#[doc = include_str!("errors.md")]
pub mod errors {}
#[doc = include_str!("http_client.md")]
pub mod http_client {}
#[doc = include_str!("progress.md")]
pub mod progress {}
#[doc = include_str!("tests_without_network.md")]
pub mod tests_without_network {}
#[doc = include_str!("tracing.md")]
pub mod tracing {}
#[doc = include_str!("typed.md")]
pub mod typed {}
#[doc = include_str!("web_handler.md")]
pub mod web_handler {}
