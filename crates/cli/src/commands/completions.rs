//! `inferstore completions`.

use clap::Args;
use clap_complete::Shell;

use crate::failure::Result;
use crate::settings::Session;

/// Print the completions for a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  inferstore completions bash > ~/.local/share/bash-completion/completions/inferstore
  inferstore completions zsh > \"${fpath[1]}/_inferstore\"
  inferstore completions fish > ~/.config/fish/completions/inferstore.fish";

pub(crate) fn execute(arguments: &Arguments, session: &Session) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::command(), "inferstore", &mut script);
    session.output.bytes(&script)
}
