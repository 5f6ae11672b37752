//! Connections to PostgreSQL: the URL, limits of time, TLS, the pool.

use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::tls::Tls;
use crate::{Error, Result};

/// How many connections one process keeps at most, besides one that listens.
pub(crate) const MAX_CONNECTIONS: usize = 20;
/// How long a request waits for a free connection, and for a new one to be opened.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long data may stay without an acknowledgement of the other machine.
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(20);

/// A process that hangs must not keep the locks of others from ever being given, and no statement waits longer for
/// one than its caller would.
const SESSION: &str = "SET idle_in_transaction_session_timeout = '20s'; SET lock_timeout = '15s'; \
     SET statement_timeout = '10min'; SET default_transaction_isolation = 'read committed'";

/// Reads the URL. Its text holds a password, so no error quotes it.
pub(super) fn config(url: &str) -> Result<Config> {
    let doing = "reading the URL of the database";
    let mut config: Config = url.parse().map_err(|cause: tokio_postgres::Error| {
        Error::new(doing, super::failure::describe(&cause))
            .with_hint("it has the form postgres://user:password@host:5432/name?sslmode=require")
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(Error::new(doing, "it names no host"));
    }
    if config.get_application_name().is_none() {
        config.application_name("inferstore");
    }
    config.tcp_user_timeout(UNACKNOWLEDGED_TIMEOUT);
    config.keepalives_idle(UNACKNOWLEDGED_TIMEOUT);
    config.connect_timeout(ACQUIRE_TIMEOUT);
    // A server on this machine often has a certificate that no one has signed; nothing is read on that way.
    if config.get_ssl_mode() == SslMode::Prefer && config.get_hosts().iter().all(is_of_this_machine) {
        config.ssl_mode(SslMode::Disable);
    }
    Ok(config)
}

fn is_of_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

pub(super) fn pool(config: &Config, tls: Tls) -> Result<Pool> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config.clone(), tls, recycling);
    let set_up = Hook::async_fn(|client: &mut deadpool_postgres::ClientWrapper, _| {
        Box::pin(async move { client.batch_execute(SESSION).await.map_err(HookError::Backend) })
    });
    Pool::builder(manager)
        .max_size(MAX_CONNECTIONS)
        // The one that was used last has its statements and their rows at hand.
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(ACQUIRE_TIMEOUT))
        .create_timeout(Some(ACQUIRE_TIMEOUT))
        .recycle_timeout(Some(ACQUIRE_TIMEOUT))
        .post_create(set_up)
        .build()
        .map_err(|cause| Error::new("preparing connections to the database", cause))
}
