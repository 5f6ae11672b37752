//! A service to upload to.

use std::net::SocketAddr;
use std::ops::Deref;

use inferstore_service::{Config, S3Config, Service};

pub(crate) use crate::caller::{Caller, Outcome, Target, Verdict, client, file_part, verdict};

/// The variable that names a bucket, as `inferstore serve --objects` does. `.ci/cluster` sets it, and the suite
/// runs against that bucket then.
const BUCKET_VARIABLE: &str = "INFERSTORE_TEST_OBJECTS";

/// A prefix of its own in the bucket of the environment, if there is one.
pub(crate) fn bucket() -> Outcome<Option<S3Config>> {
    let Ok(url) = std::env::var(BUCKET_VARIABLE) else { return Ok(None) };
    let key = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let (bucket, parameters) = url.split_once('?').ok_or(format!("{BUCKET_VARIABLE} has no parameters"))?;
    let prefix = format!("{:016x}", fastrand::u64(..));
    let url = format!("{bucket}/{prefix}?{parameters}");
    Ok(Some(S3Config::new(&url, &key("AWS_ACCESS_KEY_ID")?, &key("AWS_SECRET_ACCESS_KEY")?)?))
}

/// A running service and a client of it.
pub(crate) struct Bench {
    pub(crate) service: Service,
    caller: Caller,
}

impl Deref for Bench {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Bench {
    pub(crate) async fn start() -> Outcome<Self> {
        Self::with(Config::ephemeral()).await
    }

    /// Starts a service with these settings, and with the bucket of `bucket` where there is one.
    pub(crate) async fn with(mut config: Config) -> Outcome<Self> {
        if config.objects.is_none() {
            config.objects = bucket()?;
        }
        let chosen = config.first_account.api_key.clone();
        let service = Service::start(config).await?;
        let key = service.api_key().map(str::to_owned).or(chosen).ok_or("the service is not fresh")?;
        let caller = Caller::new(&service, &key)?;
        Ok(Self { service, caller })
    }

    /// How many files there are, as the statistics and the disk have it: nothing may lie about.
    pub(crate) async fn count(&self) -> Outcome<u64> {
        let counted = self.get("/api-key/storage/upload/statistics").await?["total_files"].as_u64();
        if std::env::var_os(BUCKET_VARIABLE).is_some() {
            return counted.ok_or_else(|| "the statistics have no number".into());
        }
        let objects = self.service.data_folder().join("objects");
        let mut blobs = 0;
        for folder in std::fs::read_dir(objects.join("blobs"))? {
            blobs += std::fs::read_dir(folder?.path())?.count() as u64;
        }
        let incoming = std::fs::read_dir(objects.join("incoming"))?.count();
        if counted != Some(blobs) || incoming > 0 {
            return Err(format!("{counted:?} files, {blobs} blobs, {incoming} incoming").into());
        }
        Ok(blobs)
    }
}

/// An address of this machine that is free now, for a service that is started several times.
pub(crate) fn free_address() -> Outcome<SocketAddr> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

/// Bytes that show it when any of them is lost or moved.
pub(crate) fn pattern(length: u64) -> Vec<u8> {
    // A period that no size of a buffer is a multiple of: a chunk in another's place is seen.
    let period: Vec<u8> = (0..65_521_u32).map(|at| (at ^ (at >> 8)) as u8).collect();
    let length = length as usize;
    let mut bytes = period.repeat(length.div_ceil(period.len()));
    bytes.truncate(length);
    bytes
}
