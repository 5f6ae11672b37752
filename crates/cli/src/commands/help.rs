//! `inferstore help`: topics, and the help of every command.

use clap::Args;

use crate::exit;
use crate::failure::{Failure, Result, did_you_mean};
use crate::settings::Session;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  inferstore help run\n  inferstore help files upload\n  inferstore help exit-codes"
)]
pub(crate) struct Arguments {
    /// A command such as `files upload`, or a topic
    #[arg(value_name = "COMMAND|TOPIC")]
    words: Vec<String>,
}

const TOPICS: [&str; 4] = ["environment", "exit-codes", "formats", "outputs"];

pub(crate) fn execute(arguments: &Arguments, mut root: clap::Command, session: &Session) -> Result {
    let words: Vec<&str> = arguments.words.iter().map(String::as_str).collect();
    let topic: Option<&[u8]> = match words[..] {
        ["environment"] => Some(include_bytes!("../../assets/help/environment.txt")),
        ["exit-codes"] => Some(&format!("Exit codes:\n{}", exit::help()).into_bytes()),
        ["formats"] => Some(include_bytes!("../../assets/help/formats.txt")),
        ["outputs"] => Some(include_bytes!("../../assets/help/outputs.txt")),
        _ => None,
    };
    if let Some(topic) = topic {
        return session.output.bytes(topic);
    }
    root.build();
    let mut command = &mut root;
    for word in words {
        let known: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
        let suggestion = did_you_mean(word, known.iter().map(String::as_str).chain(TOPICS));
        command = command.find_subcommand_mut(word).ok_or_else(|| {
            Failure::usage(format!("there is no command or topic {word:?}"))
                .with_hint(format!("{suggestion}`inferstore help` lists the commands"))
        })?;
    }
    session.output.help(&command.render_long_help())
}
