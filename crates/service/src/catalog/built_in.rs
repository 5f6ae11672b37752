//! The models that a fresh service begins with, one for each kind of the document: one file each under
//! `models/`, in the form in which any model is published.

use inferstore_models::built_in;

use super::{Existing, ModelSpec, NewModel};
use crate::Result;
use crate::accounts::Account;
use crate::clock::Moment;
use crate::database::Database;

macro_rules! files {
    ($($name:literal)*) => { &[$(include_str!(concat!("models/", $name, ".json"))),*] };
}

/// The files in the order of publication.
const FILES: &[&str] = files! {
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
};

/// Adds the built-in models, or brings them up to date.
pub(crate) async fn publish_built_in(database: &dyn Database, operator: &Account, now: Moment) -> Result<()> {
    let models = built_in_models(operator, now)?;
    database.publish(&models, Existing::Refresh).await?;
    Ok(())
}

fn built_in_models(operator: &Account, now: Moment) -> Result<Vec<NewModel>> {
    let model = |text: &&str| {
        let mut model = ModelSpec::from_json(text)?.to_model(operator, now)?;
        model.is_verified = built_in().iter().any(|runner| runner.kind() == model.id);
        Ok(model)
    };
    FILES.iter().map(model).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::{AccountId, OPERATOR, Scope};

    #[test]
    fn every_built_in_model_can_be_published_and_has_a_sample_of_every_input() -> Result<()> {
        let operator = Account {
            id: AccountId(1),
            username: OPERATOR.to_owned(),
            scope: Scope::Organization,
            wallet_address: String::new(),
            bucket: String::new(),
        };
        let models = built_in_models(&operator, Moment(0))?;
        assert_eq!(models.len(), 15);
        assert!(models.iter().all(|model| model.is_official && model.is_public));
        for text in FILES {
            let spec = ModelSpec::from_json(text)?;
            let (inputs, _) = spec.checked().map_err(|why| crate::Error::new("checking a model", why))?;
            let has_samples = inputs.parameters().all(|(_, descriptor)| !descriptor.samples.is_empty());
            assert!(has_samples, "{}", spec.id);
        }
        Ok(())
    }
}
