//! `models code`: the module beside this file, which the command wrote, compiles against the client and runs.

#[rustfmt::skip]
#[expect(unreachable_pub, reason = "written by the command, for users that need all of it")]
mod color_harmonization;

use inferstore::Client;

use crate::support::Local;

const WRITTEN: &str = include_str!("code/color_harmonization.rs");

#[test]
fn the_module_beside_this_one_is_what_the_command_writes() {
    let local = Local::start();
    let code = local.cli.call("models code color-harmonization").stdout;
    let how = "inferstore models code color-harmonization > crates/cli/tests/it/code/color_harmonization.rs";
    if std::env::var_os("UPDATE_CODE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/code/color_harmonization.rs");
        std::fs::write(path, &code).expect("it can be written");
        return;
    }
    assert!(code == WRITTEN, "it changed; with a service at hand: {how}; or set UPDATE_CODE");
}

#[test]
fn the_module_runs_the_model() {
    let local = Local::start();
    let photo = inferstore::File::path(local.cli.path("hazy.png"));
    let outcome = local.block_on(async {
        let client = Client::new(local.service().base_url(), "the-key-of-the-tests")?;
        let input = color_harmonization::Input {
            input_image: client.folder("samples").upload(photo).await?.download_url,
            template: color_harmonization::InputTemplate::VShape,
            angle: 30,
        };
        color_harmonization::run(&client, input).await
    });
    let outcome = outcome.expect("it succeeds");
    assert!(outcome.output.output_image.ends_with(".png"), "{outcome:?}");
}

#[test]
fn every_model_of_the_catalog_can_be_written_as_types() {
    let local = Local::start();
    for model in local.cli.call("models list --all --format quiet").stdout.lines() {
        let ended = local.cli.call(&format!("models code {model}"));
        assert!(ended.code == 0 && ended.stdout.contains("pub fn run("), "{model}: {ended}");
    }
}
