//! `inferstore open`: a page of the console, for any service, in the browser of this machine.

use std::io::Write;

use clap::Args;
use inferstore::Client;
use tempfile::NamedTempFile;

use super::console;
use super::signals::Signals;
use super::task::identifier::identified;
use crate::complete;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::settings::Session;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  inferstore open\n  inferstore open haze-removal\n  inferstore open @last"
)]
pub(crate) struct OpenArguments {
    /// The model, or the task with its outputs: its identifier, its beginning, or @last [default: the catalog]
    #[arg(value_name = "MODEL|TASK", add = complete::models_and_tasks())]
    what: Option<String>,
    #[command(flatten)]
    console: console::Arguments,
}

pub(crate) async fn execute(arguments: OpenArguments, session: Session) -> Result {
    let client = session.client()?;
    let place = match &arguments.what {
        Some(what) => format!("&page={}", path(what, &client).await?),
        None => String::new(),
    };
    let console = console::start(&arguments.console, client, &session).await?;
    let url = format!("{}{place}", console.url());
    // From here on a signal ends the command in order: the page with the token is deleted.
    let mut signals = Signals::new()?;
    session.output.data(&url)?;
    let page = page(&url).map_err(|error| Failure::local_failure("no page can be written", error))?;
    if open::that_detached(page.path()).is_err() {
        session.note(format!("no browser found; open this address: {url}"));
    }
    session.note("Ctrl-C ends the console");
    signals.next().await;
    Ok(())
}

async fn path(what: &str, client: &Client) -> Result<String> {
    // It stands in an address and in a page.
    let is_plain = |id: &str| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_plain(what) && found(client.model(what).get().await)? {
        return Ok(format!("models/{what}"));
    }
    let task = identified(what, client).await?;
    if is_plain(&task) && found(client.task(task.as_str()).get().await)? {
        return Ok(format!("tasks/{task}"));
    }
    Err(Failure::new(exit::REFUSED, format!("there is neither a model nor a task {what:?}"))
        .with_hint("`inferstore models list` shows the models, and `inferstore task list` the tasks"))
}

fn found<T>(read: inferstore::Result<T>) -> Result<bool> {
    match read {
        Err(error) if !error.is_not_found() => Err(error.into()),
        read => Ok(read.is_ok()),
    }
}

/// A page of this user alone that leads to the console: arguments of a program can be read by everyone on the
/// machine, and the address holds a token.
fn page(url: &str) -> std::io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("inferstore-").suffix(".html").tempfile()?;
    write!(
        file,
        "<!doctype html><meta charset=utf-8><title>Inferstore</title><meta http-equiv=refresh content='0; url={url}'>\
         <p><a href='{url}'>Open the console</a>"
    )?;
    file.flush()?;
    Ok(file)
}
