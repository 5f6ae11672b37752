//! Examples of the README and the pages beside it work as written.

use std::path::Path;
use std::{fs, iter};

const README: &str = include_str!("../../README.md");
const PROOF: &str = include_str!("../../docs/proof.md");

const TESTING: &str = include_str!("../../docs/testing.md");

fn block(page: &'static str, language: &str) -> impl Iterator<Item = &'static str> {
    let start = format!("```{language}\n");
    let (_, rest) = page.split_once(&start).unwrap_or_else(|| panic!("the page has no {language} block"));
    let (block, _) = rest.split_once("```").expect("the block ends");
    block.lines().map(str::trim).filter(|line| !line.is_empty())
}

#[test]
fn the_rust_of_the_readme_is_an_example_that_compiles() {
    assert_compiled(README, include_str!("../../crates/client/examples/first_run.rs"));
}

fn assert_compiled(page: &'static str, program: &str) {
    let mut rest = program.lines().map(str::trim);
    for line in block(page, "rust") {
        assert!(rest.any(|candidate| candidate == line), "not in the program, or in another order: {line}");
    }
}

#[test]
fn the_rust_of_the_page_about_tests_is_the_next_test() {
    assert_compiled(TESTING, include_str!("readme.rs"));
}

#[tokio::test]
async fn a_lost_response_is_paid_once() -> Result<(), Box<dyn std::error::Error>> {
    use inferstore_service::{Config, Fault, Service};

    let photo = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/cli/demo/hazy.png");
    let service = Service::start(Config::ephemeral().with_controls()).await?;
    let create = inferstore_api::operations::CREATE_TASK;
    service.controls()?.add_fault(Fault::lose_response().on(create).once())?;

    let client = inferstore::Client::new(service.base_url(), service.api_key().unwrap_or_default())?;
    let inputs = inferstore::Inputs::new().file("input_image", inferstore::File::path(photo));
    client.model("haze-removal").run(inputs).await?;
    assert_eq!(client.tasks().page(100, 0).await?.total, Some(1));
    service.shutdown().await;
    Ok(())
}

#[test]
fn the_readme_needs_two_commands() {
    let commands: Vec<_> =
        block(README, "sh").filter_map(|line| line.split('#').next().map(str::trim)).collect();
    assert_eq!(commands, ["cargo run -p inferstore-cli -- demo", "cargo test"]);
}

#[test]
fn every_test_and_benchmark_that_shows_a_promise_is_there() {
    let commands = PROOF.split('`').filter(|text| text.starts_with("cargo "));
    let mut missing = Vec::new();
    for command in commands {
        let name = command.rsplit(' ').next().unwrap_or_default();
        let is_there = match command {
            _ if command.contains(" -- ") => all_source().any(|text| text.contains(&format!("fn {name}("))),
            _ if command.contains("--bench ") => root().join(format!("tests/benches/{name}.rs")).exists(),
            "cargo xtask stress properties" => all_source().any(|text| text.contains("mod properties")),
            _ if command.contains("xtask stress ") => {
                ["", ".rs"].iter().any(|end| root().join(format!("tests/it/stress/{name}{end}")).exists())
            }
            _ => command.starts_with("cargo xtask ") || command == "cargo test",
        };
        if !is_there {
            missing.push(command);
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn all_source() -> impl Iterator<Item = String> {
    let mut left = ["crates", "tests/it", "tests/document"].map(|folder| root().join(folder)).to_vec();
    let paths = iter::from_fn(move || {
        let path = left.pop()?;
        if path.is_dir() {
            left.extend(
                fs::read_dir(&path)
                    .expect("it can be listed")
                    .map(|entry| entry.expect("it is there").path()),
            );
        }
        Some(path)
    });
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .map(|path| fs::read_to_string(path).expect("it is text"))
}
