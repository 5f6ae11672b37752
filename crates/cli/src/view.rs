//! A picture in the terminal, drawn with half blocks, which every terminal shows.

use std::path::Path;

use image::imageops::FilterType;
use image::{DynamicImage, Rgba};

use crate::failure::{Failure, Result};
use crate::settings::Session;

/// Shows a picture, no larger than it is and no larger than the terminal.
pub(crate) fn show(path: &Path, session: &Session) -> Result {
    let failed = Failure::of_path(path, "cannot be shown");
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let picture = image::load_from_memory(&bytes).map_err(|error| failed(error.to_string()))?;
    let color = session.environment.variable("COLORTERM").unwrap_or_default();
    let rows = console::Term::stdout().size_checked().map_or(u32::MAX, |(rows, _)| u32::from(rows));
    let columns = u32::try_from(session.environment.width).unwrap_or(u32::MAX);
    let terminal = Terminal {
        size: (columns, rows.saturating_sub(1)),
        has_true_color: ["truecolor", "24bit"].contains(&color),
    };
    session.output.bytes(terminal.draw(&picture).as_bytes())
}

struct Terminal {
    /// In cells, which are twice as high as wide.
    size: (u32, u32),
    has_true_color: bool,
}

impl Terminal {
    fn draw(&self, picture: &DynamicImage) -> String {
        // No pixel is larger than half a cell.
        let fit =
            |width: u32, height: u32, limit: u32| u64::from(limit) * u64::from(width) / u64::from(height);
        let tallest = fit(picture.width(), picture.height(), self.size.1.saturating_mul(2));
        let columns = tallest.min(picture.width().min(self.size.0).into()).max(1);
        let columns = u32::try_from(columns).unwrap_or(1);
        let rows = fit(picture.height(), picture.width(), columns).div_ceil(2).max(1);
        let rows = u32::try_from(rows).unwrap_or(1);
        let picture = picture.resize_exact(columns, 2 * rows, FilterType::Triangle).to_rgba8();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two by four pixels: red, blue, nothing, green, a row each.
    fn picture() -> DynamicImage {
        let rows = [[255, 0, 0, 255], [0, 0, 255, 255], [0, 0, 0, 0], [0, 128, 0, 255]];
        image::RgbaImage::from_fn(2, 4, |_, y| Rgba(rows[y as usize])).into()
    }

    fn drawn(size: (u32, u32), has_true_color: bool) -> String {
        Terminal { size, has_true_color }.draw(&picture())
    }

    #[test]
    fn any_terminal_shows_half_blocks_in_its_colors() {
        let both = "\x1b[38;2;255;0;0;48;2;0;0;255m▀".repeat(2);
        let lower = "\x1b[49;38;2;0;128;0m▄".repeat(2);
        assert_eq!(drawn((80, 24), true), format!("{both}\x1b[0m\n{lower}\x1b[0m\n"));
        let both = "\x1b[38;5;196;48;5;21m▀".repeat(2);
        let lower = "\x1b[49;38;5;28m▄".repeat(2);
        assert_eq!(drawn((80, 24), false), format!("{both}\x1b[0m\n{lower}\x1b[0m\n"));
    }

    #[test]
    fn a_picture_is_no_larger_than_the_terminal() {
        for size in [(1, 24), (80, 1)] {
            let drawn = drawn(size, true);
            assert_eq!((drawn.matches(['▀', '▄']).count(), drawn.lines().count()), (1, 1), "{drawn:?}");
        }
    }
}
