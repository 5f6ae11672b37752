//! `inferstore model init`.

use std::path::PathBuf;
use std::{fs, io};

use clap::Subcommand;
use inferstore_service::check_model_id;

use crate::exit;
use crate::failure::{Failure, Result};
use crate::output::Report;
use crate::settings::Session;
use crate::table::Table;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write the files of a new model: what it takes and gives, a Python function, a node that runs it
    #[command(after_help = EXAMPLES)]
    Init {
        /// The identifier of the model: small letters, digits and hyphens
        model: String,
        /// The folder, which is new [default: the identifier]
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

const EXAMPLES: &str = "\
Examples:
  inferstore model init soft-focus
  inferstore node run soft-focus";

const FILES: [(&str, &str); 5] = [
    ("model.json", include_str!("model_init/model.json")),
    ("model.py", include_str!("model_init/model.py")),
    ("worker.py", include_str!("../../../node/examples/vision/worker.py")),
    ("requirements.txt", include_str!("model_init/requirements.txt")),
    ("node.json", include_str!("model_init/node.json")),
];

pub(crate) fn execute(command: Command, session: &Session) -> Result {
    let Command::Init { model, folder } = command;
    check_model_id(&model)
        .map_err(|why| Failure::usage(why).with_hint("for example: inferstore model init soft-focus"))?;
    let folder = folder.unwrap_or(PathBuf::from(&model));
    let failed = |error: io::Error| Failure::new(exit::FAILED, format!("{}: {error}", folder.display()));
    let place = session.here(&folder);
    fs::create_dir(&place).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::new(exit::INPUT, format!("{} is there already; nothing was written", folder.display()))
                .with_hint("remove it, or name a new folder with --folder")
        }
        _ => failed(error),
    })?;
    let title = inferstore_console::titled(&model);
    for (name, text) in FILES {
        let text = text.replace("MODEL", &model).replace("TITLE", &title);
        fs::write(place.join(name), text).map_err(failed)?;
    }
    session
        .note(format!("describe the model in {0}/model.json and write it in {0}/model.py", folder.display()));
    session.note(format!("then run it: inferstore node run {}", folder.display()));
    let quiet = folder.display().to_string();
    let json = serde_json::json!({ "model": model, "folder": quiet });
    session.output.report(&Report::of_one(Table::default(), json, quiet))
}
