//! Tasks that need programs of others say plainly which one is missing, and what to do.

use crate::support::{Folder, Said, real_document};

fn without_programs(folder: &Folder, arguments: &[&str]) -> String {
    let mut command = folder.xtask(&folder.path("xtask"));
    Said::by(command.env("PATH", "").args(arguments)).failed()
}

#[test]
fn a_missing_node_is_told_by_its_name() {
    let folder = Folder::new("tools_missing");
    folder.write("target/publish/inferstore.yaml", &real_document());
    let expected = "error: this needs Node.js, and there is no `npm` here; install Node.js and try again\n";
    assert_eq!(without_programs(&folder, &["lint"]), expected);
    assert_eq!(without_programs(&folder, &["publish"]), expected);
    assert_eq!(without_programs(&folder, &["contract"]), expected);
}

#[test]
fn the_contract_needs_a_publication_and_both_halves_of_an_address() {
    let folder = Folder::new("contract_options");
    let message = without_programs(&folder, &["contract"]);
    assert!(
        message.ends_with("inferstore.yaml is not there; run `cargo xtask publish` first\n"),
        "{message}"
    );
    for (options, reason) in [
        (["contract", "--base-url", "http://127.0.0.1:1/api/v1"], "--base-url and --api-key-env go together"),
        (["contract", "--prepare", "--base-url"], "--base-url needs a value"),
        (["contract", "--prepare", "--fast"], "contract has no option --fast"),
    ] {
        let message = without_programs(&folder, &options);
        assert!(message.contains(reason), "{message}");
    }
}
