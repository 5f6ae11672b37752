//! Tasks that need programs of others say plainly which one is missing, and what to do.

use crate::support::{Folder, Said, real_document, repository_file};

fn without_programs(folder: &Folder, arguments: &[&str]) -> String {
    let mut command = folder.xtask(&folder.path("xtask"));
    Said::by(command.env("PATH", "").args(arguments)).failed()
}

#[test]
fn a_missing_node_is_reported_by_its_name() {
    let folder = Folder::new("tools_missing");
    folder.write("target/publish/inferstore.yaml", &real_document());
    let expected = "error: this needs Node.js, and there is no `npm` here; install Node.js and try again\n";
    assert_eq!(without_programs(&folder, &["publish"]), expected);
}

#[test]
fn the_contract_names_every_missing_program_with_its_package() {
    let folder = Folder::new("contract_tools_missing");
    folder.write("target/publish/inferstore.yaml", &real_document());
    for consumer in ["tests/contract/typescript/consumer.yaml", "tests/contract/go/consumer.yaml"] {
        folder.write(consumer, &repository_file(consumer));
    }
    assert_eq!(
        without_programs(&folder, &["contract", "--prepare"]),
        "error: programs are missing; install the Debian packages in parentheses\n  \
         Go: go (golang-go)\n  Go: java (default-jre-headless)\n  TypeScript (openapi-fetch): node (nodejs)\n"
    );
}

#[test]
fn the_contract_needs_a_publication_and_options_that_fit_together() {
    let folder = Folder::new("contract_options");
    let message = without_programs(&folder, &["contract"]);
    assert!(
        message.ends_with("inferstore.yaml is not there; run `cargo xtask publish` first\n"),
        "{message}"
    );
    for (options, reason) in
        [(&["--publish"][..], "--all"), (&["--all", "--only", "go"], "cannot be used with")]
    {
        let mut command = folder.xtask(&folder.path("xtask"));
        let said = Said::by(command.arg("contract").args(options));
        assert!(said.code == Some(2) && said.err.contains(reason), "{said:?}");
    }
}
