//! The command line: the tree of commands, each of which runs on the runtime that it needs.

use std::pin::Pin;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::commands::{
    admin, alias, api, balance, completions, console, demo, doctor, files, help, keys, login, mcp,
    model_init, model_worker, models, node, open, profile, reference, run, serve, status, task, version,
};
use crate::failure::{Failure, Result};
use crate::settings::{Global, Session};

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

pub(crate) fn tree() -> clap::Command {
    Cli::command()
}

const AFTER_HELP: &str = "\
Examples:
  inferstore demo                                   see the whole thing work, without a network
  inferstore serve                                  run the service here
  inferstore login                                  store the address of another one
  inferstore models list --search enhancement
  inferstore run haze-removal street.jpg -o clear.jpg

Data go to standard output, everything else to standard error. `inferstore help exit-codes`, `help environment`,
`help formats` and `help outputs` say more.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the balance of the account
    #[command(after_help = balance::EXAMPLES)]
    Balance,
    /// List, create and revoke the API keys of the account
    ///
    /// Whether an account may create and revoke keys is up to the service: `serve --owners-manage-keys yes` permits it.
    #[command(subcommand)]
    Keys(keys::Command),
    /// Look through the catalog, and at one model
    #[command(subcommand)]
    Models(models::Command),
    /// Run a model and wait for its output
    ///
    /// Inputs are checked against what the model declares before anything is sent; files are uploaded on
    /// the way. The task is created at most once. Ctrl-C detaches: the task continues, and its identifier is
    /// printed; a second Ctrl-C cancels it if it is still in the queue.
    ///
    /// Several files are a batch, with one task for each. A journal in the folder of -o lets the same command
    /// continue after an interruption: what has run is neither run nor paid again.
    Run(run::Arguments),
    /// Look at tasks, wait for them, cancel them, run them again
    ///
    /// A task is named by its identifier, by @last, or by at least four characters of its beginning or its end that no
    /// other recent task has.
    #[command(subcommand, visible_alias = "tasks")]
    Task(task::Command),
    /// Upload, list, download and delete files
    #[command(subcommand, visible_alias = "file")]
    Files(files::Command),
    /// Send any request to the service, and print the response as it came
    ///
    /// The path is relative to the base URL. Without a method the request is a GET, or a POST if it has a body. A GET
    /// is retried like every read; everything else is sent once, because its effect is unknown.
    Api(api::Arguments),
    /// Run the service on this machine
    ///
    /// The API and object storage listen on addresses of their own. The first start on a data folder creates
    /// an account named demo with an API key, prints the key once, because only its hash is kept, and stores the
    /// profile `local` for the commands of other terminals. Ctrl-C and SIGTERM finish the requests in progress; a
    /// second one ends the service at once.
    ///
    /// The log goes to standard error. INFERSTORE_LOG filters it, such as `warn` or
    /// `info,inferstore_service=debug`; without it, the log has a line for every request, and -v adds details.
    Serve(serve::Arguments),
    /// Administer a service on this machine: accounts, keys, money, models, nodes, tasks, backups
    ///
    /// A running service is asked through the socket admin.sock in its data folder, as its user. The data of a
    /// stopped service are opened directly.
    Admin(admin::Arguments),
    /// Look at a service in a browser: run models, see tasks, files and money
    ///
    /// Serves pages on this machine and prints their address, which holds a token. They work with every service
    /// that flags, environment and profiles lead to; the API key never reaches the browser. `inferstore serve`
    /// has the same console beside it.
    Console(console::Arguments),
    /// Look at a service, a model or the output of a task in the browser of this machine
    ///
    /// Like `inferstore console`, and opens the browser at that page.
    Open(open::OpenArguments),
    /// Run models for a service
    #[command(subcommand)]
    Node(node::Command),
    /// Write a model of your own
    #[command(subcommand)]
    Model(model_init::Command),
    /// See the whole thing work: service, uploads, models, money
    ///
    /// Starts the service in a temporary folder, uploads pictures as a form and by PUT, runs models on them, and
    /// downloads what came out. It needs no network, and nothing of it stays but the pictures. A second demo in the
    /// same folder has the same pictures, and replaces no other file.
    Demo(demo::Arguments),
    /// Store where a service is, and the key to it
    ///
    /// Asks for what is missing. The address is checked first, then the key is read from the terminal without
    /// showing it, or from standard input when that is no terminal, and checked by reading the balance. The key is
    /// stored in the keyring of the system where a person can unlock one, else with the address in a file that only
    /// you can read; a file that INFERSTORE_CONFIG names always has the key.
    Login(login::LoginArguments),
    /// Remove a profile with its key
    #[command(after_help = "Examples:\n  inferstore logout\n  inferstore logout --profile staging")]
    Logout,
    /// Show which service and account are used, and where each setting comes from
    #[command(visible_alias = "whoami", after_help = status::EXAMPLES)]
    Status,
    /// Offer the models to an agent, as a server of the Model Context Protocol over standard input and output
    ///
    /// Each model is a tool, beside `quote`, `run`, `task` and `files`. Files are read from one folder and saved in it, and
    /// nowhere else. A call with the same inputs is the same task, also after it was canceled or the server was killed:
    /// it is paid once. --budget limits what all calls of the folder cost together.
    Mcp(mcp::Arguments),
    /// Find out why something does not work
    ///
    /// Checks settings, DNS, connection, TLS, API, key, clock and object storage, in this order. Nothing is stored. With
    /// --api, it finds out whether the API of the service has moved away from the document of this version.
    Doctor(doctor::Arguments),
    /// List the profiles, choose one, change one, remove one
    #[command(subcommand, visible_alias = "profiles")]
    Profile(profile::Command),
    /// Give commands names of your own
    ///
    /// An alias stands for the first words of a command. After `inferstore alias set clear run haze-removal -o out/`, the
    /// command `inferstore clear a.png` is `inferstore run haze-removal -o out/ a.png`.
    #[command(subcommand)]
    Alias(alias::Command),
    /// Print the completions for a shell
    ///
    /// They complete commands and options, and ask the service for models, tasks and inputs. Where no other command has
    /// the name, they also make `ifs` short for `inferstore`.
    Completions(completions::Arguments),
    /// Print the help of a command, or of a topic: environment, exit-codes, formats, outputs
    Help(help::Arguments),
    /// Print the version, and look for newer ones where you say
    Version(version::Arguments),
    /// Run built-in models for the service that starts this
    #[command(hide = true)]
    ModelWorker(model_worker::Arguments),
    /// Print the reference of all commands as Markdown
    #[command(hide = true)]
    Reference(reference::Arguments),
}

pub(crate) fn execute(command: Command, session: Session) -> Result {
    match command {
        // These need no runtime, and start at once.
        Command::Completions(arguments) => completions::execute(&arguments, &session),
        Command::Reference(arguments) => reference::execute(&arguments, &tree(), &session),
        Command::Version(arguments) if arguments.check => on_one_core(version::check(arguments, &session)),
        Command::Version(arguments) => version::execute(&arguments, &session),
        Command::Help(arguments) => help::execute(&arguments, tree(), &session),
        Command::Logout => login::remove(None, &session),
        Command::Profile(command) => profile::execute(command, &session),
        Command::Alias(command) => alias::execute(command, &tree(), &session),
        Command::Model(command) => model_init::execute(command, &session),
        Command::ModelWorker(arguments) => model_worker::execute(&arguments),
        // These run a service beside what they do.
        Command::Serve(arguments) => on_all_cores(serve::execute(arguments, session)),
        Command::Node(command) => on_all_cores(node::execute(command, session)),
        Command::Admin(arguments) => on_all_cores(admin::execute(arguments, session)),
        Command::Demo(arguments) => on_all_cores(demo::execute(arguments, session)),
        Command::Console(arguments) => on_all_cores(console::execute(arguments, session)),
        Command::Open(arguments) => on_all_cores(open::execute(arguments, session)),
        Command::Balance => on_one_core(balance::execute(&session)),
        Command::Keys(command) => on_one_core(keys::execute(command, &session)),
        Command::Models(command) => on_one_core(models::execute(command, &session)),
        Command::Run(arguments) => on_one_core(run::execute(arguments, session)),
        Command::Task(command) => on_one_core(task::execute(command, session)),
        Command::Files(command) => on_one_core(files::execute(command, session)),
        Command::Api(arguments) => on_one_core(api::execute(arguments, session)),
        Command::Login(arguments) => on_one_core(login::execute(arguments, session)),
        Command::Status => on_one_core(status::execute(&session)),
        Command::Mcp(arguments) => on_one_core(mcp::execute(arguments, session)),
        Command::Doctor(arguments) => on_one_core(doctor::execute(&arguments, &session)),
    }
}

fn on_one_core(work: impl Future<Output = Result>) -> Result {
    on(tokio::runtime::Builder::new_current_thread(), Box::pin(work))
}

fn on_all_cores(work: impl Future<Output = Result>) -> Result {
    on(tokio::runtime::Builder::new_multi_thread(), Box::pin(work))
}

/// Not generic: tokio polls each runtime from a function of its own, and all code below would be compiled for each.
fn on(mut builder: tokio::runtime::Builder, work: Pin<Box<dyn Future<Output = Result> + '_>>) -> Result {
    let runtime = builder
        .enable_all()
        .build()
        .map_err(|error| Failure::local_failure("no runtime can be made", error))?;
    let result = runtime.block_on(work);
    // A read of standard input cannot be interrupted, and is waited for no more.
    runtime.shutdown_background();
    result
}
