//! The command line: what there is to say, and who does it.

use clap::{Parser, Subcommand};

use crate::commands::{
    admin, api, balance, completions, console, demo, files, login, models, profile, reference, run, serve,
    task, version,
};
use crate::settings::Global;

/// Models, tasks and files of an Inferstore service from the command line, and the service itself
#[derive(Debug, Parser)]
#[command(
    name = "inferstore",
    version,
    after_help = AFTER_HELP,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  inferstore demo                                   see the whole thing work, without a network
  inferstore login                                  store where the service is, and the key to it
  inferstore models list --search enhancement
  inferstore run haze-removal -i input_image=@street.jpg --out .

Data go to standard output, everything else to standard error. Exit codes: 0 done; 1 anything else;
2 usage; 3 key missing or refused; 4 input refused before sending; 5 refused by the service;
6 task failed; 7 task canceled; 8 deadline reached; 9 outcome of a create unknown; 10 not reached.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the balance of the account
    Balance(balance::Arguments),
    /// Look through the catalog, and at one model
    #[command(subcommand)]
    Models(models::Command),
    /// Run a model and wait for its output
    Run(run::Arguments),
    /// Look at tasks, wait for them, cancel them
    #[command(subcommand)]
    Task(task::Command),
    /// Upload, list, download and delete files
    #[command(subcommand)]
    Files(files::Command),
    /// Send any request to the service, and print the answer as it came
    Api(api::Arguments),
    /// Run the service on this machine
    ///
    /// The API and object storage listen on addresses of their own. The first start on a data folder creates
    /// an account named demo with an API key, and prints the key once: only its hash is kept. Ctrl-C and SIGTERM
    /// finish the requests in progress; a second one ends the service at once.
    ///
    /// The log goes to standard error. INFERSTORE_LOG filters it, such as `warn` or
    /// `info,inferstore_service=debug`; without it, the log has a line for every request, and -v adds details.
    Serve(serve::Arguments),
    /// Look after the accounts, keys, money, models and nodes of a local service
    Admin(admin::Arguments),
    /// Look at a service in a browser: run models, see tasks, files and money
    ///
    /// Serves pages on this machine and prints their address, which holds a token. They work with every service
    /// that flags, environment and profiles lead to; the API key never reaches the browser. `inferstore serve`
    /// has the same console beside it.
    Console(console::Arguments),
    /// Look at a service in the browser of this machine
    ///
    /// Like `inferstore console`, and opens the browser.
    Open(console::Arguments),
    /// See the whole thing work: service, uploads, models, money
    Demo(demo::Arguments),
    /// Store where a service is, and the key to it
    Login(login::Arguments),
    /// List the profiles, and choose one
    #[command(subcommand)]
    Profile(profile::Command),
    /// Print the completions for a shell
    Completions(completions::Arguments),
    /// Print the version
    Version(version::Arguments),
    /// Print the reference of all commands as Markdown
    #[command(hide = true)]
    Reference(reference::Arguments),
}
