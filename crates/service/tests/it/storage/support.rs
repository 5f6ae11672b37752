//! Bench: a service for uploads.

use std::net::SocketAddr;
use std::ops::Deref;
use std::time::Duration;

use inferstore_service::{Config, S3Config, Service};

pub(crate) use crate::caller::{Caller, Target, TestResult, Verdict, client, file_part, verdict};

/// Environment variable with the URL of a bucket, in which `.ci/cluster` runs the suite.
const BUCKET_VARIABLE: &str = "INFERSTORE_TEST_OBJECTS";

pub(crate) fn bucket() -> TestResult<Option<S3Config>> {
    let Ok(url) = std::env::var(BUCKET_VARIABLE) else { return Ok(None) };
    let key = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let (bucket, parameters) = url.split_once('?').ok_or(format!("{BUCKET_VARIABLE} has no parameters"))?;
    let prefix = format!("{:016x}", fastrand::u64(..));
    let url = format!("{bucket}/{prefix}?{parameters}");
    Ok(Some(S3Config::new(&url, &key("AWS_ACCESS_KEY_ID")?, &key("AWS_SECRET_ACCESS_KEY")?)?))
}

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
    pub(crate) async fn start() -> TestResult<Self> {
        Self::with(Config::ephemeral()).await
    }

    pub(crate) async fn with(mut config: Config) -> TestResult<Self> {
        if config.objects.is_none() {
            config.objects = bucket()?;
        }
        let chosen = config.first_account.api_key.clone();
        let service = Service::start(config).await?;
        let key = service.api_key().map(str::to_owned).or(chosen).ok_or("the service is not fresh")?;
        let caller = Caller::new(&service, &key)?;
        Ok(Self { service, caller })
    }

    /// Returns the number of files by the statistics; without a bucket, checks that the disk has their blobs alone.
    pub(crate) async fn count(&self) -> TestResult<u64> {
        let counted = self.get("/api-key/storage/upload/statistics").await?["total_files"].as_u64();
        if std::env::var_os(BUCKET_VARIABLE).is_some() {
            return counted.ok_or_else(|| "the statistics have no number".into());
        }
        let objects = self.service.data_folder().join("objects");
        let mut blobs = 0;
        for folder in std::fs::read_dir(objects.join("blobs"))? {
            blobs += std::fs::read_dir(folder?.path())?.count() as u64;
        }
        if counted != Some(blobs) {
            return Err(format!("{counted:?} files, {blobs} blobs").into());
        }
        // The response to a refused upload may precede the creation of its file, which is deleted then.
        self.until_incoming(0).await?;
        Ok(blobs)
    }

    pub(crate) async fn until_incoming(&self, expected: usize) -> TestResult {
        let folder = self.service.data_folder().join("objects/incoming");
        let mut incoming = 0;
        for _ in 0..500 {
            incoming = std::fs::read_dir(&folder)?.count();
            if incoming == expected {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(format!("{incoming} uploads are in progress, not {expected}").into())
    }
}

pub(crate) fn free_address() -> TestResult<SocketAddr> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

/// Returns bytes in which a test detects any lost or moved byte.
pub(crate) fn pattern(length: u64) -> Vec<u8> {
    // The period is no divisor of any buffer size, so that a misplaced chunk is detected.
    let period: Vec<u8> = (0..65_521_u32).map(|at| (at ^ (at >> 8)) as u8).collect();
    let length = length as usize;
    let mut bytes = period.repeat(length.div_ceil(period.len()));
    bytes.truncate(length);
    bytes
}
