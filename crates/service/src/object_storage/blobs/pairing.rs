//! The pairing of a folder of objects with its database, by an identifier that both keep: blobs are judged by
//! the rows of a database, so a new or a wrong database must never be the judge of the files of another.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::Error;
use crate::database::Database;
use crate::random::Randomness;

/// The setting of the database, and the file in the folder, that hold the identifier.
const SETTING: &str = "objects";
const MARKER: &str = "id";

/// Pairs the folder of objects with the database, or refuses when it holds the files of another one.
/// `is_new` says that the database was created just now.
pub(crate) async fn pair(folder: &Path, database: &dyn Database, is_new: bool) -> Result<(), Error> {
    let action = || format!("opening {}", folder.display());
    let failed = |cause| Error::keeping(action(), cause);
    let marker = read_marker(folder).map_err(failed)?;
    let setting = database.setting(SETTING).await?;
    let belong_together = match (&setting, &marker) {
        (Some(setting), Some(marker)) => setting == marker,
        (None, Some(_)) => false,
        // Folders of earlier versions have no identifier.
        (_, None) => !is_new,
    };
    if !belong_together && has_blobs(folder).map_err(failed)? {
        let cause = "it holds the files of another database, and inferstore.db is new, empty or not that one; \
                     put that database back (both inferstore.db and inferstore.db-wal), or move the folder \
                     away to begin without files";
        return Err(Error::new(action(), cause));
    }
    let id = match setting.or(marker) {
        Some(id) => id,
        // Not drawn with the seed of a test, which makes accounts and keys predictable, and not this.
        None => Randomness::new(None).word(26)?,
    };
    // The file first: a folder without an identifier is taken for one of an earlier version.
    write_marker(folder, &id).map_err(failed)?;
    database.setting_or(SETTING, &id).await?;
    Ok(())
}

fn read_marker(folder: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(folder.join(MARKER)) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

fn write_marker(folder: &Path, id: &str) -> io::Result<()> {
    if read_marker(folder)?.as_deref() == Some(id) {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    let mut file = File::create(folder.join(MARKER))?;
    writeln!(file, "{id}")?;
    file.sync_all()
}

/// Whether any file is stored in the folder.
fn has_blobs(folder: &Path) -> io::Result<bool> {
    let blobs = match fs::read_dir(folder.join("blobs")) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(false),
        blobs => blobs?,
    };
    for sub_folder in blobs {
        let path = sub_folder?.path();
        if path.is_dir() && fs::read_dir(path)?.next().is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
