//! Notifications between processes by NOTIFY: a task was queued, a key or a model was changed. The notifications are
//! hints: a process that misses one checks again later, and its caches expire.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio_postgres::AsyncMessage;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::PostgresDatabase;
use super::failure::{Failure, describe};
use super::primary::{Opened, Primary};
use crate::database::QueueChange;
use crate::database::cache::{CachedRows, Caches};
use crate::{Error, Result};

const CHANNEL: &str = "inferstore";
/// Time for which notifications are collected, because the server serializes the commits that notify.
const GATHERING: Duration = Duration::from_millis(5);
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);
const MAX_WAITING: usize = 1_024;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    Queued(String),
    Rows(CachedRows),
}

impl Change {
    fn word(&self) -> String {
        match self {
            Self::Queued(model) => format!("queued {model}"),
            Self::Rows(CachedRows::Keys) => "keys".to_owned(),
            Self::Rows(CachedRows::Models) => "models".to_owned(),
        }
    }

    fn invalidate(&self, caches: &Caches) {
        match self {
            Self::Queued(_) => {}
            Self::Rows(rows) => drop(caches.invalidate(*rows)),
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        match word.split_once(' ') {
            Some(("queued", model)) => Some(Self::Queued(model.to_owned())),
            None if word == "keys" => Some(Self::Rows(CachedRows::Keys)),
            None if word == "models" => Some(Self::Rows(CachedRows::Models)),
            _ => None,
        }
    }
}

pub(super) struct Changes {
    /// Identifies this process, so that it ignores its own notifications.
    pub(super) origin: String,
    outgoing: Mutex<BTreeSet<Change>>,
    announced: Notify,
    incoming: tokio::sync::Mutex<mpsc::Receiver<QueueChange>>,
    stop: CancellationToken,
}

impl Changes {
    pub(super) fn spawn(primary: Primary, pool: deadpool_postgres::Pool, caches: &Arc<Caches>) -> Arc<Self> {
        let (sender, incoming) = mpsc::channel(MAX_WAITING);
        let changes = Arc::new(Self {
            origin: format!("{:016x}", fastrand::u64(..)),
            outgoing: Mutex::default(),
            announced: Notify::new(),
            incoming: tokio::sync::Mutex::new(incoming),
            stop: CancellationToken::new(),
        });
        let stop = changes.stop.clone();
        tokio::spawn(stop.clone().run_until_cancelled_owned(send(Arc::clone(&changes), pool)));
        tokio::spawn(stop.clone().run_until_cancelled_owned(primary.clone().watch()));
        let listener =
            Listener { primary, origin: changes.origin.clone(), caches: Arc::clone(caches), sender };
        tokio::spawn(stop.run_until_cancelled_owned(listener.run()));
        changes
    }

    pub(super) fn announce(&self, change: Change) {
        self.outgoing.lock().insert(change);
        self.announced.notify_one();
    }

    pub(super) async fn next(&self) -> QueueChange {
        match self.incoming.lock().await.recv().await {
            Some(change) => change,
            None => std::future::pending().await,
        }
    }

    pub(super) fn stop_guard(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
    }
}

impl PostgresDatabase {
    /// Runs a write, then invalidates the caches of this process and of others, even if the caller was dropped.
    pub(super) async fn write_and_announce<T, F>(
        &self,
        change: Change,
        write: impl FnOnce(Self) -> F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let database = self.clone();
        let write = write(self.clone());
        let written = tokio::spawn(async move {
            let written = write.await;
            change.invalidate(&database.caches);
            database.changes.announce(change);
            written
        });
        written.await.map_err(|cause| Error::new("writing to the database", cause))?
    }
}

async fn send(changes: Arc<Changes>, pool: deadpool_postgres::Pool) {
    loop {
        changes.announced.notified().await;
        tokio::time::sleep(GATHERING).await;
        let gathered = std::mem::take(&mut *changes.outgoing.lock());
        let payloads: Vec<String> =
            gathered.iter().map(|change| format!("{} {}", changes.origin, change.word())).collect();
        let notified = async {
            let notify = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS changes (payload)";
            super::statements::run(&pool.get().await?, notify, &[&CHANNEL, &payloads]).await?;
            Ok::<_, Failure>(())
        };
        if let Err(cause) = notified.await {
            tracing::debug!(?cause, "a NOTIFY failed; other processes find the change by themselves");
        }
    }
}

struct Listener {
    primary: Primary,
    origin: String,
    caches: Arc<Caches>,
    sender: mpsc::Sender<QueueChange>,
}

impl Listener {
    async fn run(self) {
        loop {
            if let Err(cause) = self.listen().await {
                tracing::debug!(cause = describe(&cause), "the connection that listens for changes was lost");
            }
            tokio::time::sleep(RECONNECT_INTERVAL).await;
        }
    }

    async fn listen(&self) -> Result<(), tokio_postgres::Error> {
        let Opened { client, mut connection, is_outdated } = self.primary.open().await?;
        let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
        let listen = format!("LISTEN {CHANNEL}");
        let mut listening = std::pin::pin!(client.batch_execute(&listen));
        let mut is_listening = false;
        loop {
            tokio::select! {
                done = &mut listening, if !is_listening => {
                    done?;
                    is_listening = true;
                    self.missed();
                }
                () = is_outdated.cancelled() => return Ok(()),
                message = messages.next() => match message {
                    Some(Ok(AsyncMessage::Notification(notification))) => self.receive(notification.payload()),
                    Some(Ok(_)) => {}
                    Some(Err(cause)) => return Err(cause),
                    None => return Ok(()),
                },
            }
        }
    }

    /// Handles lost notifications: all changes without a listening connection were missed.
    fn missed(&self) {
        for rows in [CachedRows::Keys, CachedRows::Models] {
            drop(self.caches.invalidate(rows));
        }
        let _ = self.sender.try_send(QueueChange::Any);
    }

    fn receive(&self, payload: &str) {
        let Some((origin, word)) = payload.split_once(' ') else { return };
        if origin == self.origin {
            return;
        }
        match Change::from_word(word) {
            Some(Change::Queued(model)) => {
                let _ = self.sender.try_send(QueueChange::Queued(model));
            }
            Some(change) => change.invalidate(&self.caches),
            // A newer version may send unknown notifications.
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_change_round_trips_and_an_unknown_word_is_none() {
        let rows = [CachedRows::Keys, CachedRows::Models].map(Change::Rows);
        for change in rows.into_iter().chain([Change::Queued("a model".to_owned())]) {
            assert_eq!(Change::from_word(&change.word()), Some(change));
        }
        for word in ["", "folders", "folders samples"] {
            assert_eq!(Change::from_word(word), None, "{word}");
        }
    }
}
