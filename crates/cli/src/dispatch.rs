//! Dispatch: each command runs on the runtime that it needs.

use std::pin::Pin;

use crate::cli::{self, Command};
use crate::commands::{
    admin, alias, api, balance, completions, console, demo, doctor, files, help, keys, login, mcp,
    model_init, model_worker, models, node, open, profile, reference, run, serve, status, task, version,
};
use crate::failure::{Failure, Result};
use crate::settings::Session;

pub(crate) fn execute(command: Command, session: Session) -> Result {
    match command {
        // These need no runtime, and start at once.
        Command::Completions(arguments) => completions::execute(&arguments, &session),
        Command::Reference(arguments) => reference::execute(&arguments, &cli::tree(), &session),
        Command::Version(arguments) if arguments.check => on_one_core(version::check(arguments, &session)),
        Command::Version(arguments) => version::execute(&arguments, &session),
        Command::Help(arguments) => help::execute(&arguments, cli::tree(), &session),
        Command::Logout => login::remove(None, &session),
        Command::Profile(command) => profile::execute(command, &session),
        Command::Alias(command) => alias::execute(command, &cli::tree(), &session),
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
