//! Connections to PostgreSQL: URL, timeouts, TLS, pool.

use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::primary::Primary;
use crate::{Error, Result};

/// Maximum number of connections of one process, besides the listening one.
pub(crate) const MAX_CONNECTIONS: usize = 20;
/// Timeout for a free connection of the pool, and for the connection to one server.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for a usable new connection. After a promotion, the new primary becomes usable a few seconds later.
const CREATE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time without an acknowledgment of sent data by the other machine.
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum time that a statement waits for a lock, no longer than its caller would wait.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(15);

/// Session settings. A transaction of a paused process is ended long before others give up waiting for its locks.
const SESSION: &str = "SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '15s'; \
     SET statement_timeout = '10min'; SET default_transaction_isolation = 'read committed'";

pub(super) fn servers(url: &str) -> Result<Vec<Config>> {
    urls(url).iter().map(|url| config(url)).collect()
}

/// Splits a URL with several servers, such as `postgres://user@one:5432,two:5432/name`, into one URL for each.
fn urls(url: &str) -> Vec<String> {
    let Some((scheme, rest)) = url.split_once("://") else { return vec![url.to_owned()] };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    hosts.split(',').map(|host| format!("{scheme}://{user}{host}{path}")).collect()
}

/// Parses the URL of one server. Errors never contain the URL, which has a password (redaction).
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
    // A local server often has a self-signed certificate, and a local connection needs no encryption.
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

pub(super) fn pool(primary: Primary) -> Result<Pool> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_connect(Config::new(), primary, recycling);
    let set_up = Hook::async_fn(|client: &mut deadpool_postgres::ClientWrapper, _| {
        Box::pin(async move { client.batch_execute(SESSION).await.map_err(HookError::Backend) })
    });
    Pool::builder(manager)
        .max_size(MAX_CONNECTIONS)
        // The connection used last has warm caches and prepared statements.
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(ACQUIRE_TIMEOUT))
        .create_timeout(Some(CREATE_TIMEOUT))
        .recycle_timeout(Some(ACQUIRE_TIMEOUT))
        .post_create(set_up)
        .build()
        .map_err(|cause| Error::new("preparing connections to the database", cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_of_a_url_has_everything_else_of_it() {
        let several = "postgres://user:a%40b@one:1,two:2/name?target_session_attrs=read-write";
        let each = ["one:1", "two:2"]
            .map(|host| format!("postgres://user:a%40b@{host}/name?target_session_attrs=read-write"));
        assert_eq!(urls(several), each);
        for one in ["postgres://one", "postgres://user@/name?host=/run&port=1", "nothing"] {
            assert_eq!(urls(one), [one]);
        }
    }
}
