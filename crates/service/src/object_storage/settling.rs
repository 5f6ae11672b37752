//! Settling of uploads that went straight to a bucket: the store reports none of them, so a target is pending until
//! its object is found. That happens when a folder is listed, when files are counted, when a URL is opened,
//! deleted or an input, and, shortly before, an hour and 23 hours after a target expires, by a job.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::blobs::{S3, Stat};
use super::sweeper::TARGET_RETENTION;
use super::{Objects, Stored, Target, TargetsOf};
use crate::Result;
use crate::clock::Moment;
use crate::lifecycle::app::App;

/// How often the job looks for uploads to targets that expire.
pub(crate) const SETTLING_INTERVAL: Duration = Duration::from_secs(15);
/// How long after its target has expired an upload may end that began before.
const LATE_UPLOADS: Duration = Duration::from_hours(1);
/// When the job looks for one that took still longer: before its target is forgotten.
const LAST_LOOK: Duration = TARGET_RETENTION.saturating_sub(Duration::from_hours(1));
/// How many pending targets a request looks for; of more, those that expire last. The job finds the others. While the
/// store is away, each upload that is tried leaves one.
const MAX_PENDING: u32 = 10_000;
/// The same for one URL, which anyone may open.
const MAX_PENDING_OF_OBJECT: u32 = 50;
/// How many requests are sent to the store at once for one caller.
const MAX_REQUESTS: usize = 16;

/// Up to which expiry the job has looked for uploads: before targets expired, when uploads were late, and for the last
/// time. Another process that takes the job over looks for all of them again.
#[derive(Default)]
pub(super) struct Settled([Mutex<Option<Moment>>; 3]);

/// A target and what the store says of its object, if that is there.
type Found = (Target, Option<Stat>);

impl Objects {
    /// Makes files of what was uploaded to pending targets. In a bucket that is also to be done where this process
    /// receives the uploads: before it was started, callers may have uploaded straight to the store.
    pub(crate) async fn settle(&self, app: &App, of: TargetsOf<'_>) -> Result<()> {
        let Some(store) = self.blobs.remote() else { return Ok(()) };
        let expiry = (app.clock.now().before(LATE_UPLOADS), Moment(i64::MAX));
        let TargetsOf::Object { bucket, key } = of else {
            let targets = self.database.pending_targets(of, expiry, MAX_PENDING).await?;
            return self.settle_targets(app, store, targets).await;
        };
        let pending = || self.database.pending_targets(of, expiry, MAX_PENDING_OF_OBJECT);
        if pending().await?.is_empty() {
            return Ok(());
        }
        // Another request may have settled them when it is the turn of this one.
        let settle = async { self.settle_targets(app, store, pending().await?).await };
        self.shared_looks.share((bucket.to_owned(), key.to_owned()), settle).await
    }

    /// The same for targets that expire before the job runs the next time, for those whose last upload has ended, and for
    /// those that are soon forgotten.
    pub(crate) async fn settle_expiring(&self, app: &App) -> Result<()> {
        let Some(store) = self.blobs.remote() else { return Ok(()) };
        let now = app.clock.now();
        let windows = [now.after(SETTLING_INTERVAL * 2), now.before(LATE_UPLOADS), now.before(LAST_LOOK)];
        for (settled, until) in self.settled.0.iter().zip(windows) {
            let settled_until = *settled.lock().unwrap_or_else(PoisonError::into_inner);
            // All of them again after the clock was set back.
            let after = settled_until.filter(|after| *after <= until).unwrap_or(Moment(0));
            // All at once: of two under one name the later one has to win.
            let targets =
                self.database.pending_targets(TargetsOf::Everyone, (after, until), u32::MAX).await?;
            self.settle_targets(app, store, targets).await?;
            *settled.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        }
        Ok(())
    }

    async fn settle_targets(&self, app: &App, store: &S3, targets: Vec<Target>) -> Result<()> {
        if targets.is_empty() {
            return Ok(());
        }
        let mut looked = look_for(store, targets).await?;
        // Of two uploads under one name the last one wins. One that was missing a moment ago may be older than
        // another that was found after it.
        let name = |target: &Target| (target.bucket.clone(), target.key.clone());
        let is_there = |(target, stat): &Found| stat.is_some().then(|| name(target));
        let names: HashSet<(String, String)> = looked.iter().filter_map(is_there).collect();
        let is_doubtful = |(target, stat): &&Found| stat.is_none() && names.contains(&name(target));
        let doubtful = looked.iter().filter(is_doubtful).map(|(target, _)| target.clone()).collect();
        looked.extend(look_for(store, doubtful).await?);
        let found = looked.into_iter().filter_map(|(target, stat)| Some((target, stat?)));
        let mut found: Vec<(Target, Stat)> = found.collect();
        found.sort_by_key(|(target, stat)| (stat.modified, target.expires_at));
        for (target, stat) in found {
            self.settle_target(app, store, &target, stat).await?;
        }
        Ok(())
    }

    /// Whether the file of this name was uploaded after what was found, and found before it.
    async fn is_outdated(&self, store: &S3, target: &Target, found: &Stat) -> Result<bool> {
        let Some(stored) = self.database.object(&target.bucket, &target.key).await? else { return Ok(false) };
        match store.look(&stored.blob).await? {
            Some(stat) => Ok(stat.modified > found.modified),
            None => Ok(false),
        }
    }

    async fn settle_target(&self, app: &App, store: &S3, target: &Target, stat: Stat) -> Result<()> {
        if stat.size != target.size {
            // The signature covers the size.
            tracing::error!(
                target = target.id,
                size = stat.size,
                "the object store took an upload of a size that was not signed; it is no file"
            );
            return Ok(());
        }
        if target.is_of_member() && !self.database.is_member(target.owner, target.payer).await? {
            return Ok(());
        }
        if self.is_outdated(store, target, &stat).await? {
            if self.database.void_target(&target.id).await? {
                self.delete_blob(&target.id).await;
            }
            return Ok(());
        }
        let object = target.object(target.id.clone(), stat.etag, app.clock.now());
        // Another process may have settled it meanwhile, which is as good.
        let id = app.random.uuid()?;
        let stored = match self.database.store_upload(&target.id, &id, &object).await {
            // Storing may be repeated, so that a commit in doubt does not fail the read that settles.
            Err(cause) if !cause.is_unavailable() => {
                self.database.store_upload(&target.id, &id, &object).await?
            }
            stored => stored?,
        };
        match stored {
            Stored::Kept { replaced: Some(replaced) } => self.delete_blob(&replaced).await,
            Stored::Taken => self.delete_blob(&target.id).await,
            _ => {}
        }
        Ok(())
    }
}

/// Asks the store for the objects of targets. One that it refuses to look for keeps no others from being found; when
/// it refuses all of them, they are looked for again.
async fn look_for(store: &S3, targets: Vec<Target>) -> Result<Vec<Found>> {
    let looks = stream::iter(targets).map(|target| async move { (store.look(&target.id).await, target) });
    let mut looks = pin!(looks.buffer_unordered(MAX_REQUESTS));
    let mut found = Vec::new();
    let mut refused = None;
    while let Some((look, target)) = looks.next().await {
        match look {
            Ok(stat) => found.push((target, stat)),
            Err(cause) if cause.is_unavailable() => return Err(cause),
            Err(cause) => {
                tracing::warn!(%cause, target = target.id, "an upload cannot be looked for");
                refused = Some(cause);
            }
        }
    }
    refused.filter(|_| found.is_empty()).map_or(Ok(found), Err)
}
