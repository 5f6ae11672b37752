//! The files of an export: `tables/<name>.jsonl`, `files/<two characters>/<name>`, `files.jsonl` with the checksums of
//! those, and `manifest.json`, which comes last. `unfinished` is there until then.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Transferred;
use crate::database::tables::{TableFile, format};
use crate::folder::{create_private, if_present};
use crate::hex::hex;
use crate::ledger::Audit;
use crate::object_storage::{BlobCopy, Checksums};
use crate::{Error, Result};

pub(super) const TABLES: &str = "tables";
pub(super) const FILES: &str = "files";
pub(super) const MANIFEST: &str = "manifest.json";
const UNFINISHED: &str = "unfinished";

const ID_BYTES: usize = 13;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) format: String,
    pub(super) program: String,
    pub(super) pairing: Option<String>,
    pub(super) tables: Vec<TableFile>,
    pub(super) files: TableFile,
    pub(super) bytes: u64,
    pub(super) missing: u64,
    pub(super) audit: Audit,
}

pub(super) fn begin(folder: &Path) -> Result<()> {
    let doing = || format!("exporting to {}", folder.display());
    let prepare = || -> io::Result<bool> {
        create_private(folder)?;
        let unfinished = folder.join(UNFINISHED);
        if !unfinished.exists() && fs::read_dir(folder)?.next().is_some() {
            return Ok(false);
        }
        File::create(unfinished)?.sync_all()?;
        create_private(&folder.join(TABLES))?;
        create_private(&folder.join(FILES))?;
        Ok(true)
    };
    match prepare() {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(Error::new(doing(), "the folder is not empty").with_hint("name an empty or new folder"))
        }
        Err(cause) => Err(Error::keeping(doing(), cause)),
    }
}

pub(super) fn blobs_of(objects: &Path) -> Result<Vec<(String, u64)>> {
    #[derive(Deserialize)]
    struct Row {
        blob: String,
        size: u64,
    }
    let rows: Vec<Row> = lines(objects)?;
    Ok(rows.into_iter().map(|row| (row.blob, row.size)).collect())
}

pub(super) fn write_files(folder: &Path, copies: &[BlobCopy]) -> Result<TableFile> {
    let path = TableFile::path(folder, FILES);
    let write = || -> io::Result<String> {
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = BufWriter::new(options.open(&path)?);
        for copy in copies {
            serde_json::to_writer(&mut file, copy)?;
            file.write_all(b"\n")?;
        }
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        Ok(Checksums::of(&path)?.sha256)
    };
    let sha256 = write().map_err(|cause| Error::keeping(format!("writing {}", path.display()), cause))?;
    Ok(TableFile { name: FILES.to_owned(), rows: copies.len() as u64, sha256 })
}

fn lines<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Vec<T>> {
    let read = || {
        let lines = BufReader::new(File::open(path)?).lines();
        lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect::<io::Result<_>>()
    };
    read().map_err(|cause| Error::new(format!("reading {}", path.display()), cause))
}

impl Manifest {
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let write = || {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            file.as_file().sync_all()?;
            file.persist(folder.join(MANIFEST))?;
            if_present(fs::remove_file(folder.join(UNFINISHED)))?;
            if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
        };
        write()
            .map_err(|cause: io::Error| Error::keeping(format!("exporting to {}", folder.display()), cause))
    }

    pub(super) fn read(folder: &Path) -> Result<(Self, String)> {
        let doing = || format!("reading the export in {}", folder.display());
        let text = if_present(fs::read(folder.join(MANIFEST))).map_err(|cause| Error::new(doing(), cause))?;
        let Some(text) = text else {
            return Err(Error::new(doing(), format!("it has no {MANIFEST}"))
                .with_hint("name the folder of an export that has ended"));
        };
        #[derive(Deserialize)]
        struct Beginning {
            format: String,
            program: String,
        }
        let beginning: Beginning =
            serde_json::from_slice(&text).map_err(|cause| Error::new(doing(), cause))?;
        if beginning.format != format() {
            let cause = format!("version {} of the program wrote it, with other tables", beginning.program);
            return Err(Error::new(doing(), cause)
                .with_hint("export and import with the same version: the upgrade may come before or after"));
        }
        let manifest = serde_json::from_slice(&text).map_err(|cause| Error::new(doing(), cause))?;
        Ok((manifest, hex(Sha256::digest(&text).get(..ID_BYTES).unwrap_or_default())))
    }

    pub(super) fn check(&self, folder: &Path) -> Result<Vec<BlobCopy>> {
        let tables =
            self.tables.iter().map(|table| (TableFile::path(&folder.join(TABLES), &table.name), table));
        let files = TableFile::path(folder, FILES);
        for (path, table) in tables.chain([(files.clone(), &self.files)]) {
            let doing = || format!("reading {}", path.display());
            let found = Checksums::of(&path).map_err(|cause| Error::new(doing(), cause))?;
            if found.sha256 != table.sha256 {
                return Err(Error::new(
                    doing(),
                    "it is not the file that was exported; nothing was imported",
                )
                .with_hint("export again: files of the export were changed"));
            }
        }
        lines(&files)
    }

    pub(super) fn transferred(&self) -> Transferred {
        let rows =
            |name: &str| self.tables.iter().find(|table| table.name == name).map_or(0, |table| table.rows);
        Transferred {
            accounts: rows("accounts"),
            tasks: rows("tasks"),
            objects: rows("objects"),
            bytes: self.bytes,
            missing: self.missing,
            audit: self.audit.clone(),
            is_repeated: false,
        }
    }
}
