//! `inferstore help`: topics, and the help of every command.

use clap::Args;

use crate::exit;
use crate::failure::{Failure, Result, did_you_mean};
use crate::settings::Session;

/// Print the help of a command, or of a topic: environment, exit-codes, formats, outputs
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
    match words[..] {
        ["environment"] => return session.output.bytes(ENVIRONMENT.as_bytes()),
        ["exit-codes"] => return session.output.data(format!("Exit codes:\n{}", exit::help().trim_end())),
        ["formats"] => return session.output.bytes(FORMATS.as_bytes()),
        ["outputs"] => return session.output.bytes(OUTPUTS.as_bytes()),
        _ => {}
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

const ENVIRONMENT: &str = "\
Variables:
  INFERSTORE_BASE_URL  the address of the service, which ends in /api/v1
  INFERSTORE_API_KEY   the API key
  INFERSTORE_PROFILE   the profile to use
  INFERSTORE_CONFIG    the file of profiles [default: inferstore/profiles.json below XDG_CONFIG_HOME or ~/.config]
  INFERSTORE_CACERT    a PEM file of certificates that are trusted beside those of the system, as --cacert
  SSL_CERT_FILE, SSL_CERT_DIR  the certificates that are trusted instead of those of the system
  HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY  the proxies, unless --proxy or the profile names one; none for http to this machine
  INFERSTORE_RELEASES  the list of releases of `version --check`, as --releases
  INFERSTORE_LOG       filters the log of `serve`: warn, or info,inferstore_service=debug
  INFERSTORE_FIRST_KEY the API key of the first account of `serve`
  INFERSTORE_DATABASE  the PostgreSQL of `serve`, instead of --database
  INFERSTORE_NODE_KEY  the key of a node, of `node run`
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY  the key of the bucket of `serve --objects`
  NO_COLOR             no color
  CLICOLOR_FORCE       color even when the output is no terminal

Which setting is used:
  1. the flags --base-url, --api-key and --profile; --profile comes before the variables
  2. the variables INFERSTORE_BASE_URL and INFERSTORE_API_KEY
  3. the profile that INFERSTORE_PROFILE names, else the one in use (`inferstore profile use`)
--cacert, INFERSTORE_CACERT and --proxy come before what `login --cacert FILE --proxy URL` has stored in the profile
of the service, and that before HTTPS_PROXY and the other variables of proxies.

The key of a profile is sent to the service of the profile alone. It is in the keyring of the system, or in the file
as \"api_key\"; \"key_command\": [\"pass\", \"show\", \"inferstore\"] in its place names a program that prints it.
`inferstore status` shows what is used.
";

const FORMATS: &str = "\
Formats:
  --format table   for people: a terminal gets what fits, a pipe gets everything [default]
  --format json    the data as the service wrote them, every digit; indented and colored on a terminal
  --format jsonl   one line for each record of a list
  --format quiet   identifiers, URLs or paths alone; -q for short
  --json           the same as --format json
  --json=id,price  these fields alone; of a list, an array of records. A documented field that is left out
                   is null; one that these data do not have is an error, which names the fields
  --jq EXPRESSION  the JSON filtered by jq: --jq '.records[].task_id'

Data go to standard output, everything else to standard error; with -q or --no-progress, errors alone.
";

const OUTPUTS: &str = "\
Where -o PATH of `run`, `task wait`, `task show` and `task rerun` writes:
  -                standard output
  a {template}     a file named by the template: {input}, {model}, {task}, {name} of the output; .{ext} at its end
  a folder         PATH is a folder, ends with a slash, or has no extension: a file in it named {input}-{model}.{ext}
  a file           anything else; of several outputs, PATH is 'a.png' and the files are a-NAME.png

What exists already:
  a file           is an error before anything is sent; --overwrite replaces it
  in a folder      stays, and the new file gets a number: a-2.png
  in a batch       the output of a file that has changed since is replaced, unless the output was edited; every
                   other file stays, and a line names both

Files by position into a folder, or a template, are a batch, also a single one: its journal is in the folder, and the
same command runs and pays for no file twice. A file as PATH, or an input by name, runs it anew.

The status of a file in a batch, beside those of tasks:
  not_saved        the task succeeded, and its output is not here
  unfinished       the task goes on
  unknown          a task may exist
  not_started      nothing was created
The same command continues with all of them, and pays nothing twice.
";
