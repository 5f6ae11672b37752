//! `inferstore console`: pages in a browser for any service, and the console beside a service of this process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Args;
use inferstore::{Client, PollInterval};
use inferstore_console::{Console, LOCAL_POLL};
use inferstore_service::Service;

use super::signals::Signals;
use crate::failure::{Failure, Result};
use crate::settings::Session;

type Error = Box<dyn std::error::Error + Send + Sync>;

pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  inferstore console\n  inferstore console --profile work --port 9000")]
pub(crate) struct Arguments {
    /// The address on which the console listens; others on the network can reach any but loopback
    #[arg(long, value_name = "ADDRESS", default_value_t = LOOPBACK)]
    host: IpAddr,
    /// The port of the console; 0 chooses a free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
}

pub(crate) async fn execute(arguments: Arguments, session: Session) -> Result {
    let mut signals = Signals::new()?;
    let console = start(&arguments, session.client()?, &session).await?;
    session.output.data(console.url())?;
    session.note("open this address in a browser; it holds a token; Ctrl-C ends the console");
    signals.next().await;
    Ok(())
}

pub(crate) async fn start(arguments: &Arguments, client: Client, session: &Session) -> Result<Console> {
    if !arguments.host.is_loopback() {
        session.note("warning: the console speaks plain HTTP: its token is readable on the way");
    }
    let address = SocketAddr::new(arguments.host, arguments.port);
    Console::start(client, address, PollInterval::Adaptive)
        .await
        .map_err(|error| Failure::local_failure("the console does not start", error))
}

/// A console beside a service of this process, with a key that is revoked when it ends.
pub(crate) struct Beside<'a> {
    service: &'a Service,
    pub(crate) console: Console,
    added_key: Option<String>,
}

impl<'a> Beside<'a> {
    /// Starts a console of the first account. The key is the one that the service has just created, or a new one,
    /// because of older keys only hashes are kept.
    pub(crate) async fn start(
        service: &'a Service,
        address: SocketAddr,
        session: &Session,
    ) -> Result<Self, Error> {
        let mut added_key = None;
        if service.api_key().is_none() {
            let accounts = service.accounts().await?;
            // The first account is the operator's, and the second one the one that `serve` creates.
            let account = accounts.get(1).ok_or("there is no account")?;
            added_key = Some(service.add_key(&account.username).await?);
        }
        let key = service.api_key().or(added_key.as_deref()).unwrap_or_default().to_owned();
        match console_of(service, key, address, session).await {
            Ok(console) => Ok(Self { service, console, added_key }),
            Err(error) => {
                revoke(service, added_key).await;
                Err(error)
            }
        }
    }

    pub(crate) async fn end(self) {
        revoke(self.service, self.added_key).await;
    }
}

async fn console_of(
    service: &Service,
    key: String,
    address: SocketAddr,
    session: &Session,
) -> Result<Console, Error> {
    let url = local_url(service);
    let client = Client::builder(&url, key);
    // The address may be one of the network: it leads to this process all the same.
    let client = client.settings(|settings| settings.allow_insecure_http = true);
    let client = session.with_network(client, &url).map_err(|failure| failure.headline)?.build()?;
    let file = service.data_folder().join("console");
    Ok(Console::start_beside(service.server(), client, address, LOCAL_POLL, Some(&file)).await?)
}

async fn revoke(service: &Service, added_key: Option<String>) {
    if let Some(key) = added_key
        && let Err(error) = service.revoke_key(&key).await
    {
        tracing::warn!(%error, "the key of the console is still valid");
    }
}

/// The base URL of a service for this machine: loopback for 0.0.0.0 and ::, where plain HTTP shows the key to no one.
pub(crate) fn local_url(service: &Service) -> String {
    let url = service.base_url();
    url.replacen("://0.0.0.0:", "://127.0.0.1:", 1).replacen("://[::]:", "://[::1]:", 1)
}
