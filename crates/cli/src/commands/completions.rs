//! `inferstore completions`.

use clap::Args;
use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::failure::{Failure, Result};
use crate::settings::Session;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// The registration in bash, which joins the words that bash breaks. It uses the protocol of `clap_complete`.
const BASH: &str = include_str!("../../assets/completions.bash");

/// The variable with which the shell asks for completions.
pub(crate) const VARIABLE: &str = "INFERSTORE_COMPLETE";

const EXAMPLES: &str = "\
Examples:
  eval \"$(inferstore completions bash)\"          in ~/.bashrc; with it, `ifs` is short for `inferstore`
  inferstore completions bash > ~/.local/share/bash-completion/completions/inferstore
  inferstore completions zsh > \"${fpath[1]}/_inferstore\"
  inferstore completions fish > ~/.config/fish/completions/inferstore.fish";

pub(crate) fn execute(arguments: &Arguments, session: &Session) -> Result {
    if arguments.shell == Shell::Bash {
        return session.output.bytes(BASH.as_bytes());
    }
    let mut script = Vec::new();
    let name = arguments.shell.to_string();
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&name) else {
        return Err(Failure::usage(format!("{name} has no completions")).with_hint("bash, zsh or fish has"));
    };
    shell
        .write_registration(VARIABLE, "inferstore", "inferstore", "inferstore", &mut script)
        .map_err(|error| Failure::local_failure("the completions cannot be written", error))?;
    script.extend_from_slice(match arguments.shell {
        Shell::Zsh => b"command -v ifs > /dev/null || alias ifs=inferstore\n",
        Shell::Fish => b"type -q ifs; or alias ifs inferstore\n",
        _ => b"",
    });
    session.output.bytes(&script)
}
