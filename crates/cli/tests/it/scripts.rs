//! What scripts rely on: JSON at every end, options that are checked before anything is paid, files that are written.

use inferstore_cli::exit;
use serde_json::Value;

use crate::support::{Local, pictures};

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

#[test]
fn a_wrong_field_or_expression_is_found_before_a_run_is_paid() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let wait = "task wait 00000000-0000-4000-8000-000000000000 --json=nothing".to_owned();
    let mut commands = vec![
        "run haze-removal hazy.png --json=nothing".to_owned(),
        "run haze-removal p000.png p001.png -o out --json=task_id".to_owned(),
        wait,
    ];
    if cfg!(feature = "jq") {
        commands.push("run haze-removal hazy.png --jq .[".to_owned());
        commands.push("run haze-removal p000.png p001.png -o out --jq nothing".to_owned());
    }
    for command in commands {
        let ended = local.cli.call(&command);
        assert!(ended.code == exit::USAGE && ended.stdout.is_empty(), "{command}: {ended}");
        assert!(ended.stderr.contains("hint: "), "{ended}");
    }
    assert_eq!(local.cli.call("task list -q").stdout, "");
    assert_eq!(local.cli.call("files stats -q").stdout, "0\n", "nothing was uploaded");
}
