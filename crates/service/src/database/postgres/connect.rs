//! Connections to PostgreSQL: the URL, limits of time, TLS, the pool.

use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::primary::Primary;
use crate::{Error, Result};

/// How many connections one process keeps at most, besides one that listens.
pub(crate) const MAX_CONNECTIONS: usize = 20;
/// Time limit of a request for a free connection, and for one server to accept a new one.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for a new connection that can be used: after a promotion, the new primary is used a few seconds later.
const CREATE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long data may stay without an acknowledgement of the other machine.
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(20);

/// The time that a statement waits for a lock: no longer than its caller would.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(15);

/// A process that is paused in the middle of a transaction loses it long before anyone gives up waiting for its locks.
const SESSION: &str = "SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '15s'; \
     SET statement_timeout = '10min'; SET default_transaction_isolation = 'read committed'";

/// Reads the URL: the settings of each server that it names. No error quotes its password.
pub(super) fn servers(url: &str) -> Result<Vec<Config>> {
    urls(url).iter().map(|url| config(url)).collect()
}

/// The URL of each server of a URL that names several, such as `postgres://user@one:5432,two:5432/name`.
fn urls(url: &str) -> Vec<String> {
    let Some((scheme, rest)) = url.split_once("://") else { return vec![url.to_owned()] };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    hosts.split(',').map(|host| format!("{scheme}://{user}{host}{path}")).collect()
}

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

pub(super) fn pool(primary: Primary) -> Result<Pool> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_connect(Config::new(), primary, recycling);
    let set_up = Hook::async_fn(|client: &mut deadpool_postgres::ClientWrapper, _| {
        Box::pin(async move { client.batch_execute(SESSION).await.map_err(HookError::Backend) })
    });
    Pool::builder(manager)
        .max_size(MAX_CONNECTIONS)
        // The one that was used last has its statements and their rows at hand.
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
