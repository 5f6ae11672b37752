//! What the README shows works as written.

const README: &str = include_str!("../../README.md");

/// The lines of the first block in that language.
fn block(language: &str) -> impl Iterator<Item = &'static str> {
    let start = format!("```{language}\n");
    let (_, rest) = README.split_once(&start).unwrap_or_else(|| panic!("the README has no {language} block"));
    let (block, _) = rest.split_once("```").expect("the block ends");
    block.lines().map(str::trim).filter(|line| !line.is_empty())
}

#[test]
fn the_rust_of_the_readme_is_an_example_that_compiles() {
    let example = include_str!("../../crates/client/examples/first_run.rs");
    let mut rest = example.lines().map(str::trim);
    for line in block("rust") {
        assert!(rest.any(|candidate| candidate == line), "not in the example, or in another order: {line}");
    }
}

#[test]
fn the_readme_needs_two_commands() {
    let commands: Vec<_> = block("sh").filter_map(|line| line.split('#').next().map(str::trim)).collect();
    assert_eq!(commands, ["cargo run --release -p inferstore-cli -- demo", "cargo test"]);
}

#[test]
fn every_path_of_the_map_is_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let links = README.match_indices("](").filter_map(|(at, _)| README[at + 2..].split(')').next());
    let missing: Vec<_> =
        links.filter(|link| !link.starts_with("http") && !root.join(link).exists()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
