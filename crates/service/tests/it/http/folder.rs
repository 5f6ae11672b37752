//! Permissions of the data folder: private to its owner.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use inferstore_service::{Config, Service};

use super::support::{TestResult, config};

fn mode(path: &Path) -> TestResult<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

fn assert_closed(folder: &Path) -> TestResult {
    assert_eq!(mode(folder)?, 0o700, "{}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        assert_eq!(mode(&path)? & 0o077, 0, "{}", path.display());
    }
    Ok(())
}

#[tokio::test]
async fn a_new_folder_is_closed_to_others() -> TestResult {
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
async fn a_folder_that_others_could_read_is_closed_by_the_next_start() -> TestResult {
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

#[tokio::test]
async fn a_folder_with_files_of_others_is_refused_and_stays_as_it_is() -> TestResult {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("foo.sh"), "")?;
    fs::create_dir(folder.path().join("web"))?;
    let paths = [folder.path().to_owned(), folder.path().join("foo.sh"), folder.path().join("web")];
    for path in &paths {
        fs::set_permissions(path, Permissions::from_mode(0o755))?;
    }
    let refused = Service::start(Config::folder(folder.path())).await.err().ok_or("it was taken")?;
    assert!(refused.to_string().contains("other files"), "{refused}");
    assert!(refused.hint().is_some_and(|hint| hint.contains("an empty or new folder")), "{refused:?}");
    for path in &paths {
        assert_eq!(mode(path)?, 0o755, "{}", path.display());
    }
    assert_eq!(fs::read_dir(folder.path())?.count(), 2);
    Ok(())
}

#[tokio::test]
async fn a_data_folder_may_be_empty_a_volume_or_an_interrupted_start() -> TestResult {
    for names in [&[][..], &["lost+found", ".snapshot"], &["lock"], &["lock", "notes.txt"]] {
        let folder = tempfile::tempdir()?;
        for name in names {
            fs::write(folder.path().join(name), "")?;
        }
        let service = Service::start(Config::folder(folder.path())).await;
        service.map_err(|refused| format!("{names:?}: {refused}"))?.shutdown().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_file_of_an_operator_in_the_folder_keeps_its_rights() -> TestResult {
    let folder = tempfile::tempdir()?;
    Service::start(Config::folder(folder.path())).await?.shutdown().await;
    let script = folder.path().join("restart.sh");
    fs::write(&script, "")?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))?;
    Service::start(Config::folder(folder.path())).await?.shutdown().await;
    assert_eq!(mode(&script)?, 0o755);
    Ok(())
}
