//! Tables for people: aligned, cut to the width of the terminal, and free of control characters.

use console::{Alignment, measure_text_width, pad_str, truncate_str};

/// Rows under headings, or names beside values.
#[derive(Debug, Default)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// How a table is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// Where lines are cut, if a terminal shows them.
    pub(crate) width: Option<usize>,
    pub(crate) has_color: bool,
}

/// Between two columns.
const GAP: &str = "  ";

/// No column is cut below this.
const NARROWEST: usize = 8;

impl Table {
    pub(crate) fn new(headings: impl Into<Vec<&'static str>>) -> Self {
        Self { headings: headings.into(), rows: Vec::new() }
    }

    /// Names beside values; values that are not there are left out.
    pub(crate) fn of_fields<const N: usize>(fields: [(&str, Option<String>); N]) -> Self {
        let mut table = Self::default();
        for (name, value) in fields {
            if let Some(value) = value {
                table.add([name.to_owned(), value]);
            }
        }
        table
    }

    pub(crate) fn add(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    pub(crate) fn draw(&self, look: Look) -> String {
        let widths = self.widths(look.width);
        let mut lines = Vec::new();
        if !self.headings.is_empty() {
            let headings: Vec<String> = self.headings.iter().map(|heading| (*heading).to_owned()).collect();
            lines.push(painted(&line(&headings, &widths), "1", look.has_color));
        }
        for row in &self.rows {
            lines.push(line(row, &widths));
        }
        lines.join("\n")
    }

    /// What each column needs; if that is too much together, the widest ones give.
    fn widths(&self, most: Option<usize>) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).chain([self.headings.len()]).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
                let heading = self.headings.get(column).copied();
                cells.chain(heading).map(measure_text_width).max().unwrap_or(0)
            })
            .collect();
        let gaps = GAP.len() * columns.saturating_sub(1);
        while let Some(most) = most
            && widths.iter().sum::<usize>() + gaps > most
            && let Some(widest) = widths.iter_mut().max()
            && *widest > NARROWEST
        {
            *widest -= 1;
        }
        widths
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let padded: Vec<String> = cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| {
            let cut = truncate_str(cell, *width, "…");
            pad_str(&cut, *width, Alignment::Left, None).into_owned()
        })
        .collect();
    padded.join(GAP).trim_end().to_owned()
}

/// The text in a style of the terminal.
pub(crate) fn painted(text: &str, style: &str, has_color: bool) -> String {
    if has_color { format!("\u{1b}[{style}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Text that others wrote, on one line and without what would steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' | '\r' => ' ',
            // Marks that turn the direction of what follows.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["ID", "DESCRIPTION"]);
        table.add(["a".to_owned(), "one".to_owned()]);
        table.add(["longer".to_owned(), "a description that goes on\nand on".to_owned()]);
        table
    }

    #[test]
    fn a_table_is_whole_in_a_pipe() {
        let look = Look { width: None, has_color: false };
        let drawn = "ID      DESCRIPTION\na       one\nlonger  a description that goes on and on";
        assert_eq!(table().draw(look), drawn);
    }

    #[test]
    fn a_table_is_cut_to_a_terminal() {
        let drawn = table().draw(Look { width: Some(24), has_color: false });
        assert_eq!(drawn.lines().map(measure_text_width).max(), Some(24));
        assert!(drawn.ends_with('…'));
    }

    #[test]
    fn text_of_others_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\nc\u{202e}d"), "a\u{fffd}[2Jb c\u{fffd}d");
    }
}
