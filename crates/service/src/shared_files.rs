//! Guard for files in a data folder with a shared database: one process has the files, and a second folder is refused.

use std::path::Path;

use crate::database::Database;
use crate::folder::FOLDER_ID;
use crate::random::Randomness;
use crate::{Error, Result, marker};

/// Database setting, and marker file in the data folder, with the identifier of the one folder of files.
const SETTING: &str = "folder of files";

pub(crate) async fn check(folder: &Path, database: &dyn Database) -> Result<()> {
    if !database.is_shared() {
        return Ok(());
    }
    let doing = || format!("opening the data folder {}", folder.display());
    let path = folder.join(FOLDER_ID);
    let failed = |cause| Error::keeping(doing(), cause);
    let id = match marker::read(&path).map_err(failed)? {
        Some(id) => id,
        None => {
            let id = Randomness::new(None).word(26)?;
            marker::write(&path, &id).map_err(failed)?;
            id
        }
    };
    if database.setting_or(SETTING, &id).await? == id {
        return Ok(());
    }
    let cause =
        "the files of this database are in the data folder of another process, which no other can read";
    Err(Error::new(doing(), cause).with_hint("several processes need a bucket for their files: --objects"))
}
