//! Outputs of a batch: downloaded beside their destination, then moved, so that the journal knows each path first.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use inferstore::{Outcome, numbered, rename_new};

use super::{Delivery, TemplateVariables, followed, harmless, without_variable};
use crate::exit;
use crate::failure::{Failure, Result};
use crate::settings::Session;
use crate::values::md5_of;

/// The outputs of one task, downloaded. Dropping it removes what was not moved: the next start downloads it again.
pub(crate) struct Staged {
    /// None without outputs.
    _folder: Option<StagingFolder>,
    files: Vec<StagedFile>,
}

struct StagingFolder(PathBuf);

impl Drop for StagingFolder {
    fn drop(&mut self) {
        // One that cannot be removed does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct StagedFile {
    path: PathBuf,
    wanted: PathBuf,
    /// A file that exists at the path stays, and the output gets a number.
    is_numbered: bool,
}

impl Delivery {
    pub(crate) async fn stage(
        &self,
        outcome: &Outcome,
        names: &TemplateVariables,
        session: &Session,
    ) -> Result<Staged> {
        let Some((destination, folder)) = self.destination.as_ref().zip(self.folder(session)) else {
            return Ok(Staged { _folder: None, files: Vec::new() });
        };
        let folder = folder.join(format!(".inferstore-{}", harmless(outcome.task.as_str())));
        let folder = StagingFolder(absolute(&folder));
        let mut files = Vec::new();
        for (number, (name, _)) in outcome.urls().enumerate() {
            let folder = folder.0.join(number.to_string());
            std::fs::create_dir_all(&folder).map_err(Failure::of_path(&folder, "cannot be made"))?;
            // A start that was killed may have left it there.
            let download = outcome.download(name)?.limits(|limits| limits.overwrite = true);
            let is_several = outcome.urls().nth(1).is_some();
            let path = absolute(&destination.path(outcome.task.as_str(), is_several, names, name));
            files.push(match without_variable(&path) {
                None => {
                    let downloaded = download.to_file(folder.join("output")).await?.path;
                    StagedFile { path: downloaded, wanted: followed(&path)?, is_numbered: false }
                }
                Some(stem) => {
                    let file = stem.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    let path = download.to_dir(folder, file).await?.path;
                    let wanted = stem.with_file_name(path.file_name().unwrap_or_default());
                    StagedFile { path, wanted, is_numbered: true }
                }
            });
        }
        Ok(Staged { _folder: Some(folder), files })
    }

    /// Chooses a destination for each output. A path is free if nothing exists there, if the file there may be replaced
    /// or is one of `outdated`, or if an earlier start saved the output there, as one of `own`; a path of another item
    /// (`is_taken`) is not. If the wanted path is not free, a numbered output gets the next free number, any other
    /// output fails. Calls `named` with both paths if the chosen one differs and is not of `own`.
    pub(crate) fn destinations(
        &self,
        staged: &Staged,
        own: &[PathBuf],
        outdated: &[PathBuf],
        is_taken: impl Fn(&Path) -> bool,
        named: impl Fn(&Path, &Path),
    ) -> Result<Vec<PathBuf>> {
        let mut chosen: Vec<PathBuf> = Vec::new();
        for file in &staged.files {
            let mut path = file.wanted.clone();
            let mut number = 1;
            let is_of_another =
                |path: &PathBuf| chosen.contains(path) || (is_taken(path) && !outdated.contains(path));
            while is_of_another(&path) || !(self.is_free(&path, file, own) || outdated.contains(&path)) {
                if !file.is_numbered {
                    let (what, how) = match is_of_another(&path) {
                        true => ("has another output of the batch", ""),
                        false => ("exists already", "give --overwrite, or "),
                    };
                    let headline = format!("{} {what}", path.display());
                    let hint = format!("{how}write {{input}}, {{name}} or {{task}} into the template of -o");
                    return Err(Failure::new(exit::FAILED, headline).with_hint(hint));
                }
                number += 1;
                path = numbered(&file.wanted, number);
            }
            if path != file.wanted && !own.contains(&path) {
                named(&file.wanted, &path);
            }
            chosen.push(path);
        }
        Ok(chosen)
    }

    fn is_free(&self, path: &Path, file: &StagedFile, own: &[PathBuf]) -> bool {
        let exists = std::fs::symlink_metadata(path).is_ok();
        !exists || (path.is_file() && self.overwrite) || file.is_saved(path, own)
    }

    /// Moves the outputs to the destinations that were chosen for them, unless they are there already.
    pub(crate) fn save_staged(
        &self,
        staged: &Staged,
        destinations: &[PathBuf],
        own: &[PathBuf],
        outdated: &[PathBuf],
    ) -> Result {
        for (file, destination) in staged.files.iter().zip(destinations) {
            if file.is_saved(destination, own) {
                continue;
            }
            move_to(&file.path, destination, self.overwrite || outdated.contains(destination))
                .map_err(Failure::of_path(destination, "cannot be written"))?;
        }
        Ok(())
    }
}

impl StagedFile {
    /// Returns true when an earlier start saved the output at this path, which is one of `own`. After a kill before the
    /// move, another file may have come to the path.
    fn is_saved(&self, path: &Path, own: &[PathBuf]) -> bool {
        let is_own = path.is_file() && own.iter().any(|own| own == path);
        is_own && md5_of(path).is_ok_and(|hash| md5_of(&self.path).is_ok_and(|own| own == hash))
    }
}

fn move_to(from: &Path, to: &Path, may_replace: bool) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)?;
    }
    if !may_replace {
        // After a failure, it stays where it is for the next start.
        return rename_new(from, to);
    }
    match std::fs::metadata(to) {
        Ok(replaced) if !replaced.is_file() => return Err(io::Error::other("it is not a regular file")),
        // A file that is replaced keeps its mode.
        Ok(replaced) => std::fs::set_permissions(from, replaced.permissions())?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    std::fs::rename(from, to)
}

/// The path from the root: the same command may continue in another working folder.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the path relative to the working folder, if it is below.
pub(crate) fn relative_path(path: &Path, session: &Session) -> PathBuf {
    let folder = absolute(&session.here("."));
    path.strip_prefix(folder).unwrap_or(path).to_owned()
}
