//! The models that a fresh service begins with: one file each under `models/`, to be read and changed
//! there.

use inferstore_models::built_in;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::to_raw_value;

use super::{Existing, Format, FullMetadata, Metadata, NewModel, NewVersion};
use crate::Error;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::Database;

macro_rules! files {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("models/", $name, ".json")))),*] };
}

/// The files in the order of publication.
const FILES: &[(&str, &str)] = files! {
    "image-blending"
    "color-harmonization"
    "face-detection"
    "feature-matching"
    "background-replacement"
    "face-mesh"
    "semantic-low-light-enhancement"
    "low-light-enhancement"
    "super-resolution"
    "super-resolution-alt"
    "haze-removal"
    "video-edge-map"
    "background-removal"
    "image-to-anime"
    "color-extraction"
    "pencil-sketch"
    "film-grain"
    "carte-postale"
    "watermark-draft"
    "depth-preview"
    "noise-study"
};

/// What the description of a model adds as long as the service cannot run it.
const WAITS: &str = "This service does not run it by itself, so its tasks wait for a node that does.";

/// A model as its file tells it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    name: String,
    publisher: Publisher,
    description: String,
    is_public: bool,
    is_playground: bool,
    /// A text, so that it is exact.
    price: String,
    likes: i64,
    downloads: i64,
    created_at: String,
    updated_at: String,
    metadata: Metadata,
    input_format: Format,
    output_format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Publisher {
    Operator,
    Community,
}

/// Adds the catalog's models, or brings them up to date.
pub(crate) async fn publish_built_in(
    database: &dyn Database,
    operator: AccountId,
    community: AccountId,
) -> Result<(), Error> {
    let models: Vec<NewModel> = FILES
        .iter()
        .map(|(name, text)| {
            read(text, operator, community)
                .map_err(|cause| Error::new(format!("reading the model {name} of the catalog"), cause))
        })
        .collect::<Result<_, _>>()?;
    database.publish(&models, Existing::Refresh).await?;
    Ok(())
}

fn read(
    text: &str,
    operator: AccountId,
    community: AccountId,
) -> Result<NewModel, Box<dyn std::error::Error + Send + Sync>> {
    let entry: Entry = serde_json::from_str(text)?;
    let is_official = entry.publisher == Publisher::Operator;
    // What this process runs tells by itself which method it is.
    let built_in = built_in().iter().find(|model| model.kind() == entry.id);
    let mut told = entry.metadata;
    if let Some(model) = built_in {
        told.library = model.libraries().iter().map(|library| (*library).to_owned()).collect();
    }
    let metadata = FullMetadata::of(&entry.id, &told);
    Ok(NewModel {
        owner: if is_official { operator } else { community },
        is_official,
        description: match built_in {
            Some(model) => format!("{} {}", entry.description, model.method()),
            None => format!("{} {WAITS}", entry.description),
        },
        price: entry.price.parse()?,
        metadata: to_raw_value(&metadata)?,
        created_at: moment(&entry.created_at)?,
        updated_at: moment(&entry.updated_at)?,
        version: NewVersion::new(&entry.input_format, &entry.output_format)?,
        id: entry.id,
        name: entry.name,
        is_verified: built_in.is_some(),
        is_public: entry.is_public,
        is_playground: entry.is_playground,
        likes: entry.likes,
        downloads: entry.downloads,
    })
}

fn moment(text: &str) -> Result<Moment, jiff::Error> {
    Ok(Moment(text.parse::<Timestamp>()?.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Inputs, check_inputs};

    #[test]
    fn every_file_is_a_model_whose_samples_it_accepts() -> Result<(), Box<dyn std::error::Error + Send + Sync>>
    {
        for (name, text) in FILES {
            let entry: Entry = serde_json::from_str(text)?;
            assert_eq!(entry.id, *name);
            let samples: serde_json::Map<String, serde_json::Value> = entry
                .input_format
                .parameters()
                .filter_map(|(name, descriptor)| {
                    Some((name.to_owned(), serde_json::to_value(descriptor.samples.first()?).ok()?))
                })
                .collect();
            let inputs: Inputs = serde_json::from_str(&serde_json::to_string(&samples)?)?;
            assert_eq!(check_inputs(&entry.input_format, &inputs), Ok(()), "{name}");
            let model = read(text, AccountId(1), AccountId(2))?;
            assert!(model.created_at <= model.updated_at, "{name}");
        }
        Ok(())
    }
}
