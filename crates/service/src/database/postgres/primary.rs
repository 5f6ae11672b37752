//! Primary: the server that accepts writes. If the URL has several servers, all are probed at once, so that a hanging
//! one causes no delay, and at intervals. After a promotion, connections to the former primary are closed, whether it
//! responds or not. Of two servers that accept writes, the one with the higher timeline was promoted last.
//!
//! Processes notice a promotion at different times, but none may read the former primary while another writes to the
//! new one. So connections are used for [`LEASE`] after a probe, and a higher timeline only when this time has passed.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{BoxFuture, poll_fn};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::{Client, Config, Connection, Error, SimpleQueryMessage, Socket};
use tokio_util::sync::CancellationToken;

use super::failure::describe;
use super::tls::{Stream, Tls};

/// Time for the other servers to respond after the first response.
const GRACE: Duration = Duration::from_secs(1);
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which connections are used after a probe's start: above two unanswered probes and the pause between them.
const LEASE: Duration = Duration::from_secs(4);

/// Query of the timeline, which is the first eight digits of a log file's name. Fails on a standby.
const TIMELINE: &str = "SELECT pg_walfile_name(pg_current_wal_lsn())";

type Driver = Connection<Socket, Stream<Socket>>;

pub(super) struct Opened {
    pub(super) client: Client,
    pub(super) connection: Driver,
    /// Cancelled when another server has been promoted.
    pub(super) is_outdated: CancellationToken,
}

#[derive(Clone)]
pub(super) struct Primary {
    servers: Arc<[Config]>,
    tls: Tls,
    latest: Arc<Mutex<Latest>>,
    leased_until: Arc<watch::Sender<Instant>>,
}

struct Latest {
    timeline: u32,
    usable_from: Instant,
    is_outdated: CancellationToken,
}

struct Answer {
    timeline: u32,
    at: Instant,
    client: Client,
    connection: Driver,
}

impl Primary {
    pub(super) fn new(servers: Vec<Config>, tls: Tls) -> Self {
        let now = Instant::now();
        let latest = Latest { timeline: 0, usable_from: now, is_outdated: CancellationToken::new() };
        Self {
            servers: servers.into(),
            tls,
            latest: Arc::new(Mutex::new(latest)),
            leased_until: Arc::new(watch::Sender::new(now)),
        }
    }

    fn has_several(&self) -> bool {
        self.servers.len() > 1
    }

    /// Opens a connection to the primary. Waits while the only server that accepts writes is a former primary.
    pub(super) async fn open(&self) -> Result<Opened, Error> {
        let Answer { timeline, client, connection, .. } = self.ask().await?;
        let (usable_from, is_outdated) = {
            let latest = self.latest.lock();
            (latest.usable_from, (timeline == latest.timeline).then(|| latest.is_outdated.clone()))
        };
        let Some(is_outdated) = is_outdated else {
            tracing::warn!(timeline, "a former primary of the database takes writes; it is not used");
            return std::future::pending().await;
        };
        tokio::time::sleep_until(usable_from).await;
        Ok(Opened { client, connection, is_outdated })
    }

    /// Probes all servers and extends the lease of the connections, as no other server was promoted.
    async fn ask(&self) -> Result<Answer, Error> {
        let began = Instant::now();
        let newest = self.newest().await;
        if let Ok(answer) = &newest {
            self.notice(answer.timeline, answer.at);
        }
        self.leased_until.send_if_modified(|until| {
            let is_longer = began + LEASE > *until;
            *until = (*until).max(began + LEASE);
            is_longer
        });
        newest
    }

    fn notice(&self, timeline: u32, at: Instant) {
        let mut latest = self.latest.lock();
        if timeline <= latest.timeline {
            return;
        }
        if latest.timeline > 0 {
            tracing::warn!(timeline, "another server of the database was promoted");
        }
        latest.is_outdated.cancel();
        // Before the first promotion, no process can read from another primary.
        let usable_from = if timeline == 1 { at } else { at + LEASE };
        *latest = Latest { timeline, usable_from, is_outdated: CancellationToken::new() };
    }

    async fn newest(&self) -> Result<Answer, Error> {
        let mut attempts: FuturesUnordered<_> =
            self.servers.iter().map(|server| self.connect(server.clone())).collect();
        let mut newest: Option<Answer> = None;
        let mut grace = pin!(tokio::time::sleep(Duration::MAX));
        loop {
            let attempt = tokio::select! {
                attempt = attempts.next() => attempt,
                () = &mut grace => None,
            };
            match (attempt, &newest) {
                (Some(Ok(answer)), None) => {
                    newest = Some(answer);
                    grace.as_mut().reset(Instant::now() + GRACE);
                }
                (Some(Ok(answer)), Some(known)) if answer.timeline > known.timeline => newest = Some(answer),
                (Some(Err(cause)), None) if attempts.is_empty() => return Err(cause),
                (Some(_), _) => {}
                (None, _) => break,
            }
        }
        match newest {
            Some(newest) => Ok(newest),
            // Unreachable: there is at least one server, and its failure was returned.
            None => std::future::pending().await,
        }
    }

    async fn connect(&self, server: Config) -> Result<Answer, Error> {
        let (client, mut connection) = server.connect(self.tls.clone()).await?;
        let mut timeline = 0;
        if self.has_several() {
            timeline = tokio::select! {
                biased;
                timeline = timeline_of(&client) => timeline?,
                ended = &mut connection => ended.map(|()| 0)?,
            };
        }
        Ok(Answer { timeline, at: Instant::now(), client, connection })
    }

    pub(super) async fn watch(self) {
        while self.has_several() {
            match tokio::time::timeout(PROBE_TIMEOUT, self.ask()).await {
                Ok(Ok(_)) => {}
                Ok(Err(cause)) => {
                    tracing::debug!(cause = describe(&cause), "no server of the database takes writes");
                }
                Err(_) => tracing::debug!("not all servers of the database respond"),
            }
            tokio::time::sleep(PROBE_INTERVAL).await;
        }
    }
}

/// Drives a connection, and stalls it while its lease is expired: another server may have been promoted unnoticed.
async fn drive(mut connection: Driver, lease: Option<watch::Receiver<Instant>>) -> Result<(), Error> {
    let Some(mut lease) = lease else { return connection.await };
    // Ends when the sender of the lease is dropped.
    while lease.wait_for(|until| Instant::now() < *until).await.is_ok() {
        let expired = poll_fn(|_| match Instant::now() < *lease.borrow() {
            true => Poll::Pending,
            false => Poll::Ready(()),
        });
        tokio::select! {
            biased;
            () = expired => {}
            ended = &mut connection => return ended,
        }
    }
    Ok(())
}

async fn timeline_of(client: &Client) -> Result<u32, Error> {
    let rows = client.simple_query(TIMELINE).await?;
    let name = rows.iter().find_map(|row| match row {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let digits = name.and_then(|name| name.get(..8));
    Ok(digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0))
}

impl deadpool_postgres::Connect for Primary {
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        async move {
            let Opened { client, connection, is_outdated } = self.open().await?;
            let lease = self.has_several().then(|| self.leased_until.subscribe());
            let driver = tokio::spawn(async move {
                match is_outdated.run_until_cancelled(drive(connection, lease)).await {
                    Some(Err(cause)) => {
                        tracing::debug!(cause = describe(&cause), "a connection to the database was lost");
                    }
                    Some(Ok(())) => {}
                    None => tracing::debug!("a connection to the former primary is closed"),
                }
            });
            Ok((client, driver))
        }
        .boxed()
    }
}
