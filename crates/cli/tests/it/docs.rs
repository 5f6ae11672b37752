//! The pages: every command on them exists, and has the arguments that it is shown with.

use clap::error::ErrorKind;

const PAGES: [(&str, &str); 9] = [
    ("README.md", include_str!("../../../../README.md")),
    ("admin.md", include_str!("../../../../docs/admin.md")),
    ("cluster.md", include_str!("../../../../docs/cluster.md")),
    ("console.md", include_str!("../../../../docs/console.md")),
    ("controls.md", include_str!("../../../../docs/controls.md")),
    ("deployment.md", include_str!("../../../../docs/deployment.md")),
    ("models.md", include_str!("../../../../docs/models.md")),
    ("nodes.md", include_str!("../../../../docs/nodes.md")),
    ("own-model.md", include_str!("../../../../docs/own-model.md")),
];

#[test]
fn every_command_on_the_pages_is_valid() {
    let mut found = 0;
    for (page, text) in PAGES {
        let text = text.replace("\\\n", " ");
        for line in text.lines() {
            if let Some(words) = words_of_line(line) {
                check(page, line, &words, &[]);
                found += 1;
            }
            // A command in a sentence may leave arguments out.
            let left_out = [
                ErrorKind::MissingSubcommand,
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
                ErrorKind::MissingRequiredArgument,
            ];
            for code in line.split('`').skip(1).step_by(2).filter(|code| code.starts_with("inferstore ")) {
                let words: Vec<&str> = code.split_whitespace().take_while(|word| *word != "…").collect();
                check(page, line, &words, &left_out);
                found += 1;
            }
        }
    }
    assert!(found > 50, "only {found} commands were found");
}

fn check(page: &str, line: &str, words: &[&str], accepted: &[ErrorKind]) {
    if let Err(error) = inferstore_cli::command().try_get_matches_from(words) {
        assert!(accepted.contains(&error.kind()), "{page}: {line}\n{error}");
    }
}

/// The command of a line of a shell, or of a unit of systemd.
fn words_of_line(line: &str) -> Option<Vec<&str>> {
    let line = line.strip_prefix("sudo -u inferstore ").unwrap_or(line);
    let line = line.strip_prefix("ExecStart=/usr/local/bin/").unwrap_or(line);
    let is_of_shell = |word: &&str| !matches!(*word, "#" | ">" | "|" | "&&");
    let words = line.split_whitespace().take_while(is_of_shell).map(|word| word.trim_matches('\''));
    line.starts_with("inferstore ").then(|| words.collect())
}
