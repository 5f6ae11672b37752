//! Tables for people: lists under headings and fields of one record, fitted to the width of the terminal and
//! free of control characters. What one copies (identifiers, URLs, paths) is never cut.

use std::iter;

use console::{Alignment, measure_text_width, pad_str, truncate_str};
use inferstore::{is_http, is_unprintable};

/// Policy for a column that does not fit into the width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It stays whole.
    Keep,
    /// Its end is replaced by `…`.
    Shorten,
    /// It is left out; the highest number goes first.
    Drop(u8),
}

/// A list under headings, or names beside values.
#[derive(Debug, Default)]
pub(crate) struct Table {
    columns: Vec<(Cell, Fit)>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    text: String,
    /// The text that a terminal shows instead.
    on_terminal: Option<String>,
    /// The parameters of an escape sequence.
    style: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Look {
    /// The width of a line, if a terminal shows it.
    pub(crate) width: Option<usize>,
    pub(crate) has_color: bool,
    /// URLs become hyperlinks (OSC 8).
    pub(crate) has_links: bool,
}

/// Between two columns.
const GAP: &str = "  ";

/// No column is shortened below this.
const MIN_SHORTENED: usize = 12;

/// Values stand below their names when fewer columns are left for them.
const MIN_VALUE: usize = 24;

impl Table {
    pub(crate) fn new<H: Into<Cell>>(columns: impl IntoIterator<Item = (H, Fit)>) -> Self {
        let columns = columns.into_iter().map(|(heading, fit)| (heading.into(), fit)).collect();
        Self { columns, rows: Vec::new() }
    }

    /// Names beside values; values that are absent are left out.
    pub(crate) fn of_fields<C: Into<Cell>, const N: usize>(fields: [(&str, Option<C>); N]) -> Self {
        let mut table = Self::default();
        for (name, value) in fields {
            if let Some(value) = value {
                table.add([Cell::from(name), value.into()]);
            }
        }
        table
    }

    pub(crate) fn add<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub(crate) fn draw(&self, look: Look) -> String {
        if self.columns.is_empty() { self.draw_fields(look) } else { self.draw_list(look) }
    }

    fn draw_fields(&self, look: Look) -> String {
        let fields = || self.rows.iter().filter_map(|row| row.first_chunk());
        let widest = fields().map(|[name, _]| name.width(look)).max().unwrap_or(0);
        let column = widest + GAP.len();
        let is_beside = look.width.is_none_or(|width| width >= column + MIN_VALUE);
        let indent = if is_beside { column } else { GAP.len() };
        let mut lines = Vec::new();
        for [name, value] in fields() {
            let text = value.text_for(look);
            let wrapped = match look.width {
                Some(width) => wrap(text, width.saturating_sub(indent)),
                None => vec![text.to_owned()],
            };
            if !is_beside {
                lines.push(name.text_for(look).to_owned());
            }
            for (number, piece) in wrapped.iter().enumerate() {
                let label = if number == 0 && is_beside { name.text_for(look) } else { "" };
                let label = pad_str(label, indent, Alignment::Left, None);
                lines.push(format!("{label}{}", value.painted(piece, look)).trim_end().to_owned());
            }
        }
        lines.join("\n")
    }

    fn draw_list(&self, look: Look) -> String {
        let columns = self.fitted(look);
        let line = |row: &[Cell]| {
            let cell = |&(column, width): &(usize, usize)| {
                let cell = row.get(column).cloned().unwrap_or_default();
                let text = match self.columns.get(column) {
                    Some((_, Fit::Shorten)) => truncate_str(cell.text_for(look), width, "…"),
                    _ => cell.text_for(look).into(),
                };
                let padding = " ".repeat(width.saturating_sub(measure_text_width(&text)));
                format!("{}{padding}", cell.painted(&text, look))
            };
            columns.iter().map(cell).collect::<Vec<_>>().join(GAP).trim_end().to_owned()
        };
        let headings: Vec<Cell> = self.columns.iter().map(|(heading, _)| heading.clone()).collect();
        let headings = painted(&line(&headings), "1", look.has_color);
        iter::once(headings).chain(self.rows.iter().map(|row| line(row))).collect::<Vec<_>>().join("\n")
    }

    /// The columns that are shown, with their widths.
    fn fitted(&self, look: Look) -> Vec<(usize, usize)> {
        let natural = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width(look));
            let heading = self.columns.get(column).map_or(0, |(heading, _)| heading.width(look));
            (column, cells.chain([heading]).max().unwrap_or(0))
        };
        let mut columns: Vec<(usize, usize)> = (0..self.columns.len()).map(natural).collect();
        let Some(most) = look.width else { return columns };
        loop {
            let mut fitted = columns.clone();
            self.shorten(&mut fitted, most);
            let rank = |&(column, _): &(usize, usize)| match self.columns.get(column) {
                Some((_, Fit::Drop(rank))) => Some((*rank, column)),
                // Rather than a line that is too long.
                Some((_, Fit::Shorten)) => Some((0, column)),
                _ => None,
            };
            match columns.iter().filter_map(rank).max() {
                Some((_, dropped)) if total(&fitted) > most => {
                    columns.retain(|(column, _)| *column != dropped);
                }
                _ => return fitted,
            }
        }
    }

    /// Takes from the widest of the columns that can be shortened.
    fn shorten(&self, columns: &mut [(usize, usize)], most: usize) {
        while total(columns) > most {
            let is_shortened = |column: usize| matches!(self.columns.get(column), Some((_, Fit::Shorten)));
            let widest = columns.iter_mut().filter(|(column, _)| is_shortened(*column));
            match widest.max_by_key(|(_, width)| *width) {
                Some((_, width)) if *width > MIN_SHORTENED => *width -= 1,
                _ => return,
            }
        }
    }
}

fn total(columns: &[(usize, usize)]) -> usize {
    let widths: usize = columns.iter().map(|(_, width)| width).sum();
    widths + GAP.len() * columns.len().saturating_sub(1)
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: printable(text.as_ref()), ..Self::default() }
    }
}

impl Cell {
    pub(crate) fn status(status: &str) -> Self {
        let style = match status {
            "success" => "32",
            "failed" => "31",
            "canceled" => "33",
            "computing" => "36",
            _ => "2",
        };
        Self { style: Some(style), ..Self::from(status) }
    }

    pub(crate) fn good(text: &str) -> Self {
        Self { style: Some("32"), ..Self::from(text) }
    }

    pub(crate) fn warning(text: &str) -> Self {
        Self { style: Some("33"), ..Self::from(text) }
    }

    pub(crate) fn on_terminal(self, text: impl AsRef<str>) -> Self {
        Self { on_terminal: Some(printable(text.as_ref())), ..self }
    }

    fn text_for(&self, look: Look) -> &str {
        match &self.on_terminal {
            Some(text) if look.width.is_some() => text,
            _ => &self.text,
        }
    }

    fn width(&self, look: Look) -> usize {
        measure_text_width(self.text_for(look))
    }

    /// A piece of the text, in its style and as a hyperlink if it is a URL.
    fn painted(&self, piece: &str, look: Look) -> String {
        let text = match self.style {
            Some(style) => painted(piece, style, look.has_color),
            None => piece.to_owned(),
        };
        if is_http(&self.text) && look.has_links && !self.text.contains(' ') {
            format!("\u{1b}]8;;{}\u{1b}\\{text}\u{1b}]8;;\u{1b}\\", self.text)
        } else {
            text
        }
    }
}

/// Lines of whole words. A word longer than a line stays whole: the terminal wraps it, and it can be copied.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if measure_text_width(line) + 1 + measure_text_width(word) <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

pub(crate) fn painted(text: &str, style: &str, has_color: bool) -> String {
    if has_color && !text.is_empty() { format!("\u{1b}[{style}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Foreign text on one line and without control characters, which could steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' | '\r' => ' ',
            c if is_unprintable(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0198c5a2-6a0e-7c3e-9d55-5a1b3f0e7c11";

    fn table() -> Table {
        let columns = [("ID", Fit::Keep), ("COST", Fit::Drop(1)), ("DESCRIPTION", Fit::Shorten)];
        let mut table = Table::new(columns);
        table.add([ID, "0.01", "a description that goes on\nand on"]);
        table
    }

    fn at(width: usize) -> Look {
        Look { width: Some(width), ..Look::default() }
    }

    #[test]
    fn a_list_is_whole_in_a_pipe() {
        let drawn = table().draw(Look::default());
        assert!(drawn.ends_with(&format!("{ID}  0.01  a description that goes on and on")), "{drawn}");
    }

    #[test]
    fn a_list_is_shortened_then_loses_columns_and_never_cuts_an_identifier() {
        for width in [20, 36, 40, 50, 60, 70] {
            let drawn = table().draw(at(width));
            assert!(drawn.contains(ID), "{drawn}");
            let widest = drawn.lines().map(measure_text_width).max().unwrap_or(0);
            assert!(widest <= width.max(ID.len() + GAP.len() + MIN_SHORTENED), "{drawn}");
            assert_eq!(drawn.contains("COST"), width >= 60, "{width}: {drawn}");
        }
    }

    #[test]
    fn a_record_wraps_between_words_and_keeps_long_ones_whole() {
        let url = format!("https://files.example/{ID}/{ID}.png");
        let message = "the message of a failure is longer than a line".to_owned();
        let table = Table::of_fields([("message", Some(message)), ("output", Some(url.clone()))]);
        let drawn = table.draw(at(40));
        assert!(drawn.lines().any(|line| line.ends_with(&url)), "{drawn}");
        assert!(drawn.lines().filter(|line| !line.contains("https")).all(|line| line.len() <= 40), "{drawn}");
        let linked = table.draw(Look { has_links: true, ..at(40) });
        assert!(linked.contains(&format!("\u{1b}]8;;{url}\u{1b}\\{url}")), "{linked:?}");
        assert!(table.draw(at(20)).starts_with("message\n  the message"), "names stand above");
    }

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\nc\u{202e}d"), "a\u{fffd}[2Jb c\u{fffd}d");
    }
}
