//! Data folder with a database and blobs of different origin, or with other files: no user's file is deleted.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use inferstore_service::{Config, Service};
use inferstore_wire::until;

use super::support::{Bench, TestResult, free_address};

const STRAY_BLOB: &str = "orphanorphanorphanorphan22";

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] });
    files.collect()
}

fn settings(folder: &Path) -> TestResult<Config> {
    let mut config = Config::folder(folder).with_controls();
    config.first_account.api_key = Some("isk_storage_of_the_test".to_owned());
    config.storage = free_address()?;
    Ok(config)
}

/// Runs every job, as if the service had been up for long.
async fn sweep(bench: &Bench) -> TestResult {
    Ok(bench.service.controls()?.advance_clock(Duration::ZERO).await?)
}

fn remove_database(folder: &Path) -> TestResult {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("inferstore.db") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_new_database_is_refused_beside_the_files_of_another() -> TestResult {
    let folder = tempfile::tempdir()?;
    let config = settings(folder.path())?;
    let bench = Bench::with(config.clone()).await?;
    let url = bench.store("kept.txt", "text/plain", b"kept").await?;
    bench.service.shutdown().await;

    let database = folder.path().join("inferstore.db");
    let before = fs::read(&database)?;
    let blobs = files_below(&folder.path().join("objects/blobs"));
    for content in [None, Some("")] {
        remove_database(folder.path())?;
        if let Some(content) = content {
            fs::write(&database, content)?;
        }
        for _ in 0..2 {
            let refused = Service::start(config.clone()).await;
            let message = refused.err().ok_or("the service starts")?.to_string();
            assert!(message.contains("objects") && message.contains("put that database back"), "{message}");
            assert!(message.contains("--database or INFERSTORE_DATABASE"), "{message}");
            assert_eq!(files_below(&folder.path().join("objects/blobs")), blobs);
        }
    }
    remove_database(folder.path())?;
    fs::write(&database, before)?;
    let bench = Bench::with(config).await?;
    assert_eq!(bench.http.get(&url).send().await?.text().await?, "kept");
    assert_eq!(bench.count().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_database_is_refused_without_its_files_unless_the_folder_is_empty() -> TestResult {
    let folder = tempfile::tempdir()?;
    let config = settings(folder.path())?;
    let bench = Bench::with(config.clone()).await?;
    let url = bench.store("kept.txt", "text/plain", b"kept").await?;
    bench.service.shutdown().await;

    let (objects, elsewhere) = (folder.path().join("objects"), folder.path().join("elsewhere"));
    fs::rename(&objects, &elsewhere)?;
    let refused = Service::start(config.clone()).await;
    let message = refused.err().ok_or("the service starts")?.to_string();
    assert!(message.contains("objects") && message.contains("put the folder back"), "{message}");
    fs::create_dir(&objects)?;
    Service::start(config.clone()).await?.shutdown().await;

    fs::remove_dir_all(&objects)?;
    fs::rename(&elsewhere, &objects)?;
    let bench = Bench::with(config).await?;
    assert_eq!(bench.http.get(&url).send().await?.text().await?, "kept");
    Ok(())
}

#[tokio::test]
async fn a_backup_without_files_is_a_data_folder() -> TestResult {
    let folder = tempfile::tempdir()?;
    let service = Service::start(Config::folder(folder.path())).await?;
    let copy = tempfile::tempdir()?;
    service.backup(copy.path()).await?;
    service.shutdown().await;
    Service::start(Config::folder(copy.path())).await?.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn settings_unknown_to_an_older_database_are_set_aside_and_restored() -> TestResult {
    let folder = tempfile::tempdir()?;
    let config = settings(folder.path())?;
    let database = folder.path().join("inferstore.db");
    let orphans = folder.path().join("objects/orphans");
    Bench::with(config.clone()).await?.service.shutdown().await;
    let older = fs::read(&database)?;
    let bench = Bench::with(config.clone()).await?;
    let url = bench.store("kept.txt", "text/plain", b"kept").await?;
    bench.service.shutdown().await;
    let newer = fs::read(&database)?;

    remove_database(folder.path())?;
    fs::write(&database, older)?;
    let bench = Bench::with(config.clone()).await?;
    assert_eq!(bench.http.get(&url).send().await?.status(), 404);
    sweep(&bench).await?;
    assert_eq!(files_below(&orphans).len(), 1, "the blob is set aside");
    bench.service.shutdown().await;

    remove_database(folder.path())?;
    fs::write(&database, newer)?;
    let bench = Bench::with(config).await?;
    // A restored database does not wait for the sweep.
    until("the blob is brought back", || async { files_below(&orphans).is_empty() }).await;
    assert_eq!(bench.http.get(&url).send().await?.text().await?, "kept");
    Ok(())
}

#[tokio::test]
async fn what_was_set_aside_is_deleted_after_some_days() -> TestResult {
    let folder = tempfile::tempdir()?;
    let config = settings(folder.path())?;
    let orphans = folder.path().join("objects/orphans");
    Bench::with(config.clone()).await?.service.shutdown().await;
    let long_ago = orphans.join("2001-01-01").join(STRAY_BLOB);
    let lately = orphans.join("2999-01-01").join(STRAY_BLOB);
    for orphan in [&long_ago, &lately] {
        fs::create_dir_all(orphan.parent().ok_or("no folder")?)?;
        fs::write(orphan, "an orphan")?;
    }
    let bench = Bench::with(config).await?;
    sweep(&bench).await?;
    assert!(!long_ago.exists() && lately.exists() && !orphans.join("2001-01-01").exists());
    drop(bench);
    Ok(())
}

#[tokio::test]
async fn foreign_files_in_the_folder_stop_neither_start_nor_sweep() -> TestResult {
    let folder = tempfile::tempdir()?;
    let config = settings(folder.path())?;
    let bench = Bench::with(config.clone()).await?;
    bench.store("kept.txt", "text/plain", b"kept").await?;
    bench.service.shutdown().await;
    let objects = folder.path().join("objects");
    let strays = [
        "incoming/lost+found/x",
        "incoming/.DS_Store",
        "blobs/.DS_Store",
        "blobs/lost+found/x",
        "blobs/aa/note.txt",
        "blobs/ab/folder/x",
        "orphans/.DS_Store",
        "orphans/2001-01-01/.DS_Store",
        "other/x",
    ];
    for stray in strays {
        let path = objects.join(stray);
        fs::create_dir_all(path.parent().ok_or("no folder")?)?;
        fs::write(path, "of somebody else")?;
    }
    let half = objects.join("incoming").join(STRAY_BLOB);
    fs::write(&half, "half of an upload")?;
    let orphan = objects.join("blobs/or").join(STRAY_BLOB);
    fs::create_dir_all(objects.join("blobs/or"))?;
    fs::write(&orphan, "an upload without a row")?;
    // The sweeper looks only at blobs that are older than the start of the service.
    let yesterday = SystemTime::now() - Duration::from_hours(24);
    fs::File::options().write(true).open(&orphan)?.set_modified(yesterday)?;

    let bench = Bench::with(config).await?;
    assert!(!half.exists());
    sweep(&bench).await?;
    assert!(!orphan.exists(), "it is set aside");
    for stray in strays {
        assert!(objects.join(stray).exists(), "{stray} is gone");
    }
    bench.store("another.txt", "text/plain", b"another").await?;
    Ok(())
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_or_a_link_in_the_place_of_a_blob_is_a_missing_blob() -> TestResult {
    let folder = tempfile::tempdir()?;
    let bench = Bench::with(settings(folder.path())?).await?;
    let url = bench.store("a.txt", "text/plain", b"text").await?;
    let [blob] = &files_below(&folder.path().join("objects/blobs"))[..] else {
        return Err("there is one blob".into());
    };
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(blob, &elsewhere)?;
    let client = crate::caller::client()?;
    for is_link in [false, true] {
        if is_link {
            std::os::unix::fs::symlink(&elsewhere, blob)?;
        } else {
            fs::create_dir(blob)?;
        }
        assert_eq!(client.head(&url).send().await?.status(), 500);
        assert_eq!(client.get(&url).send().await?.status(), 500);
        let _ = fs::remove_dir(blob).or_else(|_| fs::remove_file(blob));
    }
    fs::rename(&elsewhere, blob)?;
    assert_eq!(client.get(&url).send().await?.text().await?, "text");
    bench.service.shutdown().await;
    Ok(())
}
