//! `inferstore open`: a console for any service, in the browser of this machine.

use std::io::Write;

use tempfile::NamedTempFile;

use super::console::{self, Arguments};
use super::serve::Signals;
use crate::failure::{Failure, Result};
use crate::settings::Session;

pub(crate) async fn execute(arguments: Arguments, session: Session) -> Result {
    let console = console::start(&arguments, &session).await?;
    session.output.data(console.url())?;
    let page =
        page(console.url()).map_err(|error| Failure::local_failure("no page can be written", error))?;
    if let Err(error) = open::that_detached(page.path()) {
        session.output.note(format!("no browser opens ({error}); open the address above in one"));
    }
    session.output.note("Ctrl-C ends the console");
    Signals::new()?.next().await;
    Ok(())
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
