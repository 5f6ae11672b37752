//! Rows of a batch: the parser of CSV and JSON Lines files.

use std::collections::HashSet;

use inferstore::json_problem;
use serde_json::Value;

use crate::exit;
use crate::failure::{Failure, Result};
use crate::json::Members;

pub(super) struct Row {
    pub(super) line: u64,
    pub(super) values: Vec<(String, Value)>,
}

/// Parses rows one by one. `place` names the file in failures.
pub(super) fn parse<'a>(text: &'a str, place: &'a str) -> Result<Box<dyn Iterator<Item = Result<Row>> + 'a>> {
    let malformed = move |line: u64, problem: &str| {
        Failure::new(exit::INPUT, format!("{place}:{line}: {problem}"))
            .with_hint("correct the row; nothing was sent")
    };
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('[') {
        return Err(Failure::new(exit::INPUT, format!("{place} is a JSON array"))
            .with_hint("write each object on a line of its own: jq -c '.[]'; nothing was sent"));
    }
    if text.trim_start().starts_with('{') {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        return Ok(Box::new(lines.map(move |(line, text)| {
            let Members::<Value>(mut values) = serde_json::from_str(text)
                .map_err(|error| malformed(line, &format!("no JSON object: {}", json_problem(&error))))?;
            values.retain(|(_, value)| !value.is_null());
            Ok(Row { line, values })
        })));
    }
    let header = text.lines().next().unwrap_or_default();
    // Spreadsheets write semicolons where the comma is in numbers.
    let delimiter = match (header.contains(','), header.contains('\t'), header.contains(';')) {
        (false, true, _) => b'\t',
        (false, false, true) => b';',
        _ => b',',
    };
    let mut reader =
        csv::ReaderBuilder::new().delimiter(delimiter).trim(csv::Trim::All).from_reader(text.as_bytes());
    let columns = reader.headers().map_err(|error| malformed(1, &error.to_string()))?.clone();
    let mut seen = HashSet::new();
    if let Some(twice) = columns.iter().find(|column| column.is_empty() || !seen.insert(*column)) {
        return Err(malformed(1, &format!("the column {twice:?} has no name of its own")));
    }
    // The parser reports where the line before a row ends, if that is a CRLF or if blank lines follow.
    let (mut line, mut counted) = (1, 0);
    let mut line_at = move |position: Option<&csv::Position>| {
        let reported =
            position.and_then(|position| usize::try_from(position.byte()).ok()).unwrap_or_default();
        let rest = text.get(reported..).unwrap_or_default();
        let start = text.len() - rest.trim_start_matches(['\r', '\n']).len();
        let between = text.get(counted..start).unwrap_or_default();
        line += between.bytes().filter(|byte| *byte == b'\n').count() as u64;
        counted = counted.max(start);
        line
    };
    Ok(Box::new(reader.into_records().map(move |record| {
        let record = record.map_err(|error| {
            let line = line_at(error.position());
            malformed(line, &format!("the row does not have {} columns", columns.len()))
        })?;
        let line = line_at(record.position());
        let cells = columns.iter().zip(&record).filter(|(_, cell)| !cell.is_empty());
        Ok(Row { line, values: cells.map(|(name, cell)| (name.to_owned(), cell.into())).collect() })
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<(u64, usize)> {
        let rows: Vec<Row> = parse(text, "jobs").and_then(Iterator::collect).unwrap_or_default();
        rows.iter().map(|row| (row.line, row.values.len())).collect()
    }

    #[test]
    fn rows_are_csv_tabs_or_json_lines_and_empty_cells_are_not_given() {
        assert_eq!(rows("a,b\n1,2\n\"x\ny\",\n3,4\n"), [(2, 2), (3, 1), (5, 2)]);
        assert_eq!(rows("\u{feff}a\tb\n1\t2\n"), [(2, 2)]);
        assert_eq!(rows("a;b\n1,5;2\n"), [(2, 2)]);
        assert_eq!(rows("a,b\r\n1,2\r\n\r\n\"x\r\ny\",\r\n3,4\r\n"), [(2, 2), (4, 1), (6, 2)]);
        assert_eq!(rows("a\n\n1\n\n\n2"), [(3, 1), (6, 1)]);
        assert_eq!(rows("{\"a\":1,\"b\":null}\n\n{\"a\":\"x\"}\n"), [(1, 1), (3, 1)]);
    }

    #[test]
    fn a_malformed_row_is_named_by_its_line() {
        for (text, problem) in [
            ("a,b\n1,2\n3\n", "jobs:3: the row does not have 2 columns"),
            ("a,b\r\n1,2\r\n3\r\n", "jobs:3: the row does not have 2 columns"),
            ("a,a\n1,2\n", "jobs:1: the column \"a\""),
            ("{\"a\":1}\n{\"a\"\n", "jobs:2: no JSON object"),
            ("{\"a\":1,\"b\":2,\"a\":3}", "jobs:1: no JSON object: \"a\" is given twice"),
        ] {
            let failure = parse(text, "jobs")
                .and_then(Iterator::collect::<Result<Vec<_>>>)
                .err()
                .map(|failure| failure.headline)
                .unwrap_or_default();
            assert!(failure.starts_with(problem), "{failure}");
        }
    }
}
