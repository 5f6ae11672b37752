//! From a file to an output. Runs under faults are tried in `stress::runs`.

use inferstore::{File, Inputs};
use inferstore_api::operations;

use super::super::Quickly;
use super::{audited, start, tasks};
use crate::support::picture::red_and_blue;

#[tokio::test]
async fn a_local_file_becomes_the_colors_in_it() {
    let (service, controls, client) = start().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().join("picture.bmp");
    std::fs::write(&place, red_and_blue()).expect("it can be written");
    let inputs = Inputs::new().file("input", File::path(place));
    let outcome = client.model("color-extraction").run(inputs).quickly().await.expect("it runs");
    let colors = outcome.output["output"].as_str().expect("the colors are a text");
    assert!(colors.contains("#ff0000") && colors.contains("#0000ff"), "{colors}");
    assert_eq!(outcome.cost, "0.05".parse().ok());
    assert_eq!((controls.seen(operations::CREATE_TASK), tasks(&controls).await), (1, 1));
    audited(&service).await;
}
