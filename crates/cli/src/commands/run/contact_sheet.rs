//! Contact sheets: a PNG that shows each input of a batch beside its output.

use std::fmt::Display;
use std::fs;
use std::io::{self, Cursor, ErrorKind};
use std::path::{Path, PathBuf};

use image::imageops::overlay;
use image::{ImageFormat, ImageReader, Rgba, RgbaImage};
use serde_json::Value;
use tempfile::TempDir;

use super::journal::identity_at;
use crate::environment::folder_of;
use crate::failure::{Failure, Result};

/// The longest side of a picture on the sheet, and the space around it, in pixels.
const MAX_SIDE: u32 = 320;
const GAP: u32 = 8;
/// A longer sheet cannot be opened by every viewer.
const MAX_ROWS: usize = 100;
const PAPER: Rgba<u8> = Rgba([255, 255, 255, 255]);

/// An input and its outputs, in the order of the batch.
pub(super) struct Pair {
    pub(super) input: PathBuf,
    pub(super) outputs: Vec<PathBuf>,
}

/// Checks, before anything is billed, that a sheet can be written there.
pub(super) fn check(sheet: &Path) -> Result {
    let is_png = sheet.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
    if is_png && folder_of(sheet).is_dir() && (!sheet.exists() || sheet.is_file()) {
        return Ok(());
    }
    let headline =
        format!("--before-after {}: it must be a PNG file in a folder that exists", sheet.display());
    Err(Failure::usage(headline).with_hint("for example --before-after sheet.png"))
}

/// A sheet that is written, in a folder beside its place.
pub(super) struct Written {
    folder: TempDir,
    /// Without links, whether it is there yet or not.
    place: PathBuf,
    shown: usize,
}

/// Writes the sheet beside its place. Pairs that are no pictures are left out.
pub(super) fn write(pairs: &[Pair], sheet: &Path) -> Result<Written> {
    let rows: Vec<[RgbaImage; 2]> = pairs.iter().filter_map(row).take(MAX_ROWS).collect();
    let height = |row: &[RgbaImage; 2]| row[0].height().max(row[1].height()) + GAP;
    let total = rows.iter().map(height).sum::<u32>() + GAP;
    let mut paper = RgbaImage::from_pixel(2 * MAX_SIDE + 3 * GAP, total, PAPER);
    let mut top = GAP;
    for row in &rows {
        for (picture, column) in row.iter().zip(0..) {
            let left = GAP + column * (MAX_SIDE + GAP) + (MAX_SIDE - picture.width()) / 2;
            overlay(&mut paper, picture, left.into(), top.into());
        }
        top += height(row);
    }
    let mut png = Cursor::new(Vec::new());
    paper.write_to(&mut png, ImageFormat::Png).map_err(|error| unwritable(sheet, error))?;
    let place = place_of(sheet).map_err(|error| unwritable(sheet, error))?;
    let folder = tempfile::Builder::new().prefix(".inferstore-").tempdir_in(folder_of(&place));
    let written = folder.and_then(|folder| {
        let written = Written { folder, place, shown: rows.len() };
        fs::write(written.path(), png.into_inner())?;
        // A file that is replaced keeps its mode.
        if let Ok(replaced) = fs::metadata(&written.place) {
            fs::set_permissions(written.path(), replaced.permissions())?;
        }
        Ok(written)
    });
    written.map_err(|error| unwritable(sheet, error))
}

fn place_of(sheet: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(sheet)
        .or_else(|_| Ok(fs::canonicalize(folder_of(sheet))?.join(sheet.file_name().unwrap_or_default())))
}

fn unwritable(sheet: &Path, cause: impl Display) -> Failure {
    Failure::local_failure(format!("{} cannot be written", sheet.display()), cause)
}

impl Written {
    fn path(&self) -> PathBuf {
        self.folder.path().join("sheet.png")
    }

    /// Moves the sheet to its place, and returns how many of the pairs it shows. It is noted before that, while nothing
    /// is in its place: after a kill at any step, the next start finds there either nothing or the sheet that was noted.
    pub(super) fn put(self, note: impl FnOnce(Value) -> Result) -> Result<usize> {
        match fs::remove_file(&self.place) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unwritable(&self.place, error)),
            _ => {}
        }
        note(identity_at(&self.place.display().to_string(), &self.path()))?;
        fs::rename(self.path(), &self.place).map_err(|error| unwritable(&self.place, error))?;
        Ok(self.shown)
    }
}

fn row(pair: &Pair) -> Option<[RgbaImage; 2]> {
    let output = pair.outputs.iter().find_map(|output| picture(output))?;
    Some([picture(&pair.input)?, output])
}

/// The picture in a file, no larger than it is on the sheet.
fn picture(path: &Path) -> Option<RgbaImage> {
    let picture = ImageReader::open(path).ok()?.with_guessed_format().ok()?.decode().ok()?;
    let is_small = picture.width() <= MAX_SIDE && picture.height() <= MAX_SIDE;
    Some(if is_small { picture } else { picture.thumbnail(MAX_SIDE, MAX_SIDE) }.into_rgba8())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may end when its set-up fails")]
mod tests {
    use super::*;
    use crate::commands::run::journal::identity;

    #[test]
    fn a_sheet_shows_each_input_beside_its_first_output_that_is_a_picture() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let save = |name: &str, width, color| {
            RgbaImage::from_pixel(width, 10, Rgba(color)).save(path(name)).unwrap();
        };
        save("wide.png", 640, [255, 0, 0, 255]);
        save("small.png", 20, [0, 0, 255, 255]);
        std::fs::write(path("text.txt"), "no picture").unwrap();
        let pairs = [
            Pair { input: path("wide.png"), outputs: vec![path("text.txt"), path("small.png")] },
            Pair { input: path("text.txt"), outputs: vec![path("small.png")] },
        ];
        assert_eq!(write(&pairs, &path("sheet.png")).unwrap().put(|_| Ok(())).unwrap(), 1);
        let sheet = image::open(path("sheet.png")).unwrap().into_rgba8();
        assert_eq!(sheet.dimensions(), (664, 26));
        assert_eq!(sheet.get_pixel(9, 9).0, [255, 0, 0, 255], "scaled to the column");
        assert_eq!(sheet.get_pixel(8 + 320 + 8 + 160, 12).0, [0, 0, 255, 255], "in the middle of its column");
        assert_eq!(sheet.get_pixel(332, 12), &PAPER);
        assert!(check(&path("sheet.txt")).is_err() && check(&path("none/sheet.png")).is_err());
        assert!(check(&path("sheet.png")).is_ok());
    }

    #[test]
    fn a_sheet_is_noted_as_it_will_be_while_nothing_is_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let sheet = folder.path().join("sheet.png");
        for _ in 0..2 {
            let mut noted = Value::Null;
            let note = |identity| {
                assert!(!sheet.exists());
                noted = identity;
                Ok(())
            };
            write(&[], &sheet).unwrap().put(note).unwrap();
            assert_eq!(noted, identity("sheet.png", &sheet));
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is beside it");
        }
        let cut = write(&[], &sheet).unwrap().put(|_| Err(Failure::local_failure("the journal", "full")));
        assert!(cut.is_err() && !sheet.exists());
    }
}
