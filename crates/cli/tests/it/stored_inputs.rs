//! Uploaded inputs: the same content is stored once, or no content longer than its run, by a setting of the profile.

use inferstore_cli::exit;

use crate::support::{Local, picture, pictures};

fn stored(local: &Local) -> usize {
    local.cli.call("files list samples --all -q").stdout.lines().count()
}

#[test]
fn the_same_content_is_stored_once_by_however_many_processes() {
    let local = Local::start();
    for is_sent in [true, false] {
        let ran = local.command("run haze-removal hazy.png").output().expect("it starts");
        let messages = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{messages}");
        assert_eq!(messages.contains("uploading input_image"), is_sent, "{messages}");
    }
    let ended =
        local.cli.call("run color-harmonization hazy.png template=v_shape angle=10..30:10 -o out -j 1");
    assert_eq!((ended.code, stored(&local)), (exit::DONE, 1), "{ended}");

    picture(&local.cli.folder.path().join("hazy.png"), "another content");
    assert_eq!(local.cli.call("run haze-removal hazy.png").code, exit::DONE);
    assert_eq!(stored(&local), 2, "the name is the same, and the content is not");

    assert_eq!(local.cli.call("files delete -r samples --yes").code, exit::DONE);
    let ended = local.cli.call("run haze-removal hazy.png");
    assert_eq!((ended.code, stored(&local)), (exit::DONE, 1), "what was deleted is sent again: {ended}");
}

#[test]
fn a_run_that_deletes_its_inputs_leaves_those_of_others() {
    let local = Local::start();
    assert_eq!(local.cli.call("run haze-removal hazy.png").code, exit::DONE);
    let ended = local.cli.call("run haze-removal hazy.png --delete-inputs");
    assert_eq!((ended.code, stored(&local)), (exit::DONE, 1), "{ended}");
}

#[test]
fn a_profile_decides_that_inputs_are_deleted() {
    let mut local = Local::start();
    let url = local.service().base_url().to_owned();
    local.cli.stdin("the-key-of-the-tests");
    assert_eq!(local.cli.call(&format!("login {url}")).code, exit::DONE);
    for name in ["INFERSTORE_BASE_URL", "INFERSTORE_API_KEY"] {
        local.cli.unset(name);
    }
    pictures(local.cli.folder.path(), 2);
    assert_eq!(local.cli.call("profile set --delete-inputs yes").code, exit::DONE);
    for run in ["run haze-removal hazy.png", "run haze-removal p000.png p001.png -o out"] {
        let ended = local.cli.call(run);
        assert_eq!((ended.code, stored(&local)), (exit::DONE, 0), "{ended}");
    }
    assert_eq!(local.cli.call("profile set --delete-inputs no").code, exit::DONE);
    let ended = local.cli.call("run haze-removal hazy.png");
    assert_eq!((ended.code, stored(&local)), (exit::DONE, 1), "{ended}");
}
