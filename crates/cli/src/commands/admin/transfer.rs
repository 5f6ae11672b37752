//! `inferstore admin export` and `inferstore admin import`.

use std::path::PathBuf;

use clap::Args;
use inferstore_service::{DataLocation, Error, Transferred};

use super::calls::done;
use crate::commands::serve::{database_or_variable, objects};
use crate::exit;
use crate::failure::{Failure, Result};
use crate::settings::Session;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The folder of the export
    folder: PathBuf,
    /// The PostgreSQL of the service; INFERSTORE_DATABASE may hold the URL and its password instead [default: the
    /// data folder]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The bucket of the service, as `serve` names it; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY hold its keys
    /// [default: the data folder]
    #[arg(long, value_name = "URL")]
    objects: Option<String>,
}

impl Arguments {
    fn location(&self, data_dir: PathBuf, session: &Session) -> Result<DataLocation> {
        let database = database_or_variable(self.database.as_deref(), session)?;
        let objects = objects(self.objects.as_deref(), session)?;
        Ok(DataLocation::new(data_dir, database, objects))
    }
}

pub(super) async fn export(arguments: &Arguments, data_dir: PathBuf, session: &Session) -> Result {
    let location = arguments.location(data_dir, session)?;
    let exported = location.export(&session.here(&arguments.folder)).await.map_err(failed)?;
    report(session, "exported", &exported)?;
    match exported.missing {
        0 => Ok(()),
        missing => Err(Failure::new(exit::FAILED, format!("{missing} objects have no bytes"))
            .with_hint("the data are damaged; everything else is in the export")),
    }
}

pub(super) async fn import(arguments: &Arguments, data_dir: PathBuf, session: &Session) -> Result {
    let folder = session.here(&arguments.folder);
    let imported = arguments.location(data_dir, session)?.import(&folder).await.map_err(failed)?;
    let verb =
        if imported.is_repeated { "nothing was changed: an earlier import has read" } else { "imported" };
    report(session, verb, &imported)
}

fn report(session: &Session, verb: &str, transferred: &Transferred) -> Result {
    let Transferred { accounts, tasks, objects, bytes, audit, .. } = transferred;
    let note = format!(
        "{verb} {accounts} accounts, {tasks} tasks, {} movements of money, {objects} objects with {bytes} bytes",
        audit.movements
    );
    let data = serde_json::to_value(transferred)
        .map_err(|error| Failure::local_failure("the numbers cannot be written", error))?;
    done(session, &note, &data, "")?;
    match &audit.faults[..] {
        [] => Ok(()),
        faults => Err(Failure::new(exit::FAILED, format!("the audit found {}", faults.join("; ")))
            .with_hint("the data had these faults before the move")),
    }
}

fn failed(error: Error) -> Failure {
    let hint = error.hint().unwrap_or("correct what is named and run it again");
    Failure::new(exit::FAILED, error.to_string()).with_hint(hint)
}
