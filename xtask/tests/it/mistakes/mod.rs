//! Messages about mistakes in the document: one line each, with the file, the line and the place.

mod names;
mod operations;
mod references;
mod schemas;
mod whole;

use std::fmt::Write;

use crate::support::{Folder, real_document, replaced};

type Mistake = (&'static str, &'static str, &'static str);

struct Complaint {
    line: Option<usize>,
    message: String,
}

fn complaint(folder: &Folder, mistake: &str, document: &str) -> Complaint {
    folder.write("document.yaml", document);
    let said = folder.generate(&[]);
    let reported = format!("{mistake}: {said:?}");
    assert_eq!(said.code, Some(1), "{reported}");
    assert_eq!(said.out, "", "{reported}");
    assert_eq!(said.err.matches('\n').count(), 1, "one mistake takes one line. {reported}");
    assert!(!said.err.contains("panicked"), "{reported}");
    assert!(!folder.path("generated.rs").exists(), "nothing is written. {reported}");
    let file = format!("error: {}", folder.path("document.yaml").display());
    let Some(rest) = said.err.trim_end().strip_prefix(&file) else { panic!("the file is named. {reported}") };
    let (line, rest) = number(rest);
    let (column, rest) = number(rest);
    assert!(line.is_some() || !rest.contains('#'), "what has a place has a line. {reported}");
    let column = column.map_or_else(String::new, |column| format!("column {column}"));
    Complaint { line, message: format!("{column}{rest}").trim().trim_start_matches(": ").to_owned() }
}

fn number(text: &str) -> (Option<usize>, &str) {
    let Some(rest) = text.strip_prefix(':') else { return (None, text) };
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().map_or((None, text), |number| (Some(number), &rest[end..]))
}

#[test]
fn every_mistake_is_reported_in_one_line_with_its_place() {
    let real = real_document();
    let folder = Folder::new("mistakes");
    let replacements =
        [references::MISTAKES, operations::MISTAKES, schemas::MISTAKES, names::MISTAKES, whole::MISTAKES];
    let broken = replacements.iter().copied().flatten();
    let broken = broken.map(|(mistake, old, new)| (*mistake, replaced(&real, old, new)));
    let whole = whole::DOCUMENTS.iter().map(|(mistake, text)| (*mistake, (*text).to_owned()));

    // The text of the line stands for its number: it shows whether the line is the right one, and
    // stays when the document grows above it.
    let mut reported = String::new();
    for (mistake, document) in broken.chain(whole) {
        let Complaint { line, message } = complaint(&folder, mistake, &document);
        let line = line.map(|line| document.lines().nth(line - 1).expect("the line is there").trim());
        writeln!(reported, "{mistake}\n    {}\n    {message}\n", line.unwrap_or("(no line)"))
            .expect("a text can grow");
    }
    insta::assert_snapshot!("messages_about_mistakes", reported);
}

#[test]
fn everything_that_only_a_removed_operation_used_is_named_at_once() {
    let real = real_document();
    let (before, rest) = real.split_once("  /api-key/task/{id}/logs:\n").expect("the operation is there");
    let (_, after) = rest.split_once("  /api-key/task/histories:\n").expect("another one follows");
    let folder = Folder::new("mistakes_unused");
    folder.write("document.yaml", &format!("{before}  /api-key/task/histories:\n{after}"));
    let message = folder.generate(&[]).failed();
    for name in ["responses/GetTaskLogsSuccess", "schemas/TaskLogsResponse", "schemas/TaskLogs"] {
        assert!(message.contains(&format!(" at #/components/{name}: nothing uses it")), "{message}");
    }
    assert_eq!(message.lines().count(), 3, "{message}");
}

/// No list of mistakes is complete, so this loses a line here and there.
#[test]
fn whatever_line_is_lost_the_answer_is_a_file_or_lines_that_name_a_place() {
    let real = real_document();
    let lines: Vec<&str> = real.lines().collect();
    let folder = Folder::new("lost_lines");
    for lost in (0..lines.len()).step_by(61) {
        let document = [&lines[..lost], &lines[lost + 1..]].concat().join("\n");
        folder.write("document.yaml", &document);
        let said = folder.generate(&[]);
        if said.code == Some(0) {
            continue;
        }
        let reported = format!("without line {}, `{}`: {said:?}", lost + 1, lines[lost]);
        assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{reported}");
        for line in said.err.trim_start_matches("error: ").lines() {
            assert!(line.starts_with(&folder.path("document.yaml").display().to_string()), "{reported}");
        }
    }
}
