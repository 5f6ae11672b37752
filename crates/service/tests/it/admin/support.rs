//! Bench: a service in a folder, its operator, and a caller of its API.

use std::path::Path;

use inferstore_service::{AdminClient, Config, Data, Service};
use tempfile::TempDir;

pub(crate) use crate::caller::{Caller, TestResult};

pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) service: Service,
    pub(crate) admin: AdminClient,
    pub(crate) caller: Caller,
}

impl Bench {
    pub(crate) async fn start() -> TestResult<Self> {
        Self::with(Config::ephemeral()).await
    }

    pub(crate) async fn with(config: Config) -> TestResult<Self> {
        let folder = tempfile::tempdir()?;
        let mut config = config.with_controls();
        config.data = Data::Folder(folder.path().to_owned());
        let service = Service::start(config).await?;
        let admin = AdminClient::open(folder.path()).await?;
        let caller = Caller::first(&service)?;
        Ok(Self { folder, service, admin, caller })
    }
}

pub(crate) async fn start(folder: &Path) -> TestResult<Service> {
    Ok(Service::start(Config::folder(folder)).await?)
}
