//! Marker file: an identifier that a folder shares with its database, written atomically.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::folder::if_present;

pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    let text = if_present(fs::read_to_string(path))?;
    Ok(text.map(|text| text.trim().to_owned()).filter(|id| !id.is_empty()))
}

pub(crate) fn write(path: &Path, id: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = NamedTempFile::new_in(folder)?;
    writeln!(file, "{id}")?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_has_no_identifier_and_gets_one() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("objects/id");
        assert_eq!(read(&path)?, None);
        write(&path, "first")?;
        assert_eq!(read(&path)?.as_deref(), Some("first"));
        // An empty file, as a crash of an earlier version left it.
        fs::write(&path, "")?;
        assert_eq!(read(&path)?, None);
        write(&path, "second")?;
        assert_eq!(read(&path)?.as_deref(), Some("second"));
        assert_eq!(fs::read_dir(folder.path().join("objects"))?.count(), 1);
        Ok(())
    }
}
