//! The pages for operators: every command on them has the arguments that it is shown with.

const PAGES: [(&str, &str); 2] = [
    ("deployment.md", include_str!("../../../../docs/deployment.md")),
    ("admin.md", include_str!("../../../../docs/admin.md")),
];

#[test]
fn every_command_on_the_pages_for_operators_is_valid() {
    let mut found = 0;
    for (page, text) in PAGES {
        for line in text.lines().filter(|line| !line.starts_with(['#', '|', '`'])) {
            let Some(words) = words_of_command(line) else { continue };
            let parsed = inferstore_cli::command().try_get_matches_from(&words);
            assert!(
                parsed.is_ok(),
                "{page}: {line}\n{}",
                parsed.err().map_or_else(String::new, |error| error.to_string())
            );
            found += 1;
        }
    }
    assert!(found > 12, "only {found} commands were found");
}

/// The command of a line of a shell, or of a unit of systemd.
fn words_of_command(line: &str) -> Option<Vec<&str>> {
    let line = line.strip_prefix("sudo -u inferstore ").unwrap_or(line);
    let line = line.strip_prefix("ExecStart=/usr/local/bin/").unwrap_or(line);
    line.starts_with("inferstore ").then(|| line.split_whitespace().collect())
}
