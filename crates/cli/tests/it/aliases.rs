//! Commands with names of the user's own.

use inferstore_cli::exit;

use crate::support::{Cli, Local};

#[test]
fn an_alias_stands_for_the_first_words_of_a_command() {
    let local = Local::start();
    let cli = &local.cli;
    let set = cli.call("alias set clear run haze-removal --poll 0.1 -o out/");
    assert_eq!(set.code, exit::DONE, "{set}");
    let ended = cli.call("clear hazy.png -q");
    assert_eq!((ended.code, &*ended.stdout), (exit::DONE, "out/hazy-haze-removal.png\n"), "{ended}");
    let ended = cli.call("--format quiet clear hazy.png --overwrite");
    assert_eq!(ended.code, exit::DONE, "{ended}");
    assert_eq!(cli.call("alias list -q").stdout, "clear\n");
    let below = cli.call("files clear");
    assert_eq!(below.code, exit::USAGE, "{below}");

    assert_eq!(cli.call("alias remove clear").code, exit::DONE);
    assert_eq!(cli.call("clear hazy.png").code, exit::USAGE);
    let again = cli.call("alias remove claer");
    assert!(again.code == exit::USAGE && again.stderr.contains("alias list"), "{again}");
}

#[test]
fn an_alias_hides_no_command_and_begins_with_one() {
    let cli = Cli::new();
    for (words, problem) in [
        ("alias set run balance", "\"run\" cannot be"),
        ("alias set a\tb balance", "choose one word"),
        ("alias set tasks balance", "\"tasks\" cannot be"),
        ("alias set b blance", "did you mean `balance`"),
    ] {
        let ended = cli.call(words);
        assert!(ended.code == exit::USAGE && ended.stderr.contains(problem), "{words}: {ended}");
    }
    assert_eq!(cli.call("alias list --json").stdout.trim(), "[]");
}
