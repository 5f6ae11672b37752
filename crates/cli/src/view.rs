//! A picture in the terminal: the graphics protocol of kitty or iTerm2, sixel, or half blocks. Terminals are
//! recognized by name: a query waits for a response that some terminals never send.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::imageops::FilterType;
use image::{DynamicImage, ImageFormat, Rgba, RgbaImage};

use crate::failure::{Failure, Result};
use crate::settings::Session;

/// The names of terminals in TERM, TERM_PROGRAM or LC_TERMINAL.
const KITTY: [&str; 4] = ["xterm-kitty", "xterm-ghostty", "ghostty", "WezTerm"];
const ITERM: [&str; 6] = ["iTerm.app", "iTerm2", "konsole", "mintty", "rio", "WarpTerminal"];
const SIXEL: [&str; 5] = ["foot", "foot-extra", "mlterm", "contour", "xterm-sixel"];

/// The most bytes of an escape sequence of kitty.
const MAX_CHUNK: usize = 4_096;

/// Ordered dithering, in sixteenths.
const THRESHOLDS: [[u32; 4]; 4] = [[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]];

/// Shows a picture, no larger than it is and no larger than the terminal.
pub(crate) fn show(path: &Path, session: &Session) -> Result {
    let failed = Failure::of_path(path, "cannot be shown");
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let picture = image::load_from_memory(&bytes).map_err(|error| failed(error.to_string()))?;
    let variable = |name| session.environment.variable(name).unwrap_or_default();
    // Konsole has a variable of its own instead of a name.
    let konsole = session.environment.variable("KONSOLE_VERSION").map_or("", |_| "konsole");
    let rows = console::Term::stdout().size_checked().map_or(u32::MAX, |(rows, _)| u32::from(rows));
    let columns = u32::try_from(session.environment.width).unwrap_or(u32::MAX);
    let terminal = Terminal {
        names: &[variable("TERM"), variable("TERM_PROGRAM"), variable("LC_TERMINAL"), konsole],
        size: (columns, rows.saturating_sub(1)),
        has_true_color: ["truecolor", "24bit"].contains(&variable("COLORTERM")),
    };
    let drawn = terminal.draw(&picture).map_err(failed)?;
    session.output.bytes(drawn.as_bytes())
}

struct Terminal<'a> {
    names: &'a [&'a str],
    /// In cells, which are twice as high as wide.
    size: (u32, u32),
    has_true_color: bool,
}

impl Terminal<'_> {
    fn draw(&self, picture: &DynamicImage) -> std::result::Result<String, String> {
        let is_one_of = |known: &[&str]| self.names.iter().any(|name| known.contains(name));
        // No pixel is larger than half a cell.
        let fit =
            |width: u32, height: u32, limit: u32| u64::from(limit) * u64::from(width) / u64::from(height);
        let tallest = fit(picture.width(), picture.height(), self.size.1.saturating_mul(2));
        let columns = tallest.min(picture.width().min(self.size.0).into()).max(1);
        let columns = u32::try_from(columns).unwrap_or(1);
        let rows = fit(picture.height(), picture.width(), columns).div_ceil(2).max(1);
        let rows = u32::try_from(rows).unwrap_or(1);
        let encoded = || {
            let mut png = Cursor::new(Vec::new());
            picture.write_to(&mut png, ImageFormat::Png).map_err(|error| error.to_string())?;
            Ok::<_, String>(STANDARD.encode(png.into_inner()))
        };
        if is_one_of(&KITTY) {
            return Ok(kitty(&encoded()?, columns, rows));
        }
        if is_one_of(&ITERM) {
            let size = format!("width={columns};height={rows}");
            return Ok(format!("\x1b]1337;File=inline=1;preserveAspectRatio=1;{size}:{}\x07\n", encoded()?));
        }
        if is_one_of(&SIXEL) {
            let picture = picture.resize_exact(6 * columns, 12 * rows, FilterType::Triangle);
            return Ok(sixel(&picture.to_rgba8()));
        }
        Ok(self.half_blocks(&picture.resize_exact(columns, 2 * rows, FilterType::Triangle)))
    }

    fn half_blocks(&self, picture: &DynamicImage) -> String {
        let picture = picture.to_rgba8();
        let mut drawn = String::new();
        for row in 0..picture.height() / 2 {
            for column in 0..picture.width() {
                let pixel = |y| Some(picture[(column, y)]).filter(|Rgba([.., alpha])| *alpha >= 128);
                drawn += &match (pixel(2 * row), pixel(2 * row + 1)) {
                    (None, None) => "\x1b[0m ".to_owned(),
                    (Some(upper), None) => format!("\x1b[49;38;{}m▀", self.color(upper)),
                    (None, Some(lower)) => format!("\x1b[49;38;{}m▄", self.color(lower)),
                    (Some(upper), Some(lower)) => {
                        format!("\x1b[38;{};48;{}m▀", self.color(upper), self.color(lower))
                    }
                };
            }
            drawn += "\x1b[0m\n";
        }
        drawn
    }

    /// The parameters of a color, of 16 million or of the 216 of a cube.
    fn color(&self, Rgba([red, green, blue, _]): Rgba<u8>) -> String {
        if self.has_true_color {
            return format!("2;{red};{green};{blue}");
        }
        let level = |channel: u8| match channel {
            0..48 => 0,
            48..115 => 1,
            _ => (channel - 35) / 40,
        };
        format!("5;{}", 16 + 36 * level(red) + 6 * level(green) + level(blue))
    }
}

fn kitty(encoded: &str, columns: u32, rows: u32) -> String {
    let mut keys = format!("a=T,f=100,q=2,c={columns},r={rows},");
    let mut drawn = String::new();
    let mut chunks = encoded.as_bytes().chunks(MAX_CHUNK).peekable();
    while let Some(chunk) = chunks.next() {
        let has_more = u8::from(chunks.peek().is_some());
        drawn += &format!("\x1b_G{keys}m={has_more};{}\x1b\\", String::from_utf8_lossy(chunk));
        keys.clear();
    }
    drawn + "\n"
}

/// Sixel with the 216 colors of a cube, dithered.
fn sixel(picture: &RgbaImage) -> String {
    let mut drawn = format!("\x1bP0;1q\"1;1;{};{}", picture.width(), picture.height());
    for color in 0..216 {
        let percent = [color / 36, color / 6 % 6, color % 6].map(|level| 20 * level);
        drawn += &format!("#{color};2;{};{};{}", percent[0], percent[1], percent[2]);
    }
    for top in (0..picture.height()).step_by(6) {
        // For each color, the rows that have it, as bits, in each column.
        let mut layers = BTreeMap::<u32, Vec<u8>>::new();
        let rows = top..picture.height().min(top + 6);
        for (y, x) in rows.flat_map(|y| (0..picture.width()).map(move |x| (y, x))) {
            let Rgba([red, green, blue, alpha]) = picture[(x, y)];
            if alpha >= 128 {
                let threshold = 16 * THRESHOLDS[y as usize % 4][x as usize % 4];
                let level = |channel: u8| (5 * u32::from(channel) + threshold) / 255;
                let color = 36 * level(red) + 6 * level(green) + level(blue);
                let columns = layers.entry(color).or_insert_with(|| vec![0; picture.width() as usize]);
                columns[x as usize] |= 1 << (y - top);
            }
        }
        for (color, columns) in layers {
            drawn += &format!("#{color}");
            for run in columns.chunk_by(|one, other| one == other) {
                drawn += &format!("!{}{}", run.len(), char::from(b'?' + run[0]));
            }
            drawn.push('$');
        }
        drawn.push('-');
    }
    drawn + "\x1b\\\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two by four pixels: red, blue, nothing, green, a row each.
    fn picture() -> DynamicImage {
        let rows = [[255, 0, 0, 255], [0, 0, 255, 255], [0, 0, 0, 0], [0, 128, 0, 255]];
        image::RgbaImage::from_fn(2, 4, |_, y| Rgba(rows[y as usize])).into()
    }

    fn drawn(name: &str, size: (u32, u32), has_true_color: bool) -> String {
        Terminal { names: &[name], size, has_true_color }.draw(&picture()).unwrap_or_else(|error| error)
    }

    #[test]
    fn any_terminal_shows_half_blocks_in_its_colors() {
        let both = "\x1b[38;2;255;0;0;48;2;0;0;255m▀".repeat(2);
        let lower = "\x1b[49;38;2;0;128;0m▄".repeat(2);
        assert_eq!(drawn("xterm", (80, 24), true), format!("{both}\x1b[0m\n{lower}\x1b[0m\n"));
        let both = "\x1b[38;5;196;48;5;21m▀".repeat(2);
        let lower = "\x1b[49;38;5;28m▄".repeat(2);
        assert_eq!(drawn("xterm", (80, 24), false), format!("{both}\x1b[0m\n{lower}\x1b[0m\n"));
    }

    #[test]
    fn a_picture_is_no_larger_than_the_terminal() {
        for size in [(1, 24), (80, 1)] {
            let drawn = drawn("xterm", size, true);
            assert_eq!((drawn.matches(['▀', '▄']).count(), drawn.lines().count()), (1, 1), "{drawn:?}");
        }
    }

    #[test]
    fn terminals_with_graphics_get_them() {
        let shown = drawn("xterm-kitty", (80, 24), true);
        assert!(shown.starts_with("\x1b_Ga=T,f=100,q=2,c=2,r=2,m=0;iVBORw0KGgo"), "{shown:?}");
        let shown = drawn("iTerm.app", (80, 24), true);
        assert!(shown.contains("]1337;File=inline=1;preserveAspectRatio=1;width=2;height=2:iVBORw0KGgo"));
        let shown = drawn("foot", (80, 24), true);
        assert!(shown.starts_with("\x1bP0;1q\"1;1;12;24#0;2;0;0;0#1;2;0;0;20"), "{shown:?}");
        let red = RgbaImage::from_pixel(4, 6, Rgba([255, 0, 0, 255]));
        assert!(sixel(&red).ends_with("100;100;100#180!4~$-\x1b\\\n"), "{:?}", sixel(&red));
        let long = kitty(&"A".repeat(2 * MAX_CHUNK), 1, 1);
        assert_eq!((long.matches("m=1;").count(), long.matches("\x1b_Gm=0;").count()), (1, 1));
    }
}
