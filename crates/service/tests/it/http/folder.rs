//! The data folder belongs to its owner alone.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use inferstore_service::{Config, Service};

use super::support::{Outcome, config};

fn mode(path: &Path) -> Outcome<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

fn assert_closed(folder: &Path) -> Outcome {
    assert_eq!(mode(folder)?, 0o700, "{}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        assert_eq!(mode(&path)? & 0o077, 0, "{}", path.display());
    }
    Ok(())
}

#[tokio::test]
async fn a_new_folder_is_closed_to_others() -> Outcome {
    let parent = tempfile::tempdir()?;
    let folder = parent.path().join("a/data");
    let service = Service::start(Config::folder(&folder)).await?;
    assert_closed(&folder)?;
    service.shutdown().await;
    let service = Service::start(config()).await?;
    assert_closed(service.data_folder())?;
    Ok(())
}

#[tokio::test]
async fn a_folder_that_others_could_read_is_closed_by_the_next_start() -> Outcome {
    let parent = tempfile::tempdir()?;
    let folder = parent.path().join("data");
    Service::start(Config::folder(&folder)).await?.shutdown().await;
    fs::set_permissions(&folder, Permissions::from_mode(0o755))?;
    fs::set_permissions(folder.join("inferstore.db"), Permissions::from_mode(0o644))?;
    let service = Service::start(Config::folder(&folder)).await?;
    assert_closed(&folder)?;
    service.shutdown().await;
    Ok(())
}
