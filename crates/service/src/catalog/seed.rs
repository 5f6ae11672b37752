//! The models that a fresh service begins with: one file each under `models/`, to be read and changed
//! there.

use inferstore_models::built_in;

use super::entry::{Entry, Mistake, Publisher};
use super::{Existing, NewModel};
use crate::Error;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::store::Store;

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

/// Adds the catalog's models, or brings them up to date.
pub(crate) async fn seed(
    store: &dyn Store,
    operator: AccountId,
    community: AccountId,
    now: Moment,
) -> Result<(), Error> {
    let models: Vec<NewModel> = FILES
        .iter()
        .map(|(name, text)| {
            read(text, operator, community, now)
                .map_err(|cause| Error::new(format!("reading the model {name} of the catalog"), cause))
        })
        .collect::<Result<_, _>>()?;
    store.publish(&models, Existing::Refresh).await?;
    Ok(())
}

fn read(text: &str, operator: AccountId, community: AccountId, now: Moment) -> Result<NewModel, Mistake> {
    let mut entry: Entry = serde_json::from_str(text)?;
    entry.run_by(built_in().iter().find(|model| model.kind() == entry.id).copied());
    match entry.publisher {
        Some(Publisher::Operator) => entry.model(operator, true, now),
        Some(Publisher::Community) => entry.model(community, false, now),
        None => Err("it does not say who publishes it".into()),
    }
}

/// A model that somebody publishes.
pub(crate) fn published(
    text: &str,
    owner: AccountId,
    is_official: bool,
    now: Moment,
) -> Result<NewModel, Mistake> {
    let entry: Entry = serde_json::from_str(text)?;
    match entry.publisher {
        None => entry.model(owner, is_official, now),
        Some(_) => Err("its publisher is the account that publishes it; leave the field out".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Inputs, check_inputs};

    #[test]
    fn every_file_is_a_model_whose_samples_it_accepts() -> Result<(), Mistake> {
        for (name, text) in FILES {
            let entry: Entry = serde_json::from_str(text)?;
            assert_eq!(entry.id, *name);
            for choice in 0..2 {
                let mut samples = serde_json::Map::new();
                for (name, descriptor) in entry.input_format.parameters() {
                    let sample = descriptor.samples.get(choice).or_else(|| descriptor.samples.first());
                    samples.insert(name.to_owned(), serde_json::to_value(sample)?);
                }
                let inputs: Inputs = serde_json::from_str(&serde_json::to_string(&samples)?)?;
                assert_eq!(check_inputs(&entry.input_format, &inputs), Ok(()), "{name}");
            }
            let model = read(text, AccountId(1), AccountId(2), Moment(0))?;
            assert!(Moment(0) < model.created_at && model.created_at <= model.updated_at, "{name}");
        }
        Ok(())
    }
}
