//! The reference of all commands, written from the command tree.

use std::fmt::{Display, Write};

use clap::{Arg, Command};

use crate::exit;

const HEAD: &str = "\
<!-- Written by `inferstore reference`; a test compares the two. Do not edit. -->

# The `inferstore` command
";

pub(crate) fn reference(command: &Command) -> String {
    let mut command = command.clone();
    command.build();
    let mut text = HEAD.to_owned();
    if let Some(about) = command.get_about() {
        paragraph(&mut text, about);
    }
    paragraph(&mut text, "Every command takes these options:");
    arguments(&mut text, command.get_arguments().filter(|argument| argument.is_global_set()));
    paragraph(&mut text, "## Exit codes");
    text.push_str("\n| code | meaning |\n|---|---|\n");
    text.extend(exit::ALL.iter().map(|(code, meaning)| format!("| {code} | {meaning} |\n")));
    for below in command.get_subcommands() {
        section(&mut text, below, "inferstore");
    }
    text
}

fn section(text: &mut String, command: &Command, parent: &str) {
    if command.is_hide_set() {
        return;
    }
    let name = format!("{parent} {}", command.get_name());
    let level = if command.has_subcommands() || parent == "inferstore" { "##" } else { "###" };
    paragraph(text, format_args!("{level} `{name}`"));
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        paragraph(text, about);
    }
    if !command.has_subcommands() {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").split_whitespace().collect::<Vec<_>>().join(" ");
        paragraph(text, format_args!("```text\n{usage}\n```"));
    }
    arguments(text, command.get_arguments().filter(|argument| is_own(argument, parent)));
    if let Some(examples) = command.get_after_help().map(ToString::to_string) {
        let examples = examples.trim_start_matches("Examples:\n").replace("\n  ", "\n");
        paragraph(text, format_args!("```sh\n{}\n```", examples.trim()));
    }
    for below in command.get_subcommands() {
        section(text, below, &name);
    }
}

/// Options of every command stand at the top; those of `admin` at `admin`.
fn is_own(argument: &Arg, parent: &str) -> bool {
    let is_generated = ["help", "version"].contains(&argument.get_id().as_str());
    let is_above = argument.is_global_set() && (argument.get_id() != "data_dir" || parent != "inferstore");
    !is_generated && !is_above && !argument.is_hide_set()
}

fn arguments<'a>(text: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    let lines: Vec<String> = arguments.map(line).collect();
    if !lines.is_empty() {
        paragraph(text, format_args!("| argument | meaning |\n|---|---|\n{}", lines.join("\n")));
    }
}

fn line(argument: &Arg) -> String {
    let short = argument.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let form = format!("{short}{argument}");
    let mut meaning = argument.get_help().map(ToString::to_string).unwrap_or_default();
    if argument.get_action().takes_values() {
        let words = argument.get_possible_values();
        let words: Vec<String> = words.iter().map(|value| format!("`{}`", value.get_name())).collect();
        if !words.is_empty() {
            let _ = write!(meaning, ": {}", words.join(", "));
        }
        for default in argument.get_default_values() {
            let _ = write!(meaning, " (default: `{}`)", default.display());
        }
    }
    format!("| `{}` | {} |", cell(&form), cell(&meaning))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn paragraph(text: &mut String, content: impl Display) {
    // Writing into a text cannot fail.
    let _ = write!(text, "\n{content}\n");
}
