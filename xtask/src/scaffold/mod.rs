//! `cargo xtask scaffold`: the mechanical part of an addition to the API.

mod code;
mod edits;
pub(crate) mod yaml;

use std::path::Path;

use anyhow::Result;
use edits::Edits;
use yaml::Yaml;

use crate::document::{DOCUMENT, Document};
use crate::generate;
use crate::validate::validate;

const BUILT_IN: &str = "crates/service/src/catalog/built_in.rs";

const FIELD_TYPES: [&str; 5] = ["string", "integer", "number", "boolean", "date-time"];

#[derive(clap::Args)]
pub(crate) struct Job {
    #[command(subcommand)]
    addition: Addition,
}

#[derive(clap::Subcommand)]
enum Addition {
    /// Add an optional property to a schema, as its last one.
    Field {
        /// Such as TaskDetail.
        schema: String,
        /// Such as queue_position.
        name: String,
        #[arg(long = "type", value_name = "TYPE", default_value = "string", value_parser = FIELD_TYPES)]
        kind: String,
        /// Its description: a sentence.
        #[arg(long, value_name = "TEXT")]
        description: String,
    },
    /// Add a word to a vocabulary, as its last one.
    Word {
        /// Such as TaskStatus.
        schema: String,
        /// Such as expired.
        word: String,
        /// Its meaning: a sentence.
        #[arg(long, value_name = "TEXT")]
        meaning: String,
        /// Nothing follows the word: a wait ends with it.
        #[arg(long)]
        terminal: bool,
    },
    /// Add an operation: to the document, as a copy of a neighbor, and its route, handler, method and tests.
    ///
    /// Without --like, the operation is in the document already, and only the code that it lacks is written.
    Operation {
        /// The operationId, such as getTaskLogs.
        id: String,
        /// The operationId of a neighbor, with the same parameters.
        #[arg(long, value_name = "ID", requires_all = ["path", "summary"])]
        like: Option<String>,
        /// Such as /api-key/task/{id}/logs.
        #[arg(long, requires = "like")]
        path: Option<String>,
        /// Such as "Read the log of a task".
        #[arg(long, value_name = "TEXT", requires = "like")]
        summary: Option<String>,
    },
    /// Add a model kind: its schemas and its model in the catalog, as copies of a neighbor.
    Kind {
        /// Such as sky-replacement.
        name: String,
        /// The name of a neighbor, with the same inputs and outputs.
        #[arg(long, value_name = "KIND")]
        like: String,
        /// Its description: a sentence.
        #[arg(long, value_name = "TEXT")]
        description: String,
    },
}

impl Job {
    pub(crate) fn run(self, root: &Path) -> Result<String> {
        let path = root.join(DOCUMENT);
        let mut yaml = Yaml::of(Document::load(&path)?);
        match &self.addition {
            Addition::Field { schema, name, kind, description } => {
                yaml.add_field(schema, name, kind, description)?;
            }
            Addition::Word { schema, word, meaning, terminal } => {
                yaml.add_word(&yaml.schema(schema)?, word, meaning, *terminal)?;
            }
            Addition::Operation { id, like, path, summary } => {
                if let (Some(like), Some(path), Some(summary)) = (like, path, summary) {
                    yaml.add_operation(id, like, path, summary)?;
                }
            }
            Addition::Kind { name, like, description } => {
                yaml.add_kind(name, like, description)?;
            }
        }
        // Nothing is written before the new text has passed.
        let document = Document::parse(&path, yaml.text())?;
        document.reject(validate(&document)?)?;
        let mut edits = Edits::new(root);
        match &self.addition {
            Addition::Operation { id, .. } => {
                code::add(&mut edits, &document.value, id, &generate::client(&document)?)?;
            }
            Addition::Kind { name, like, .. } => add_model(&mut edits, name, like)?,
            Addition::Field { .. } | Addition::Word { .. } => {}
        }
        edits.set(DOCUMENT, document.text);
        Ok(format!("{}next: cargo xtask sync\n", edits.write()?))
    }
}

fn add_model(edits: &mut Edits<'_>, name: &str, like: &str) -> Result<()> {
    let file = |kind: &str| format!("crates/service/src/catalog/models/{kind}.json");
    let model = edits.read(&file(like))?;
    let model = model.replace(like, name).replace(&like.replace('-', "_"), &name.replace('-', "_"));
    edits.set(&file(name), model);
    edits.insert(BUILT_IN, "\n};\n", &format!("\n    {name:?}"))
}
